"""CapPa by big_vision's own code: tests/references/cappa_<case>.safetensors, in float64.

Run: BIG_VISION=<checkout of google-research/big_vision at 0127fb6> tools/references/run.sh cappa

Of the checkout models/proj/cappa/cappa.py, trainers/proj/cappa/predict_fns.py and utils.weighted_softmax_xent run as they are.

Parameters have our names, shapes and layout (src/models/image_text/cappa.h): a block's arrays stacked, query, key and value side by side.
Their values come from formula.py: scale is 1 + (2u - 1) 0.2, embedding has scale 1, pos_embed 0.5, a kernel sqrt(3 / inputs), a
bias 0.05. Images are "cappa/input0" of scale 1, [B, H, W, 3]. What training draws is injected: which rows are predicted in
parallel and which tokens are hidden. Keys, all float32:
  train_logits [B, L, V]  loss [1]  loss_rows [B]  grad/<name>        training, as drawn
  ar_loss [1]  ar_grad/decoder/embed/embedding                        training, every row token after token
  eval_logits [B, L, V]                                               evaluation
  perplexity [B]  scores [B, prompts]                                 evaluators/proj/cappa's
  adafactor/losses [10]  adafactor/norms [10]                         ten updates by big_vision's optimizer chain, drawn alike in
                                                                      each: the loss before, the parameters' norm after
config: case, model (big_vision's arguments), image, labels [B, L], label_masks [B, L] or null, label_smoothing, parallel [B],
hidden [B, L], prompts [P, L], parameters ([[name, shape]]).
"""
import sys
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import formula
from flax_code import from_ours, norm, projections, text_of, to_ours, trajectory
from tensors import save

import big_vision.utils as u
from big_vision.models.proj.cappa import cappa
from big_vision.trainers.proj.cappa import predict_fns

BATCH, PROMPTS = 4, 6
CASES = {
    # Another decoder than the encoder, half of the tokens hidden in half of the rows; smoothing and label masks.
    "cappa": dict(
        model=dict(num_layers=2, num_heads=3, mlp_dim=40, emb_dim=24, patches=(4, 4), vocab_size=11, seq_len=6,
                   decoder_num_layers=3, decoder_num_heads=2, decoder_mlp_dim=32, decoder_emb_dim=16,
                   masked_pred_prob=0.75, masking_ratio=0.5, decoder_bias=False),
        image=16, smoothing=0.1, masks=True),
    # The decoder as the encoder, fixed positions, biases, token after token.
    "cap": dict(
        model=dict(num_layers=2, num_heads=2, mlp_dim=32, emb_dim=16, patches=(8, 8), vocab_size=9, seq_len=5,
                   posemb_type="sincos2d", masked_pred_prob=0.0, decoder_bias=True),
        image=16, smoothing=0.0, masks=False),
}


def value(name, shape):
    leaf = name.split("/")[-1]
    if leaf == "scale":
        return formula.array(name, shape, 0.2, 1.0)
    if leaf in ("embedding", "pos_embed"):
        return formula.array(name, shape, 1.0 if leaf == "embedding" else 0.5)
    return formula.array(name, shape, (3 / shape[-2]) ** 0.5 if leaf == "kernel" else 0.05)


def layers(m):
    """Ours -> (blocks, flax's paths with {} for the block; several stand side by side)."""
    enc, dec = m["num_layers"], m.get("decoder_num_layers") or m["num_layers"]
    block, text = "encoder/Transformer/encoderblock_{}", "decoder/EncDecBlock{}"
    attn = block + "/MultiHeadDotProductAttention_0"
    out = projections("encoder/patch_embed", "encoder", ["embedding"], 0)
    out["encoder/pos_embed"] = (0, ["encoder/pos_embedding"])
    out |= norm("encoder/blocks/norm1", block + "/LayerNorm_0", enc)
    out |= projections("encoder/blocks/attn/qkv", attn, ["query", "key", "value"], enc)
    out |= projections("encoder/blocks/attn/proj", attn, ["out"], enc)
    out |= norm("encoder/blocks/norm2", block + "/LayerNorm_1", enc)
    for i, layer in enumerate(("fc1", "fc2")):
        out |= projections(f"encoder/blocks/mlp/{layer}", block + "/MlpBlock_0", [f"Dense_{i}"], enc)
    out |= norm("encoder/norm", "encoder/Transformer/encoder_norm")
    out["pos_embed"] = (0, ["pos_embedding_decoder"])
    out["decoder/embed/embedding"] = (0, ["decoder/EmbedTargets/embedding"])
    for i in (1, 2, 3):
        out |= norm(f"decoder/blocks/norm{i}", f"{text}/LayerNorm{i}", dec)
    out |= projections("decoder/blocks/attn/qkv", text + "/SelfAttn", ["query", "key", "value"], dec)
    out |= projections("decoder/blocks/attn/proj", text + "/SelfAttn", ["out"], dec)
    out |= projections("decoder/blocks/cross/q", text + "/CrossAttn", ["query"], dec)
    out |= projections("decoder/blocks/cross/kv", text + "/CrossAttn", ["key", "value"], dec)
    out |= projections("decoder/blocks/cross/proj", text + "/CrossAttn", ["out"], dec)
    for i, layer in enumerate(("fc1", "fc2")):
        out |= projections(f"decoder/blocks/mlp/{layer}", text + "/MLP", [f"Dense_{i}"], dec)
    out |= norm("decoder/norm", "decoder/LayerNorm")
    out |= projections("decoder/logits", "decoder", ["LogitsDense"], 0)
    return out


