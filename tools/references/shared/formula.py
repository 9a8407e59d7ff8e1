"""Deterministic values by formula, so that no weight file has to be kept. C++ mirrors this module.

Element i (flat, C order) of the array called `name`:

  h = FNV-1a-32(name in UTF-8)                 offset 2166136261, prime 16777619
  x = (i * 2654435761 + h) mod 2^32
  x ^= x >> 16;  x *= 0x7feb352d;  x ^= x >> 15;  x *= 0x846ca68b;  x ^= x >> 16     (lowbias32)
  u = x / 2^32                                 float64, exact
  value = (2u - 1) * scale                     float64, then rounded once to float32
  byte  = x >> 24                              images of 8 bits

A parameter `name` of timm's layout (Linear [out, in], Conv [out, in, kh, kw]); the first rule
that fits gives the value, and `rest` is the name after its last dot:

  1. pos_embed, cls_token, reg_token, latent (by `rest`)   scale 0.5
  2. ndim >= 2                                            scale sqrt(3 / fan_in),
                                                          fan_in = product of all dims but the first
  3. ndim 1, `rest` is "weight" (all norms) or "running_var"
                                                          1 + (2u - 1) * 0.2, rounded once
  4. everything else (biases, LayerScale gamma)            scale 0.05

The images of case c at step k: name "c/input<k>", scale 1, [B, 3, H, W].
The label of row i at step k: (i * 7 + k * 3) mod num_classes.
"""
import math

import numpy as np


def bits(name, count):
    """The `count` uint32 values x of the array `name`."""
    h = 2166136261
    for byte in name.encode():
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    x = (np.arange(count, dtype=np.uint64) * 2654435761 + h).astype(np.uint32)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        x ^= x >> np.uint32(shift)
        x *= np.uint32(factor)
    return x


def array(name, shape, scale=1.0, offset=0.0):
    """float32 array: offset + (2u - 1) * scale, rounded once."""
    u = bits(name, math.prod(shape)).astype(np.float64) / 2.0**32
    return (offset + (2 * u - 1) * scale).astype(np.float32).reshape(shape)


def image(name, height, width):
    """uint8 RGB image [height, width, 3]."""
    return (bits(name, height * width * 3) >> np.uint32(24)).astype(np.uint8).reshape(height, width, 3)


def parameter(name, shape):
    """Value of the parameter `name`."""
    rest = name.split(".")[-1]
    if rest in ("pos_embed", "cls_token", "reg_token", "latent"):
        return array(name, shape, 0.5)
    if len(shape) >= 2:
        return array(name, shape, math.sqrt(3 / math.prod(shape[1:])))
    if rest in ("weight", "running_var"):
        return array(name, shape, 0.2, 1.0)
    return array(name, shape, 0.05)


def images(case, step, shape):
    return array(f"{case}/input{step}", shape)


def labels(step, batch, num_classes):
    return np.array([(i * 7 + step * 3) % num_classes for i in range(batch)], dtype=np.int64)


def fill(model):
    """Sets every parameter of a torch module by the formula."""
    import torch

    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.from_numpy(parameter(name, tuple(p.shape))))
    return model


if __name__ == "__main__":  # a few values for a C++ unit test
    print("x", [f"{v:#010x}" for v in bits("head.weight", 4)])
    print("head.weight [10, 48]", array("head.weight", (4,), math.sqrt(3 / 48)).tolist())
    print("norm.weight [48]", parameter("norm.weight", (4,)).tolist())
    print("token/input0", images("token", 0, (4,)).tolist())
