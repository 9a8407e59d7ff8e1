"""Trains a small model of each family with Tessera, exports it, and compares what the library that the files are for makes of
them with what Tessera says of the same images.

Run (run.sh makes the environments; LIBRARY is timm, transformers or big_vision):
  .deps/references/bin/python tools/references/models/check_families.py timm [CASE...]
  PYTHONPATH=<site-packages of .deps/references-transformers> .deps/references/bin/python tools/references/models/check_families.py transformers
  BIG_VISION=<checkout of google-research/big_vision at 0127fb6> .deps/references-jax/bin/python \\
    tools/references/models/check_families.py big_vision

Each case is five steps of AdamW on noise by bin/tessera (--tessera), in a temporary folder. Then:
  timm, transformers   `tessera predict --json --logits` of pictures against check_export.py's line: file names, logits,
                       probabilities, classes. timm also makes the model with other classes and one channel, for which it looks up
                       the first layer and the classifier that config.json names; and two more steps from what was exported, with
                       all but the classifier frozen, leave every frozen array bit-equal in what is exported then
  big_vision           its own loaders (models/vit.py, proj/cappa/cappa.py and proj/image_text/two_towers.py) read the .npz, and
                       its models are applied in float64: a ViT's logits against `tessera predict`; the negative log-likelihood
                       of each picture's caption (CapPa and Cap, by utils.weighted_softmax_xent) against `tessera eval
                       --predictions`; SigLIP's loss of all pictures with all texts (two towers) against `tessera train`'s
Prints for each case the largest difference and the largest value; a difference above 1e-4, of values below 1 above 1e-4 of the
largest, is an error: exit 1.
"""
import argparse
import json
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
import formula

COUNT, TOKENS, VOCABULARY = 8, 6, 30
RECIPE = """total = "5 steps"
log = "5 steps"
data = {{ source = "{source}", batch = 8, threads = 1, pp = "decode | resize({side}) | value_range(-1, 1){tokens}" }}
model = {{ {model} }}
objective = {{ {objective} }}
optimizer = {{ name = "adamw", lr = "1e-2" }}
[eval.val]
type = "{scorer}"
data = {{ source = "{source}", pp = "decode | {resize} | value_range(-1, 1){tokens}" }}
every = "100 %"
"""
VIT = 'name = "vit", patch = 4, width = 24, depth = 2, heads = 2'
CONVNEXT = 'name = "convnext", dims = [8, 12, 16, 24], depths = [1, 2, 2, 1]'
RESNET = 'name = "resnet", dims = [8, 8, 12, 16], depths = [1, 2, 1, 1]'
CAPPA = 'name = "cappa", patch = 4, width = 24, depth = 2, heads = 2, decoder_width = 16, decoder_depth = 3, decoder_heads = 4, decoder_mlp_dim = 40'
TOWERS = 'name = "two_tower", bias_init = -2.0, image = { patch = 4, width = 24, depth = 2, heads = 2, pool = "map" }, text = { width = 16, depth = 3, heads = 4, mlp_dim = 40'
# case: (the model as a recipe has it, side of the images). Of mixers and ResMLPs timm has none but the registered ones.
CASES = {
    "timm": {
        "vit": (VIT, 16),
        "vit_gap": (VIT + ', pool = "gap"', 16),
        "vit_registers": (VIT + ', pool = "gap", reg_tokens = 2, posemb_prefix = false', 16),
        "vit_map": (VIT + ', style = "big_vision", pool = "map"', 16),
        "vit_distilled": (VIT + ", distilled = true", 16),
        "deit3": (VIT + ', mlp_dim = 96, variant = "deit3_small_patch16_224"', 16),
        "mixer": ('name = "mixer", variant = "mixer_s32_224"', 64),
        "resmlp": ('name = "resmlp", variant = "resmlp_12_224"', 32),
        "convnext": (CONVNEXT, 64),
        "convnext_v2": (CONVNEXT + ', response_norm = true, variant = "convnextv2_tiny"', 64),
        "convnext_overlap": (CONVNEXT + ', stem = "overlap_tiered", conv_mlp = true', 64),
        "bit": ('name = "bit", dims = [32, 32, 64, 64], stem_dim = 32, bottleneck = 1.0', 64),
        "resnet": (RESNET, 64),
        "resnet_basic": (RESNET + ', block = "basic"', 64),
        "resnet_d": (RESNET + ', stem = "deep_tiered", stem_width = 16, avg_down = true', 72),
        "resnet_group": ('name = "resnet", norm = "group", dims = [32, 32, 64, 64], depths = [1, 2, 1, 1]', 64),
    },
    "transformers": {
        "vit": (VIT, 16),
        "vit_tanh": (VIT + ', gelu = "tanh", norm_epsilon = 1e-5, mlp_dim = 40', 16),
    },
    "big_vision": {
        "vit": (VIT + ', style = "big_vision"', 16),
        "vit_map": (VIT + ', style = "big_vision", pool = "map"', 16),
        "vit_token": (VIT + ', style = "big_vision", pool = "tok"', 16),
        "cappa": (CAPPA, 16),
        "cap": (CAPPA + ", masked_pred_prob = 0, decoder_bias = true", 16),
        "two_tower": (TOWERS + " }", 16),
        "two_tower_map": (TOWERS + ', pool = "map" }, out_dim = 20', 16),
    },
}
# What a recipe says beside the model: of classifiers, of models of captions, of two towers.
TRAINING = {
    "classifier": dict(source="fake(images=40, classes=5, fill=noise)", objective='name = "softmax"', scorer="classification",
                       tokens=""),
    "cappa": dict(objective='name = "captioning"', scorer="perplexity"),
    "two_tower": dict(objective='name = "contrastive", loss = "siglip"', scorer="retrieval"),
}


