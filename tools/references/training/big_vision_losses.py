"""Losses of classifiers by big_vision's own code: tests/references/big_vision_losses.safetensors, in float64.

Run: BIG_VISION=<checkout of google-research/big_vision at 0127fb6> tools/references/run.sh big_vision_losses

Logits, teacher and labels are those of losses.py. Keys, each [1], and grad/<key> [B, C] of the logits:
  smoothed           utils.softmax_xent of utils.onehot(labels) with 0.9 for the label and 0.1 / (C - 1) for every other class
  sigmoid sigmoid_smoothed   utils.sigmoid_xent of utils.onehot; of 0.9 and 0.025
  kl hard            evaluators/proj/distill/distance.dist: kl with t = 3; hard
"""
import sys
import types

import jax
import jax.numpy as jnp

import formula
import flax_code
from tensors import save

# What distance.py imports and dist() does not call.
for module in ("input_pipeline", "datasets", "datasets.core", "pp", "pp.builder"):
    sys.modules[f"big_vision.{module}"] = types.ModuleType(f"big_vision.{module}")
sys.modules["einops"] = types.ModuleType("einops")

import big_vision.utils as u
from big_vision.evaluators.proj.distill import distance

BATCH, CLASSES = 6, 5
LABELS = [3, 0, 4, 4, 1, 2]


def main():
    start = jnp.asarray(formula.array("losses/logits", (BATCH, CLASSES), 3.0), jnp.float64)
    teacher = jnp.asarray(formula.array("losses/teacher", (BATCH, CLASSES), 3.0), jnp.float64)
    targets = lambda on, off: u.onehot(jnp.asarray(LABELS), CLASSES, on_value=on, off_value=off).astype(jnp.float64)
    losses = dict(
        smoothed=lambda x: u.softmax_xent(logits=x, labels=targets(0.9, 0.1 / (CLASSES - 1))),
        sigmoid=lambda x: u.sigmoid_xent(logits=x, labels=targets(1.0, 0.0)),
        sigmoid_smoothed=lambda x: u.sigmoid_xent(logits=x, labels=targets(0.9, 0.025)),
        kl=lambda x: jnp.mean(distance.dist(x, teacher, "kl", t=3)),
        hard=lambda x: jnp.mean(distance.dist(x, teacher, "hard")),
    )
    tensors = {}
    for name, loss_of in losses.items():
        loss, grad = jax.value_and_grad(loss_of)(start)
        tensors |= {name: loss, f"grad/{name}": grad}
    save("big_vision_losses.safetensors", tensors, {})


if __name__ == "__main__":
    main()
