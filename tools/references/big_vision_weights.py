"""Checkpoints of big_vision's ViT, as its utils.save_checkpoint writes them: tests/references/weights/bv_<case>.npz.

Run: BIG_VISION=<checkout of google-research/big_vision at 0127fb6> tools/references/run.sh big_vision_weights

Of the checkout models/vit.py and utils.tree_flatten_with_names run as they are. Cases are ViTs of width 16, 2 blocks, 2 heads,
MLP 24, images 12 x 12, patches 4 x 4, 5 classes:
  map   pooled by attention; blocks by themselves
  scan  mean of the tokens; blocks stacked; the file has f16 and bf16 arrays (of which the values are taken), one in Fortran's
        order, and is packed
Names are "params/<path>". Beside them "logits" [3, 5] of images formula.array("bv/images", [3, 12, 12, 3]), and "step" (i32).
"""
import os
import sys
import types

import flax.io  # looks for tensorflow: before there is an empty one
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

import formula
from tensors import TESTS

if "BIG_VISION" not in os.environ:
    sys.exit("set BIG_VISION to a checkout of google-research/big_vision at 0127fb6")
sys.path.insert(0, os.environ["BIG_VISION"])
for module in ("tensorflow", "tensorflow.io", "tensorflow.io.gfile"):  # imported and not called
    sys.modules[module] = types.ModuleType(module)

import big_vision.utils as u
from big_vision.models import vit

CASES = {"map": dict(pool_type="map"), "scan": dict(pool_type="gap", scan=True)}


def value(name, shape):
    return formula.array(f"bv/{name}", shape, 0.3, 1.0 if name.endswith("scale") else 0.0)


def main():
    images = formula.array("bv/images", (3, 12, 12, 3))
    for case, options in CASES.items():
        model = vit.Model(num_classes=5, patch_size=(4, 4), width=16, depth=2, mlp_dim=24, num_heads=2, **options)
        shapes = jax.eval_shape(model.init, jax.random.PRNGKey(0), images)["params"]
        names, tree = u.tree_flatten_with_names(shapes)
        values = {name: value(name, leaf.shape) for name, leaf in names}
        if case == "scan":
            values["embedding/kernel"] = values["embedding/kernel"].astype(np.float16)
            values["head/kernel"] = values["head/kernel"].astype(ml_dtypes.bfloat16)
            values["pos_embedding"] = np.asfortranarray(values["pos_embedding"])
        params = jax.tree_util.tree_unflatten(tree, [jnp.asarray(np.asarray(values[n]), jnp.float32) for n, _ in names])
        logits = np.asarray(jax.jit(model.apply)({"params": params}, images)[0])
        write = np.savez_compressed if case == "scan" else np.savez
        path = TESTS / "weights" / f"bv_{case}.npz"
        write(path, logits=logits, step=np.int32(7), **{f"params/{n}": v for n, v in values.items()})
        print(path.name, len(values), path.stat().st_size)


if __name__ == "__main__":
    main()