def write_png(path, pixels):
    """pixels: uint8 RGB [height, width, 3]."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_pictures(folder, side, square):
    """COUNT pictures, square or upright and lying in turns, and captions.jsonl; gives the pixels of square ones."""
    pixels = []
    with open(folder / "captions.jsonl", "w") as lines:
        for i in range(COUNT):
            height, width = (side, side) if square else (side + 2 * i, 2 * side - i)[:: 1 - i % 2 * 2]
            pixels.append(formula.image(f"check_families/{i}", height, width))
            write_png(folder / f"{i}.png", pixels[-1])
            words = " ".join(f"w{(5 * i + 3 * k) % 23}" for k in range(1 + i % TOKENS))
            lines.write(json.dumps(dict(image=f"{i}.png", caption=words)) + "\n")
    return np.stack(pixels) if square else None


class Run:
    """A model that Tessera trained in `folder`."""

    def __init__(self, tessera, folder, library, case):
        self.tessera, self.folder = Path(tessera).resolve(), folder
        self.model, side = CASES[library][case]
        self.pixels = write_pictures(folder, side, library == "big_vision")
        kind = next((k for k in TRAINING if f'"{k}"' in self.model), "classifier")
        texts = dict(source="jsonl(captions.jsonl, text=caption)",
                     tokens=f" | tokenize({TOKENS}, key=caption, model=fake({VOCABULARY}))")
        cropped = f"resize_small({side * 9 // 8}, interpolation=bicubic) | central_crop({side})"
        resize = cropped if library == "timm" else f"resize({side}, interpolation=bicubic)"
        (folder / "recipe.toml").write_text(
            RECIPE.format(**texts | TRAINING[kind], model=self.model, side=side, resize=resize))
        self("train", "recipe.toml", "--workdir", "run")

    def __call__(self, *words):
        done = subprocess.run([self.tessera, *words], cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"tessera {' '.join(map(str, words))}\n{done.stderr}")
        return done.stdout

    def pictures(self):
        return [self.folder / f"{i}.png" for i in range(COUNT)]

    def predictions(self):
        lines = self("predict", "--from", "run", "--json", "--logits", *self.pictures()).splitlines()
        return [json.loads(line) for line in lines]

    def scores(self, column):
        """What `tessera eval` says of each picture, in their order."""
        self("eval", "recipe.toml", "--from", "run", "--predictions", "said")
        said = [json.loads(line) for line in (self.folder / "said" / "val.jsonl").read_text().splitlines()]
        by_picture = {Path(line["id"]).stem: line[column] for line in said}
        return np.array([by_picture[str(i)] for i in range(COUNT)])

    def loss(self):
        """Training's, of all pictures and texts as one batch, before a further step: as metrics.jsonl has it."""
        self("train", "recipe.toml", 'total="1 steps"', 'log="1 steps"', 'model_init={from="run"}', "--workdir", "further")
        first = json.loads((self.folder / "further" / "metrics.jsonl").read_text().splitlines()[0])
        return np.array([first["training_loss"]])

    def token_ids(self):
        shown = self("data", "show", "recipe.toml", "--json", "--count", str(COUNT)).splitlines()
        ids = {Path(line["path"]).stem: line["tokens"]["labels"]["ids"] for line in map(json.loads, shown)}
        return np.array([ids[str(i)] for i in range(COUNT)])


