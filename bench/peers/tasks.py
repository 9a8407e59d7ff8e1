"""The work that every side of the step benchmarks does, and how it is timed.

A ViT with mean pooling, learned positions and exact GELU (timm's VisionTransformer without class token) or timm's model of the
task's name, mean softmax cross-entropy, AdamW on every parameter, f32; one batch that is already on the device; the loss is read
after every step.
"""
import json
import time
from types import SimpleNamespace

TASKS = {
    "vit_small": SimpleNamespace(width=384, depth=12, heads=6, patch=16, size=224, classes=1000, decay=1e-4, clip=None),
    "digits": SimpleNamespace(width=96, depth=6, heads=3, patch=4, size=16, classes=10, decay=0.05, clip=1.0),
} | {name: SimpleNamespace(size=224, classes=1000, decay=1e-4, clip=None)
     for name in ("vit_small_patch16_224", "resnet18", "resnet50", "convnext_tiny", "resnext50_32x4d", "mixer_s16_224",
                  "resmlp_12_224")}
LEARNING_RATE = 1e-3
WARMUP = 2


def measure(name, batch, steps, step, compile_seconds=0.0):
    """Calls step() -> loss, a Python number, WARMUP + steps times and prints one JSON line."""
    seconds, cpu_seconds = [], []
    for i in range(WARMUP + steps):
        wall, cpu = time.perf_counter(), time.process_time()
        loss = step()
        if i >= WARMUP:
            seconds.append(time.perf_counter() - wall)
            cpu_seconds.append(time.process_time() - cpu)
    print(json.dumps({"name": name, "batch": batch, "compile_seconds": round(compile_seconds, 3), "seconds": seconds,
                      "cpu_seconds": cpu_seconds, "loss": loss}), flush=True)
