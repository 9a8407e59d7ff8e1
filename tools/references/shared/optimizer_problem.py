"""A small problem for optimizers, shared by optimizers.py and big_vision_optimizers.py: parameters of mixed shapes and their
gradients by formula. Both write runs of STEPS updates with the same keys; tests/optim/reference_test.cc reads them.

PARAMETERS: [name, dims in our layout, stacked, layer (of the first block)]. A kernel is [in, out] or [h, w, in, out]; a stacked parameter's first dimension
counts blocks, each of which is an array of its own for the original. `zero/kernel` begins at zero, every other parameter as
formula.array("optim/<name>", dims, 0.5). The gradient of update k is formula.array("optim/<name>/grad<k>", dims, 1) times
0.1 + k / 10, so that norms change. Rates fall linearly: update k has lr (1 - k / TOTAL).

File: for each run "<run>/<name>", the parameter after the last update, float32. config: parameters, steps, total, runs
{name: the options of our recipe}, tolerance {name: where it is more than 1e-5}.
"""
import numpy as np

import formula

STEPS, TOTAL = 20, 40
PARAMETERS = [
    ["scalar", [], False, 4],
    ["norm/scale", [7], False, 0],
    ["dense/kernel", [12, 10], False, 0],
    ["wide/kernel", [6, 30], False, 0],
    ["thin/kernel", [3, 2], False, 0],
    ["conv/kernel", [3, 3, 6, 8], False, 0],
    ["patch/kernel", [9, 10, 3, 2], False, 0],
    ["embed", [1, 6, 10], False, 0],
    ["zero/kernel", [8, 5], False, 4],
    ["blocks/mlp/kernel", [3, 9, 6], True, 1],
    ["blocks/norm/scale", [3, 5], True, 1],
]


def initial(name, dims):
    return np.zeros(dims, np.float32) if name == "zero/kernel" else formula.array("optim/" + name, dims, 0.5)


def gradient(name, dims, step):
    return formula.array(f"optim/{name}/grad{step}", dims) * np.float32(0.1 + step / 10)


def blocks(name, stacked, array):
    """[(name of one array, its values)]: the arrays that the original has."""
    return [(f"{name}#{b}", block) for b, block in enumerate(array)] if stacked else [(name, array)]


def layers(part, layer):
    """The layer of one array."""
    return layer + int(part.partition("#")[2] or 0)


LAST_LAYER = max(layer + (dims[0] - 1 if stacked else 0) for _, dims, stacked, layer in PARAMETERS)


def decays(array):
    """timm's mask."""
    return array.ndim > 1