def allowed(values):
    return 1e-4 * min(1.0, np.abs(values).max())


def check_directory(run, library):
    """Of timm and transformers: the two answers, and what differs, as text."""
    import check_export
    directory = run.folder / "out"
    run("export", "--from", "run", "--to", "out", *(["--format", "hugging_face"] if library == "transformers" else []))
    ours, theirs = run.predictions(), list(check_export.predict(directory, run.pictures(), library))
    logits = np.array([line["logits"] for line in theirs])
    errors = [d for got, want in zip(ours, theirs, strict=True) for d in check_export.differences(got, want, allowed(logits))]
    if library == "timm":
        use_in_timm(directory)
        errors += frozen_errors(run, directory)
    return np.array([line["logits"] for line in ours]), logits, errors


def use_in_timm(directory):
    """Stops where timm can't make the directory's model with other classes and one channel."""
    import timm
    import torch
    model = timm.create_model(f"local-dir:{directory}", pretrained=True, num_classes=7, in_chans=1).eval()
    side = model.pretrained_cfg["input_size"][1]
    assert model(torch.zeros(1, 1, side, side)).shape == (1, 7)


def frozen_errors(run, directory):
    """What of the frozen arrays two further steps changed, as text."""
    from safetensors.numpy import load_file
    rates = '["(head|head_dist|fc)/.* = 1", ".* = 0"]'
    run("train", "recipe.toml", 'total="2 steps"', 'model_init={from="out"}', f"optimizer.lr_mult={rates}", "--workdir", "again")
    run("export", "--from", "again", "--to", "again_out")
    before, after = (load_file(folder / "model.safetensors") for folder in (directory, run.folder / "again_out"))
    errors = [] if before.keys() == after.keys() else [f"other arrays: {before.keys() ^ after.keys()}"]
    for name in before.keys() & after.keys():
        head = name.startswith(("head.", "head_dist.", "fc."))
        buffer = "running_" in name or name.endswith("num_batches_tracked")
        same = before[name].tobytes() == after[name].tobytes()
        if not buffer and same == head:
            errors.append(f"{name} {'stands still' if head else 'moved'}")
    return errors


