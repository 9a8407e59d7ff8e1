"""A training step of timm's VisionTransformer or ResNet in PyTorch.   torch_step.py TASK BATCH STEPS (eager | compile | xla)

xla: PyTorch/XLA's CPU device, one graph a step.
"""
import sys
import time

import timm
import torch

from tasks import LEARNING_RATE, TASKS, measure


def model_of(name, task):
    if name.startswith("resnet"):
        return timm.create_model(name, num_classes=task.classes)
    return timm.models.VisionTransformer(
        img_size=task.size, patch_size=task.patch, embed_dim=task.width, depth=task.depth, num_heads=task.heads,
        num_classes=task.classes, class_token=False, global_pool="avg")


def main():
    task, batch, steps, mode = TASKS[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    torch.manual_seed(0)
    model = model_of(sys.argv[1], task)
    version, device, sync = f"torch {torch.__version__.split('+')[0]} {mode}", torch.device("cpu"), lambda: None
    if mode == "xla":
        import torch_xla
        version, device, sync = f"torch_xla {torch_xla.__version__}", torch_xla.device(), torch_xla.sync
    model = model.to(device).train()
    forward = torch.compile(model) if mode == "compile" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=task.decay, fused=mode != "xla")
    images = torch.rand(batch, 3, task.size, task.size).mul_(2).sub_(1).to(device)
    labels = torch.randint(0, task.classes, (batch,)).to(device)
    sync()

    def step():
        loss = torch.nn.functional.cross_entropy(forward(images), labels)
        loss.backward()
        if task.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), task.clip)
        optimizer.step()
        optimizer.zero_grad()
        sync()
        return loss.item()

    start = time.perf_counter()
    step()
    measure(version, batch, steps, step, time.perf_counter() - start)


if __name__ == "__main__":
    main()
