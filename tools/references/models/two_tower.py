"""Two towers by big_vision's own code: tests/references/two_tower_<case>.safetensors, in float64.

Run: BIG_VISION=<checkout of google-research/big_vision at 0127fb6> tools/references/run.sh two_tower

Of the checkout models/proj/image_text/{two_towers,text_transformer}.py, models/vit.py and utils.bidirectional_contrastive_loss
run as they are. The sigmoid loss is the body of loss_fn in trainers/proj/image_text/siglip.py, which stands inside main().

Parameters have our names, shapes and layout (src/models/image_text/two_tower.h). Their values come from formula.py: scale is 1 + (2u - 1)
0.2, embedding, pos_embed, cls_token and latent have scale 0.5, a kernel sqrt(3 / inputs), a bias 0.05; t is the logarithm of
the temperature, b the bias. Images are "two_tower/input0" of scale 1, [B, H, W, 3]. Keys, all float32:
  images [B, D]  texts [B, D]  logits [B, B]        vectors, and temperature times their products plus bias
  siglip [1]  softmax [1]  siglip_rows [B]  softmax_rows [B]
  grad/<name>                                       of the case's loss
  texts/<pool> [B, D]                               the text tower with another pool and the same parameters
  adafactor/losses [5]  adafactor/norms [5]         updates by big_vision's optimizer chain: the loss before, the parameters'
                                                    norm after it
config: case, model (big_vision's arguments), loss, image, texts [B, L], parameters ([[name, shape]]).
"""
import math
import sys

import jax
import jax.numpy as jnp
import numpy as np

import formula
from flax_code import from_ours, norm, projections, text_of, to_ours, trajectory
from tensors import save

import big_vision.utils as u
from big_vision.models.proj.image_text import two_towers

BATCH = 6
CASES = {
    # As SigLIP: attention pooling and no head for images, the last token for texts.
    "siglip": dict(
        model=dict(image=dict(width=24, depth=2, mlp_dim=40, num_heads=3, patch_size=(4, 4), pool_type="map"),
                   text=dict(width=16, depth=3, mlp_dim=32, num_heads=2, vocab_size=11, pool_type="last"),
                   out_dim=(None, 24), temperature_init=10.0, bias_init=-2.71),
        image=16, length=5, loss="siglip", pools=("first", "mean", "max")),
    # As CLIP: a class token, heads on both towers, no bias; attention pooling for texts.
    "clip": dict(
        model=dict(image=dict(width=16, depth=2, mlp_dim=32, num_heads=2, patch_size=(8, 8), pool_type="tok",
                              head_zeroinit=False),
                   text=dict(width=24, depth=2, mlp_dim=48, num_heads=3, vocab_size=9, pool_type="map"),
                   out_dim=12, temperature_init=7.0),
        image=16, length=4, loss="softmax", pools=()),
}


def value(name, shape, m):
    leaf = name.split("/")[-1]
    if leaf == "t":
        return np.full(shape, math.log(m["temperature_init"]), np.float32)
    if leaf == "b":
        return np.full(shape, m["bias_init"], np.float32)
    if leaf == "scale":
        return formula.array(name, shape, 0.2, 1.0)
    if leaf in ("embedding", "pos_embed", "cls_token", "latent"):
        return formula.array(name, shape, 0.5)
    return formula.array(name, shape, (3 / shape[-2]) ** 0.5 if leaf == "kernel" else 0.05)


def encoder(ours, theirs, depth):
    block, attn = f"{theirs}/encoderblock_{{}}", f"{theirs}/encoderblock_{{}}/MultiHeadDotProductAttention_0"
    out = norm(f"{ours}/blocks/norm1", block + "/LayerNorm_0", depth)
    out |= projections(f"{ours}/blocks/attn/qkv", attn, ["query", "key", "value"], depth)
    out |= projections(f"{ours}/blocks/attn/proj", attn, ["out"], depth)
    out |= norm(f"{ours}/blocks/norm2", block + "/LayerNorm_1", depth)
    for i, layer in enumerate(("fc1", "fc2")):
        out |= projections(f"{ours}/blocks/mlp/{layer}", block + "/MlpBlock_0", [f"Dense_{i}"], depth)
    return out | norm(f"{ours}/norm", f"{theirs}/encoder_norm")


