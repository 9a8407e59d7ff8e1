"""Twenty updates by big_vision's own optimizer chain (big_vision/optax.py, commit 0127fb6), in float64 but for what it computes in
float32 itself: tests/references/big_vision_optimizers.safetensors. Problem, keys and config: optimizer_problem.py. And its schedules at steps
0 … 199 of runs so long: tests/references/big_vision_schedules.safetensors; keys and config as schedules.py's.

Run: BIG_VISION=<its checkout> tools/references/run.sh big_vision_optimizers. Of big_vision/utils.py only the functions needed are
taken, since the whole asks for TensorFlow and more.
"""
import ast
import collections.abc
import logging
import os
import re
import sys
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import optimizer_problem as problem
from tensors import save

NEEDED = ("_traverse_with_names", "tree_flatten_with_names", "tree_map_with_names", "check_and_compile_patterns",
          "make_mask_trees", "steps", "create_learning_rate_schedule")


class Config(dict):
    __getattr__ = dict.__getitem__


def load(checkout):
    """(big_vision.optax, big_vision.utils with what it needs)"""
    utils = types.ModuleType("big_vision.utils")
    utils.__dict__.update(jax=jax, jnp=jnp, np=np, re=re, logging=logging, dataclasses=__import__("dataclasses"),
                          flax=types.SimpleNamespace(core=types.SimpleNamespace(FrozenDict=dict)), Mapping=collections.abc.Mapping)
    source = ast.parse((checkout / "big_vision/utils.py").read_text())
    wanted = [n for n in source.body if isinstance(n, ast.FunctionDef) and n.name in NEEDED]
    exec(compile(ast.Module(wanted, []), "utils.py", "exec"), utils.__dict__)
    sys.modules["big_vision"] = package = types.ModuleType("big_vision")
    sys.modules["big_vision.utils"] = package.utils = utils
    chain = types.ModuleType("big_vision.optax")
    exec(compile((checkout / "big_vision/optax.py").read_text(), "optax.py", "exec"), chain.__dict__)
    return chain, utils


WIDE = dict(dtype_momentum=jnp.float32)
LINEAR = dict(decay_type="linear")
BIG_VISION = 'decay_mask = "big_vision", weight_decay = 0.1, lr = "linear(0.01)"'
# name: (our options, big_vision's config)
RUNS = {
    "adafactor_bv": (f'name = "adafactor_bv", min_factored = 5, {BIG_VISION}',
                     dict(optax_name="big_vision.scale_by_adafactor", optax=dict(min_dim_size_to_factor=5, **WIDE))),
    "adafactor_bv_bf16": (f'name = "adafactor_bv", min_factored = 6, clip_threshold = 0.5, moments = "bf16", {BIG_VISION}',
                          dict(optax_name="big_vision.scale_by_adafactor",
                               optax=dict(min_dim_size_to_factor=6, clipping_threshold=0.5))),
    "adafactor_bv_cap": (f'name = "adafactor_bv", b1 = 0, beta2_cap = 0.8, decay_rate = 0.9, {BIG_VISION}',
                         dict(optax_name="big_vision.scale_by_adafactor",
                              optax=dict(momentum=None, beta2_cap=0.8, decay_rate=0.9))),
    "adam": (f'name = "adamw", decoupled = "schedule", {BIG_VISION}', dict(optax_name="scale_by_adam")),
    "lion": (f'name = "lion", decoupled = "schedule", {BIG_VISION}', dict(optax_name="scale_by_lion")),
    "momentum": (f'name = "sgd", nesterov = false, decoupled = "schedule", {BIG_VISION}',
                 dict(optax_name="big_vision.momentum_hp", optax=dict(dtype=jnp.float32))),
    "schedules": ('name = "adamw", decoupled = "schedule", freeze = ["conv/.*"], schedules = ["blocks/.* = cosine(0.01)", '
                  f'"norm/.* = constant(0.01)"], {BIG_VISION}',
                  dict(optax_name="scale_by_adam", schedule=[("conv/.*", None), ("blocks/.*", dict(decay_type="cosine")),
                                                             ("norm/.*", dict(decay_type="stair")), (".*", LINEAR)])),
    "multipliers": (f'name = "adamw", decoupled = "schedule", lr_mult = ["blocks/.* = 0.5", "conv/.* = 2"], {BIG_VISION}',
                    dict(optax_name="scale_by_adam", lr_mults=[("blocks/.*", 0.5), ("conv/.*", 2.0)])),
}
SCHEDULE_STEPS = 200
FROM_0 = "warmup=20 steps, warmup_mode=scale_from_0"
SCHEDULES = {
    "linear": (f"linear(0.1, min=0.02, {FROM_0})", dict(decay_type="linear", linear_end=0.02, warmup_steps=20)),
    "polynomial": ("polynomial(0.1, 2)", dict(decay_type="polynomial", power=2)),
    "cosine": (f"cosine(0.1, cooldown=50 steps, {FROM_0})", dict(decay_type="cosine", warmup_steps=20, cooldown_steps=50)),
    "rsqrt": (f"rsqrt(0.1, timescale=30 steps, shift=12 steps, cooldown=20 %, {FROM_0})",
              dict(decay_type="rsqrt", timescale=30, shift=12, cooldown_percent=0.2, warmup_steps=20)),
    "stair": (f"step(0.1, milestones=[60 steps, 61 steps, 150 steps], factors=[0.5, 0.7, 0.01], {FROM_0})",
              dict(decay_type="stair", steps=[60, 61, 150], mults=[0.5, 0.7, 0.01], warmup_steps=20)),
}