def load_in_big_vision(run, case, images, ids):
    """big_vision's model of the case, what it is applied to, and the parameters as its loader gives them."""
    import jax
    import ml_collections
    import flax_code  # first: makes big_vision importable
    import flax.training.checkpoints
    from big_vision.models import vit
    from big_vision.models.proj.cappa import cappa
    from big_vision.models.proj.image_text import two_towers

    assert flax_code and flax.training.checkpoints
    encoder = dict(mlp_dim=96, num_heads=2)
    file, inputs = str(run.folder / "out.npz"), [images]
    if case.startswith("vit"):
        model = vit.Model(num_classes=5, patch_size=(4, 4), width=24, depth=2, **encoder,
                          pool_type=dict(vit="gap", vit_map="map", vit_token="tok")[case])
        load = lambda init: vit.load(init, file, {}, dont_load=())
    elif case.startswith("cap"):
        model = cappa.Model(num_layers=2, emb_dim=24, patches=(4, 4), vocab_size=VOCABULARY, seq_len=TOKENS, decoder_num_layers=3,
                            decoder_num_heads=4, decoder_mlp_dim=40, decoder_emb_dim=16, decoder_bias=case == "cap",
                            masked_pred_prob=0.0 if case == "cap" else 0.75, **encoder)
        load, inputs = lambda init: cappa.load(init, file, {}, dont_load=()), [images, ids]
    else:
        pooled = case == "two_tower_map"
        image = dict(patch_size=(4, 4), width=24, depth=2, pool_type="map", **encoder)
        text = dict(width=16, depth=3, mlp_dim=40, num_heads=4, vocab_size=VOCABULARY, pool_type="map" if pooled else "last")
        config = dict(image=image, text=text, out_dim=20 if pooled else (None, 24), bias_init=-2.0)
        model = two_towers.Model(**config)
        config = ml_collections.ConfigDict(config)
        load, inputs = lambda init: two_towers.load(init, file, config), [images, ids]
    params = load(dict(jax.eval_shape(model.init, jax.random.PRNGKey(0), *inputs)["params"]))
    return model, inputs, jax.tree.map(lambda a: np.asarray(a, np.float64), params)


def check_big_vision(run, case):
    """The same of big_vision."""
    classifies = case.startswith("vit")
    ids = None if classifies else run.token_ids()
    run("export", "--from", "run", "--format", "big_vision", "--to", "out.npz")
    model, inputs, params = load_in_big_vision(run, case, run.pixels / 127.5 - 1, ids)
    import big_vision.utils as u
    import jax
    answer = jax.jit(model.apply)({"params": params}, *inputs)
    if classifies:
        ours, theirs = np.array([line["logits"] for line in run.predictions()]), np.asarray(answer[0])
    elif case.startswith("cap"):
        logits = answer[0] if isinstance(answer, tuple) else answer
        theirs = u.weighted_softmax_xent(logits=logits, labels=ids, weights=ids != 0, reduction=False, normalize=False)
        ours, theirs = run.scores("perplexity"), np.asarray(theirs)
    else:
        zimg, ztxt, out = answer
        pairs = zimg @ ztxt.T * out["t"] + out["b"]
        losses = -np.asarray(jax.nn.log_sigmoid((2 * np.eye(COUNT) - 1) * pairs)).sum(1)
        ours, theirs = run.loss(), losses.mean(keepdims=True)
    different = np.abs(ours - theirs).max() > allowed(theirs)
    return ours, theirs, [f"{ours.tolist()}, wanted {theirs.tolist()}"] if different else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=CASES)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--tessera", default=Path(__file__).resolve().parents[3] / "bin" / "tessera")
    args = parser.parse_args()
    failed = False
    for case in args.cases or CASES[args.library]:
        with tempfile.TemporaryDirectory() as folder:
            run = Run(args.tessera, Path(folder), args.library, case)
            check = check_big_vision(run, case) if args.library == "big_vision" else check_directory(run, args.library)
        ours, theirs, errors = check
        print(f"{args.library} {case}: {np.abs(ours - theirs).max():.1e} of values up to {np.abs(theirs).max():.3g}", flush=True)
        print("".join(f"  {error}\n" for error in errors), end="")
        failed |= bool(errors)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
