"""From nothing to the first training step of the digits task in JAX; the loss goes to FLAG then.   jax_start.py CACHE FLAG"""
import sys

import jax

import jax_step
from tasks import TASKS

for key, value in {"compilation_cache_dir": sys.argv[1], "persistent_cache_min_compile_time_secs": 0,
                   "persistent_cache_min_entry_size_bytes": -1}.items():
    jax.config.update(f"jax_{key}", value)
arguments = jax_step.example(TASKS["digits"], 128)
*_, loss = jax.jit(jax_step.make_step(TASKS["digits"], "tuned"), donate_argnums=(0, 1, 2))(*arguments)
with open(sys.argv[2], "w") as flag:
    flag.write(f"{float(loss)}\n")
