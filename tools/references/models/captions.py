"""Captions that CapPa writes, by plain loops over big_vision's own model: tests/references/captions.json.

Run: BIG_VISION=<checkout of google-research/big_vision at 0127fb6> tools/references/run.sh captions

Every token is predicted by models/proj/cappa/cappa.py from the whole caption so far, in float64, without a cache. big_vision has no
search over beams. `beam` is flax's and T5X's (flax/examples/wmt/decode.py): of every live caption's continuations the 2 * beams
most likely are looked at; those that end are kept by log probability / ((5 + length) / 6) ** penalty, the best `beams` of the
others live on; the end mark counts in the length. `nucleus` is big_vision's (models/proj/uvim/decode.py, top_p): the tokens that a
draw may take at each place of the greedy caption.

Parameters have our names and formula.py's values (cappa.py here). Image i is formula.image("captions/<i>", 16, 16), whose bytes b
become b / 127.5 - 1. A case: model (big_vision's arguments), greedy [images][tokens], beam3 [images][captions]{tokens, score},
margin: the least difference between two log probabilities that a choice of greedy or beam hung on; nucleus [images][places][ids].
"""
import json
import os

import jax
import jax.numpy as jnp
import numpy as np

import formula
from cappa import layers, value
from flax_code import from_ours, to_ours

from big_vision.models.proj.cappa import cappa

IMAGES, BEAMS, PENALTY, EOS, TOP_P = 6, 3, 0.6, 1, 0.7
CASES = {
    "cappa": dict(num_layers=2, num_heads=3, mlp_dim=40, emb_dim=24, patches=(4, 4), vocab_size=11, seq_len=8,
                  decoder_num_layers=3, decoder_num_heads=2, decoder_mlp_dim=32, decoder_emb_dim=16,
                  masked_pred_prob=0.75, masking_ratio=0.5, decoder_bias=False),
    "cap": dict(num_layers=2, num_heads=2, mlp_dim=32, emb_dim=16, patches=(8, 8), vocab_size=9, seq_len=7,
                posemb_type="sincos2d", masked_pred_prob=0.0, decoder_bias=True),
}


class Loop:
    """The model and one image; `margin` is the narrowest choice so far."""

    def __init__(self, decode, length):
        self.decode, self.length, self.margin = decode, length, np.inf

    def next(self, caption):
        """Log probabilities of the token that follows."""
        row = np.zeros((1, self.length), np.int32)
        row[0, :len(caption)] = caption
        return np.asarray(jax.nn.log_softmax(self.decode(row)[0, len(caption)]))

    def narrow(self, values, kept):
        """Of values in falling order the first `kept` are taken."""
        for better, worse in zip(values, values[1:kept + 1]):
            self.margin = min(self.margin, better - worse)

    def greedy(self):
        caption = []
        while len(caption) < self.length and EOS not in caption:
            logp = self.next(caption)
            self.narrow(np.sort(logp)[::-1], 1)
            caption.append(int(np.argmax(logp)))
        return caption

    def beam(self):
        live, finished = [(0.0, [])], []
        for length in range(1, self.length + 1):
            grown = [(p + q, caption + [token]) for p, caption in live for token, q in enumerate(self.next(caption))]
            grown.sort(key=lambda one: -one[0])
            self.narrow([p for p, _ in grown], 2 * BEAMS)
            best = grown[:2 * BEAMS]
            finished += [(p / ((5 + length) / 6) ** PENALTY, caption) for p, caption in best if caption[-1] == EOS]
            finished.sort(key=lambda one: -one[0])
            self.narrow([score for score, _ in finished], BEAMS)
            finished = finished[:BEAMS]
            live = [one for one in best if one[1][-1] != EOS][:BEAMS]
        if not finished:
            finished = [(p / ((5 + self.length) / 6) ** PENALTY, caption) for p, caption in live]
        return [dict(tokens=caption, score=float(score)) for score, caption in finished]

    def nucleus(self, caption):
        out = []
        for i in range(len(caption)):
            p = np.exp(self.next(caption[:i]))
            falling = np.sort(p)[::-1]
            cutoff = falling[np.sum(np.cumsum(falling) < TOP_P)]
            out.append([int(token) for token in np.flatnonzero(p >= cutoff)])
        return out


def reference(m):
    model = cappa.Model(**m)
    images = jnp.asarray(np.stack([formula.image(f"captions/{i}", 16, 16) for i in range(IMAGES)]), jnp.float64) / 127.5 - 1
    init = model.init(jax.random.PRNGKey(0), images, jnp.zeros((IMAGES, m["seq_len"]), jnp.int32))["params"]
    ours = {name: value(name, array.shape) for name, array in to_ours(init, layers(m)).items()}
    params = from_ours(ours, init, layers(m))
    apply = jax.jit(lambda image, text: model.apply({"params": params}, image[None], text))
    out = dict(model=m, greedy=[], beam3=[], nucleus=[], margin=np.inf)
    for image in images:
        loop = Loop(lambda text, image=image: apply(image, text), m["seq_len"])
        out["greedy"].append(loop.greedy())
        out["beam3"].append(loop.beam())
        out["nucleus"].append(loop.nucleus(out["greedy"][-1]))
        out["margin"] = min(out["margin"], float(loop.margin))
    return out


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    found = {name: reference(m) for name, m in CASES.items()}
    with open(os.path.join(here, "../../../tests/references/captions.json"), "w") as file:
        file.write("{\n" + ",\n".join(f'"{name}": {json.dumps(case)}' for name, case in found.items()) + "\n}\n")
    for name, case in found.items():
        print(name, "margin", case["margin"], *case["greedy"], sep="\n  ")
