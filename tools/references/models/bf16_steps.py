"""Fifty AdamW steps of the case `avg` of vit.py under PyTorch's autocast to bfloat16: tests/references/bf16_steps.safetensors.

Run: tools/references/run.sh bf16_steps, or `python bf16_steps.py` in its environment.

The first run of adamw.py without clipping, on five batches that come again and again, so that they are learnt.
Keys: losses_bf16 [50], under autocast; losses_f32 [50], the same run in float32.
config: as that of adamw.py, with batches, how many there are.
"""
import torch
from timm.models.vision_transformer import VisionTransformer
from torch.nn.functional import cross_entropy

import formula
from adamw import ADAMW, BATCH, SHAPE, groups
from tensors import save
from vit import AVG, SMALL

STEPS, BATCHES = 50, 5


def train(autocast):
    model = formula.fill(VisionTransformer(**SMALL | AVG)).train()
    optimizer = torch.optim.AdamW(groups(model, ADAMW["weight_decay"]), lr=ADAMW["lr"], betas=ADAMW["betas"], eps=ADAMW["eps"])
    losses = []
    for step in range(STEPS):
        images = torch.from_numpy(formula.images("adamw", step % BATCHES, SHAPE))
        labels = torch.from_numpy(formula.labels(step % BATCHES, BATCH, SMALL["num_classes"]))
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model


def main():
    losses, model = train(True)
    exact, _ = train(False)
    decayed = {id(p) for g in groups(model, ADAMW["weight_decay"]) if g["weight_decay"] for p in g["params"]}
    save("bf16_steps.safetensors", {"losses_bf16": losses, "losses_f32": exact}, dict(
        args=SMALL | AVG, batch=BATCH, steps=STEPS, batches=BATCHES, input=list(SHAPE), runs={"": ADAMW},
        parameters=[[n, list(p.shape), id(p) in decayed] for n, p in model.named_parameters()]))
    for a, b in zip(losses, exact):
        print(f"{a:.4f} {b:.4f} {a - b:+.4f}")


if __name__ == "__main__":
    main()