# optax multiplies a bfloat16 mean by its decay in bfloat16; we do it in float32 and round once.
TOLERANCE = {"adafactor_bv_bf16": 5e-4}


def run(chain, config):
    arrays = {}
    for name, dims, stacked, _ in problem.PARAMETERS:
        for part, array in problem.blocks(name, stacked, problem.initial(name, dims)):
            arrays[key(part)] = jnp.asarray(np.array(array, np.float64))
    config = Config({"lr": 0.01, "wd": 0.1, "schedule": LINEAR, "optax": {}} | config)
    transform, _ = chain.make(config, arrays, sched_kw=dict(total_steps=problem.TOTAL))
    state = transform.init(arrays)
    for step in range(problem.STEPS):
        grads = {}
        for name, dims, stacked, _ in problem.PARAMETERS:
            for part, array in problem.blocks(name, stacked, problem.gradient(name, dims, step)):
                grads[key(part)] = jnp.asarray(np.array(array, np.float64))
        updates, state = transform.update(grads, state, arrays)
        arrays = {part: arrays[part] + updates[part] for part in arrays}
    return {name: np.stack([arrays[key(f"{name}#{b}")] for b in range(dims[0])]) if stacked else np.asarray(arrays[key(name)])
            for name, dims, stacked, _ in problem.PARAMETERS}


def key(part):
    """blocks/mlp/kernel#1 -> blocks/1/mlp/kernel: patterns see the end of the name."""
    name, _, block = part.partition("#")
    first, _, rest = name.partition("/")
    return f"{first}/{block}/{rest}" if block else name


def main():
    jax.config.update("jax_enable_x64", True)
    chain, utils = load(Path(os.environ["BIG_VISION"]))
    tensors = {}
    for name, (_, config) in RUNS.items():
        for parameter, value in run(chain, config).items():
            tensors[f"{name}/{parameter}"] = value
    save("big_vision_optimizers.safetensors", tensors,
         dict(parameters=problem.PARAMETERS, steps=problem.STEPS, total=problem.TOTAL,
              runs={name: ours for name, (ours, _) in RUNS.items()}, tolerance=TOLERANCE))
    rates = {}
    for name, (_, config) in SCHEDULES.items():
        rate = utils.create_learning_rate_schedule(SCHEDULE_STEPS, batch_size=1, data_size=1, base=0.1, **config)
        rates[name] = np.array([rate(step) for step in range(SCHEDULE_STEPS)])
    save("big_vision_schedules.safetensors", rates,
         dict(total=SCHEDULE_STEPS, runs={name: ours for name, (ours, _) in SCHEDULES.items()}))


if __name__ == "__main__":
    main()
