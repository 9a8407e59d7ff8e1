"""A training step of a timm model in PyTorch.   torch_step.py TASK BATCH STEPS (eager | compile | xla) [bf16] [channels_last] [cuda]

xla: PyTorch/XLA's CPU device, one graph a step. bf16: autocast, as timm's --amp-dtype bfloat16. cuda: on the first GPU, with f32
products in TF32 as XLA makes them.
"""
import sys
import time

import timm
import torch

from tasks import LEARNING_RATE, TASKS, measure


def model_of(name, task):
    if not hasattr(task, "patch"):
        return timm.create_model(name, num_classes=task.classes)
    return timm.models.VisionTransformer(
        img_size=task.size, patch_size=task.patch, embed_dim=task.width, depth=task.depth, num_heads=task.heads,
        num_classes=task.classes, class_token=False, global_pool="avg")


def main():
    task, batch, steps, mode, words = TASKS[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:]
    torch.manual_seed(0)
    model = model_of(sys.argv[1], task)
    version, device, sync = f"torch {torch.__version__.split('+')[0]} {mode}", torch.device("cpu"), lambda: None
    if "cuda" in words:
        device = torch.device("cuda")
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    if mode == "xla":
        import torch_xla
        version, device, sync = f"torch_xla {torch_xla.__version__}", torch_xla.device(), torch_xla.sync
    model = model.to(device).train()
    layout = torch.channels_last if "channels_last" in words else torch.contiguous_format
    model = model.to(memory_format=layout)
    forward = torch.compile(model) if mode == "compile" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=task.decay, fused=mode != "xla")
    images = torch.rand(batch, 3, task.size, task.size).mul_(2).sub_(1).to(device, memory_format=layout)
    labels = torch.randint(0, task.classes, (batch,)).to(device)
    sync()

    def step():
        with torch.autocast(device.type, torch.bfloat16, enabled="bf16" in words):
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
