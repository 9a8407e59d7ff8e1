"""A training step in JAX.   jax_step.py TASK BATCH STEPS FORM [depth=N] [fsdp=N]

FORM `plain`: a scan over blocks, layers on [batch, tokens, width], attention by einsum, nothing recomputed.
FORM `tuned`: what this compiler runs fastest: tokens flattened to [batch * tokens, width] for every dense layer, heads moved by one
transpose and multiplied with two batch dimensions, and of a block everything but its dense products recomputed backward.

With fsdp=N the batch is split over N devices, and of each array of the state the largest dimension that N divides, but never that
of the blocks.
"""
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tasks import LEARNING_RATE, TASKS, measure


def initial(task, rng):
    draw = lambda *shape: jnp.asarray(rng.standard_normal(shape, dtype="f") * 0.02)
    d, n, m, inputs = task.width, task.depth, 4 * task.width, task.patch**2 * 3
    blocks = {
        "norm1": jnp.ones((n, d)), "norm1_bias": jnp.zeros((n, d)), "qkv": draw(n, d, 3 * d), "qkv_bias": jnp.zeros((n, 3 * d)),
        "proj": draw(n, d, d), "proj_bias": jnp.zeros((n, d)), "norm2": jnp.ones((n, d)), "norm2_bias": jnp.zeros((n, d)),
        "fc1": draw(n, d, m), "fc1_bias": jnp.zeros((n, m)), "fc2": draw(n, m, d), "fc2_bias": jnp.zeros((n, d)),
    }
    return {
        "patch": draw(inputs, d), "patch_bias": jnp.zeros(d), "positions": draw((task.size // task.patch)**2, d), "blocks": blocks,
        "norm": jnp.ones(d), "norm_bias": jnp.zeros(d), "head": draw(d, task.classes), "head_bias": jnp.zeros(task.classes),
    }


def layer_norm(x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean)**2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-6) * scale + bias


def attention(qkv, heads):
    """Plain: [batch, tokens, 3 * width] -> [batch, tokens, width]."""
    b, n, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    q, k, v = jnp.moveaxis(qkv.reshape(b, n, 3, heads, width // heads), 2, 0)
    scores = jnp.einsum("bnhd,bmhd->bhnm", q, k) * (width // heads)**-0.5
    return jnp.einsum("bhnm,bmhd->bnhd", jax.nn.softmax(scores, -1), v).reshape(b, n, width)


def flat_attention(qkv, batch, heads):
    """Tuned: [batch * tokens, 3 * width] -> [batch * tokens, width]."""
    n, width = qkv.shape[0] // batch, qkv.shape[1] // 3
    q, k, v = qkv.reshape(batch, n, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
    scores = jax.lax.dot_general(q * (width // heads)**-0.5, k, (((3,), (3,)), ((0, 1), (0, 1))))
    out = jax.lax.dot_general(jax.nn.softmax(scores, -1), v, (((3,), (2,)), ((0, 1), (0, 1))))
    return out.transpose(0, 2, 1, 3).reshape(batch * n, width)


def loss_function(task, tuned):
    def block(x, w, batch):
        qkv = layer_norm(x, w["norm1"], w["norm1_bias"]) @ w["qkv"] + w["qkv_bias"]
        mixed = flat_attention(qkv, batch, task.heads) if tuned else attention(qkv, task.heads)
        x = x + mixed @ w["proj"] + w["proj_bias"]
        hidden = layer_norm(x, w["norm2"], w["norm2_bias"]) @ w["fc1"] + w["fc1_bias"]
        return x + jax.nn.gelu(hidden, approximate=False) @ w["fc2"] + w["fc2_bias"]

    def loss(p, images, labels):
        batch, side, patch = images.shape[0], task.size // task.patch, task.patch
        x = images.reshape(batch, side, patch, side, patch, 3).transpose(0, 1, 3, 2, 4, 5)
        x = x.reshape((batch * side * side, -1) if tuned else (batch, side * side, -1)) @ p["patch"] + p["patch_bias"]
        x = x.reshape(batch, side * side, task.width) + p["positions"]
        x = x.reshape(batch * side * side, task.width) if tuned else x
        body = lambda x, w: block(x, w, batch)
        if tuned:
            body = jax.checkpoint(body, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)
        x, _ = jax.lax.scan(lambda x, w: (body(x, w), None), x, p["blocks"])
        pooled = layer_norm(x.reshape(batch, side * side, task.width).mean(1), p["norm"], p["norm_bias"])
        logp = jax.nn.log_softmax(pooled @ p["head"] + p["head_bias"])
        return -jnp.take_along_axis(logp, labels[:, None], 1).mean()

    return loss


def make_step(task, form):
    loss = loss_function(task, form != "plain")
    tree_map = jax.tree.map

    def step(p, m, v, t, images, labels):
        value, g = jax.value_and_grad(loss)(p, images, labels)
        if task.clip:
            norm = jnp.sqrt(sum(jnp.sum(x * x) for x in jax.tree.leaves(g)))
            g = tree_map(lambda x: x * jnp.minimum(1, task.clip / (norm + 1e-6)), g)
        t = t + 1
        m = tree_map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        update = lambda p, m, v: p - LEARNING_RATE * (
            m / (1 - 0.9**t) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8) + task.decay * p)
        return tree_map(update, p, m, v), m, v, t, value

    return step


def example(task, batch, seed=0):
    """The arguments of the first step."""
    rng = np.random.default_rng(seed)
    p = initial(task, rng)
    zeros = lambda: jax.tree.map(jnp.zeros_like, p)
    images = jnp.asarray(rng.random((batch, task.size, task.size, 3), dtype="f") * 2 - 1)
    labels = jnp.asarray(rng.integers(0, task.classes, batch, dtype="i4"))
    return p, zeros(), zeros(), jnp.float32(0), images, labels


def shardings(task, arguments, devices):
    """Of example()'s arguments, on the first `devices` devices."""
    mesh = Mesh(np.array(jax.devices()[:devices]).reshape(devices), ("fsdp",))

    def spec(path, x):
        free = [i for i, n in enumerate(x.shape) if n % devices == 0 and not (i == 0 and any("blocks" in str(k) for k in path))]
        widest = max(free, key=lambda i: x.shape[i], default=None)
        return NamedSharding(mesh, PartitionSpec(*["fsdp" if i == widest else None for i in range(x.ndim)]))

    *state, images, labels = arguments
    rows = NamedSharding(mesh, PartitionSpec("fsdp"))
    return *jax.tree_util.tree_map_with_path(spec, tuple(state)), rows, rows


def main():
    task, batch, steps, form = TASKS[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    options = dict(word.split("=") for word in sys.argv[5:])
    task.depth = int(options.get("depth", task.depth))
    arguments = example(task, batch)
    placed = shardings(task, arguments, int(options.get("fsdp", 1)))
    *state, images, labels = jax.tree.map(jax.device_put, arguments, placed)
    step = jax.jit(make_step(task, form), donate_argnums=(0, 1, 2), out_shardings=(*placed[:4], None))
    start = time.perf_counter()
    compiled = step.lower(*state, images, labels).compile()
    compile_seconds = time.perf_counter() - start

    def run():
        nonlocal state
        *state, loss = compiled(*state, images, labels)
        return float(loss)

    measure(f"jax {jax.__version__} {form} {jax.devices()[0].platform}", batch, steps, run, compile_seconds)


if __name__ == "__main__":
    main()
