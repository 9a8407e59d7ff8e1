"""Checkpoints of big_vision's ViT, CapPa and two towers, as its utils.save_checkpoint writes them: tests/references/weights/bv_<case>.npz.

Run: BIG_VISION=<checkout of google-research/big_vision at 0127fb6> tools/references/run.sh big_vision_weights

Of the checkout models/vit.py, models/proj/cappa/cappa.py, models/proj/image_text/two_towers.py with text_transformer.py and
utils.tree_flatten_with_names run as they are. Cases are ViTs of
width 16, 2 blocks, 2 heads, MLP 24, images 12 x 12, patches 4 x 4, 5 classes:
  map   pooled by attention; blocks by themselves
  scan  mean of the tokens; blocks stacked; the file has f16 and bf16 arrays (of which the values are taken), one in Fortran's
        order, and is packed
and CapPas with such encoders and decoders of width 8, 3 blocks, 4 heads, MLP 12, captions of 5 tokens, 11 ids:
  cappa       biases in the decoder; blocks by themselves
  cappa_scan  no biases there; blocks of both stacked (the decoder's along axis 1)
and two towers, for images as "map" and without a head, for texts of width 8, 3 blocks, 4 heads, MLP 12, 5 tokens, 11 ids, with a
bias:
  siglip       the last token stands for a text; blocks by themselves
  siglip_scan  texts pooled by attention, both towers with heads to 6 dimensions; blocks of both stacked
Names are "params/<path>". Beside them "logits" [3, 5] of images formula.array("bv/images", [3, 12, 12, 3]), of CapPa
[3, 5, 11] token after token of captions (7 row + 3 column) % 11, of two towers [3, 3] the similarities of images and these
captions; and "step" (i32).
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
for module in ("tensorflow", "tensorflow.io", "tensorflow.io.gfile", "big_vision.pp.ops_text"):  # imported and not called
    sys.modules[module] = types.ModuleType(module)

import big_vision.utils as u
from big_vision.models import vit
from big_vision.models.proj.cappa import cappa
from big_vision.models.proj.image_text import two_towers

CASES = {"map": dict(pool_type="map"), "scan": dict(pool_type="gap", scan=True),
         "cappa": dict(decoder_bias=True), "cappa_scan": dict(decoder_bias=False, scan=True),
         "siglip": dict(pool_type="last", scan=False, out_dim=(None, 16)),
         "siglip_scan": dict(pool_type="map", scan=True, out_dim=6)}


def value(name, shape):
    return formula.array(f"bv/{name}", shape, 0.3, 1.0 if name.endswith("scale") else 0.0)


def make(case, options, images):
    encoder = dict(mlp_dim=24, num_heads=2)
    captions = (np.add.outer(7 * np.arange(3), 3 * np.arange(5)) % 11).astype(np.int32)
    if case.startswith("siglip"):
        image = dict(patch_size=(4, 4), width=16, depth=2, pool_type="map", scan=options["scan"], **encoder)
        text = dict(width=8, depth=3, mlp_dim=12, num_heads=4, vocab_size=11, pool_type=options["pool_type"], scan=options["scan"])
        return two_towers.Model(image=image, text=text, out_dim=options["out_dim"], bias_init=-2.0), [images, captions]
    if not case.startswith("cappa"):
        return vit.Model(num_classes=5, patch_size=(4, 4), width=16, depth=2, **encoder, **options), [images]
    model = cappa.Model(num_layers=2, emb_dim=16, patches=(4, 4), vocab_size=11, seq_len=5, decoder_num_layers=3,
                        decoder_num_heads=4, decoder_mlp_dim=12, decoder_emb_dim=8, masked_pred_prob=0.75, **encoder, **options)
    return model, [images, captions]


def logits_of(model, answer):
    """One array of what the model gives."""
    if isinstance(model, two_towers.Model):
        zimg, ztxt, out = answer
        return jnp.dot(zimg, ztxt.T) * out["t"] + out["b"]
    return answer[0] if isinstance(answer, tuple) else answer


def main():
    images = formula.array("bv/images", (3, 12, 12, 3))
    for case, options in CASES.items():
        model, inputs = make(case, options, images)
        shapes = jax.eval_shape(model.init, jax.random.PRNGKey(0), *inputs)["params"]
        names, tree = u.tree_flatten_with_names(shapes)
        values = {name: value(name, leaf.shape) for name, leaf in names}
        if case == "scan":
            values["embedding/kernel"] = values["embedding/kernel"].astype(np.float16)
            values["head/kernel"] = values["head/kernel"].astype(ml_dtypes.bfloat16)
            values["pos_embedding"] = np.asfortranarray(values["pos_embedding"])
        params = jax.tree_util.tree_unflatten(tree, [jnp.asarray(np.asarray(values[n]), jnp.float32) for n, _ in names])
        logits = np.asarray(logits_of(model, jax.jit(model.apply)({"params": params}, *inputs)))
        write = np.savez_compressed if case == "scan" else np.savez
        path = TESTS / "weights" / f"bv_{case}.npz"
        write(path, logits=logits, step=np.int32(7), **{f"params/{n}": v for n, v in values.items()})
        print(path.name, len(values), path.stat().st_size)


if __name__ == "__main__":
    main()
