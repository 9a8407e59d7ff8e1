"""big_vision's code made ready to run in float64, and the parameters of its models <-> ours.

Import this before big_vision: it puts the checkout that BIG_VISION names on the path. A model's table `layers` says for each of
our parameters (blocks, flax's paths with {} for the block; several stand side by side); blocks is 0 where there is no stack.
"""
import os
import sys
import types

import flax.io  # looks for tensorflow: before there is an empty one
import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

import formula

if "BIG_VISION" not in os.environ:
    sys.exit("set BIG_VISION to a checkout of google-research/big_vision at 0127fb6")
sys.path.insert(0, os.environ["BIG_VISION"])
# What is imported and not called: files, and tokenizers.
for module in ("tensorflow", "tensorflow.io", "tensorflow.io.gfile", "big_vision.pp.ops_text"):
    sys.modules[module] = types.ModuleType(module)

from big_vision import optax as bv_optax

jax.config.update("jax_enable_x64", True)


def norm(ours, theirs, blocks=0):
    return {f"{ours}/{leaf}": (blocks, [f"{theirs}/{leaf}"]) for leaf in ("scale", "bias")}


def projections(ours, theirs, names, blocks):
    return {f"{ours}/{leaf}": (blocks, [f"{theirs}/{n}/{leaf}" for n in names]) for leaf in ("kernel", "bias")}


def flat(tree, prefix=""):
    for key, child in tree.items():
        path = f"{prefix}/{key}" if prefix else key
        yield from flat(child, path) if isinstance(child, dict) else [(path, child)]


def two_dims(path, array):
    """A kernel of attention, [in, heads, width] or (out's) [heads, width, out], and one of patches as a matrix; biases flat."""
    layer, leaf = ("/" + path).split("/")[-2:]
    if leaf == "bias":
        return array.reshape(-1)
    if leaf != "kernel":
        return array
    return array.reshape(-1, array.shape[-1]) if layer in ("out", "embedding") else array.reshape(array.shape[0], -1)


def to_ours(tree, layers):
    """flax's parameters, or their gradient, as ours."""
    arrays, ours, used = dict(flat(tree)), {}, set()
    for name, (blocks, paths) in layers.items():
        if paths[0].format(0) not in arrays:
            continue
        rows = []
        for b in range(max(blocks, 1)):
            used |= {p.format(b) for p in paths}
            rows.append(np.concatenate([two_dims(p, np.asarray(arrays[p.format(b)])) for p in paths], axis=-1))
        ours[name] = np.stack(rows) if blocks else rows[0]
    assert used == set(arrays), set(arrays) ^ used
    return ours


def from_ours(ours, tree, layers):
    """flax's tree with the values of ours."""
    shapes, out = {p: a.shape for p, a in flat(tree)}, {}
    for name, (blocks, paths) in layers.items():
        if name not in ours:
            continue
        for b in range(max(blocks, 1)):
            row = ours[name][b] if blocks else ours[name]
            for path, part in zip(paths, np.split(row, len(paths), axis=-1)):
                out[path.format(b)] = jnp.asarray(part, jnp.float64).reshape(shapes[path.format(b)])
    nested = {}
    for path, array in out.items():
        *scopes, leaf = path.split("/")
        at = nested
        for scope in scopes:
            at = at.setdefault(scope, {})
        at[leaf] = array
    return nested


def text_of(length, vocabulary, rows, salt):
    """Ids without 0, then padding with 0: row i has length - i % 3 of them."""
    ids = formula.bits(salt, rows * length).astype(np.int64).reshape(rows, length) % (vocabulary - 1) + 1
    for row in range(rows):
        ids[row, length - row % 3:] = 0
    return ids


def trajectory(params, loss_of, steps):
    """Updates by big_vision's Adafactor: the loss before each, and the parameters' norm after it."""
    config = ml_collections.ConfigDict(dict(
        optax_name="big_vision.scale_by_adafactor", optax=dict(beta2_cap=0.999, dtype_momentum="float32"), grad_clip_norm=1.0,
        lr=0.01, wd=0.01, schedule=dict(decay_type="linear")))
    transform, _ = bv_optax.make(config, params, sched_kw=dict(total_steps=20))
    state, losses, norms = transform.init(params), [], []
    step = jax.jit(jax.value_and_grad(loss_of))
    for _ in range(steps):
        loss, grads = step(params)
        updates, state = transform.update(grads, state, params)
        params = jax.tree.map(lambda p, d: p + d, params, updates)
        losses.append(loss)
        norms.append(jnp.sqrt(sum(jnp.sum(p * p) for p in jax.tree.leaves(params))))
    return {"adafactor/losses": np.array(losses), "adafactor/norms": np.array(norms)}