def map_head(ours, theirs):
    attn = f"{theirs}/MultiHeadDotProductAttention_0"
    out = {f"{ours}/latent": (0, [f"{theirs}/probe"])}
    out |= projections(f"{ours}/q", attn, ["query"], 0) | projections(f"{ours}/kv", attn, ["key", "value"], 0)
    out |= projections(f"{ours}/proj", attn, ["out"], 0) | norm(f"{ours}/norm", f"{theirs}/LayerNorm_0")
    for i, layer in enumerate(("fc1", "fc2")):
        out |= projections(f"{ours}/mlp/{layer}", f"{theirs}/MlpBlock_0", [f"Dense_{i}"], 0)
    return out


def layers(m):
    """Ours -> (blocks, flax's paths)."""
    out = projections("img/patch_embed", "img", ["embedding"], 0)
    out |= {"img/cls_token": (0, ["img/cls"]), "img/pos_embed": (0, ["img/pos_embedding"])}
    out |= encoder("img", "img/Transformer", m["image"]["depth"]) | map_head("img/attn_pool", "img/MAPHead_0")
    out |= projections("img/head", "img", ["head"], 0)
    out |= {"txt/embed/embedding": (0, ["txt/Embed_0/embedding"]), "txt/pos_embed": (0, ["txt/pos_embedding"])}
    out |= encoder("txt", "txt/Encoder_0", m["text"]["depth"]) | map_head("txt/attn_pool", "txt/MAPHead_0")
    out |= projections("txt/head", "txt", ["head"], 0)
    return out | {"t": (0, ["t"]), "b": (0, ["b"])}


def sigmoid_rows(logits):
    m1_diag1 = -jnp.ones_like(logits) + 2 * jnp.eye(len(logits))
    return -jnp.sum(jax.nn.log_sigmoid(m1_diag1 * logits), axis=-1)


def reference(case):
    spec = CASES[case]
    m, size = spec["model"], spec["image"]
    model = two_towers.Model(**m)
    images = jnp.asarray(formula.array("two_tower/input0", (BATCH, size, size, 3)), jnp.float64)
    texts = text_of(spec["length"], m["text"]["vocab_size"], BATCH, case + "/texts")
    init = model.init(jax.random.PRNGKey(0), images, jnp.asarray(texts))["params"]
    table = layers(m)
    ours = {name: value(name, array.shape, m) for name, array in to_ours(init, table).items()}
    params = from_ours(ours, init, table)
    assert jax.tree.structure(params) == jax.tree.structure(dict(init))

    def logits_of(p):
        zimg, ztxt, out = model.apply({"params": p}, images, jnp.asarray(texts), train=True)
        return zimg, ztxt, jnp.dot(zimg, ztxt.T) * out["t"] + out.get("b", 0.0)

    def softmax_rows(p):
        zimg, ztxt, out = model.apply({"params": p}, images, jnp.asarray(texts), train=True)
        return u.bidirectional_contrastive_loss(zimg, ztxt, out["t"])[0]

    rows_of = dict(siglip=lambda p: sigmoid_rows(logits_of(p)[2]), softmax=softmax_rows)
    loss_of = lambda p: jnp.mean(rows_of[spec["loss"]](p))
    loss, grads = jax.value_and_grad(loss_of)(params)
    zimg, ztxt, logits = logits_of(params)
    tensors = dict(images=zimg, texts=ztxt, logits=logits)
    for name, rows in rows_of.items():
        tensors |= {f"{name}_rows": rows(params), name: jnp.mean(rows(params))}
    for pool in spec["pools"]:
        other = two_towers.Model(**m | dict(text=m["text"] | dict(pool_type=pool)))
        tensors[f"texts/{pool}"] = other.apply({"params": params}, images, jnp.asarray(texts))[1]
    tensors |= trajectory(params, loss_of, 5)
    tensors |= {f"grad/{name}": grad for name, grad in to_ours(grads, table).items()}
    save(f"two_tower_{case}.safetensors", tensors, dict(
        case=case, model=m, loss=spec["loss"], image=size, texts=texts.tolist(),
        parameters=[[name, list(array.shape)] for name, array in ours.items()]))
    print(f"  {spec['loss']} {loss:.6f}")


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        reference(name)