def reference(case):
    spec = CASES[case]
    m, size = spec["model"], spec["image"]
    length, vocabulary = m["seq_len"], m["vocab_size"]
    model = cappa.Model(**m)
    images = jnp.asarray(formula.array("cappa/input0", (BATCH, size, size, 3)), jnp.float64)
    labels = text_of(length, vocabulary, BATCH, case + "/labels")
    prompts = text_of(length, vocabulary, PROMPTS, case + "/prompts")
    masks = (formula.bits(case + "/masks", BATCH * length) % 4 > 0).reshape(BATCH, length).astype(np.int64)
    parallel = np.array([True, False, False, True])
    hidden = np.array([np.isin(np.arange(length), np.argsort(formula.bits(f"{case}/hidden{i}", length))[: int(
        m.get("masking_ratio", 0) * length)]) for i in range(BATCH)])

    init = model.init(jax.random.PRNGKey(0), images, jnp.asarray(labels))["params"]
    ours = {name: value(name, array.shape) for name, array in to_ours(init, layers(m)).items()}
    params = from_ours(ours, init, layers(m))
    assert jax.tree.structure(params) == jax.tree.structure(dict(init))

    def logits_of(p, rows_in_parallel):
        draws = mock.patch.multiple(
            jax.random,
            uniform=lambda key, shape, *a, **k: jnp.where(rows_in_parallel, 0.0, 1.0),
            permutation=lambda key, x, **k: jnp.asarray(hidden, x.dtype))
        with draws:
            return model.apply({"params": p}, images, jnp.asarray(labels), train=True,
                               rngs={"dropout": jax.random.PRNGKey(0)})

    weights = np.where(labels != 0, 1.0, 0.0) * (masks if spec["masks"] else 1)

    def loss_of(p, rows_in_parallel, reduction=True):
        return u.weighted_softmax_xent(
            logits=logits_of(p, rows_in_parallel), labels=labels, weights=weights, label_smoothing=spec["smoothing"],
            reduction=reduction, normalize=True)

    loss, grads = jax.value_and_grad(loss_of)(params, jnp.asarray(parallel))
    ar_loss, ar_grads = jax.value_and_grad(loss_of)(params, jnp.zeros(BATCH, bool))
    state = dict(params=params)
    logits, _ = predict_fns.predict_fn_perplexity(state, dict(image=images, labels=labels), model=model)
    perplexity = u.weighted_softmax_xent(
        logits=logits, labels=labels, weights=weights, label_smoothing=0.0, reduction=False, normalize=False)
    scores = predict_fns.predict_fn_score(state, dict(image=images, _label_tokens=jnp.asarray(prompts)), model=model)

    tensors = dict(train_logits=logits_of(params, jnp.asarray(parallel)), loss=loss, eval_logits=logits,
                   loss_rows=loss_of(params, jnp.asarray(parallel), False), ar_loss=ar_loss, perplexity=perplexity,
                   scores=scores)
    tensors["ar_grad/decoder/embed/embedding"] = to_ours(ar_grads, layers(m))["decoder/embed/embedding"]
    tensors |= trajectory(params, lambda p: loss_of(p, jnp.asarray(parallel)), 10)
    tensors |= {f"grad/{name}": grad for name, grad in to_ours(grads, layers(m)).items()}
    save(f"cappa_{case}.safetensors", tensors, dict(
        case=case, model=m, image=size, labels=labels.tolist(), label_masks=masks.tolist() if spec["masks"] else None,
        label_smoothing=spec["smoothing"], parallel=parallel.tolist(), hidden=hidden.tolist(), prompts=prompts.tolist(),
        parameters=[[name, list(array.shape)] for name, array in ours.items()]))
    print(f"  loss {loss:.6f}, token after token {ar_loss:.6f}")


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        reference(name)
