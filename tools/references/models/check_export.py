"""Prints timm's or transformers' predictions for a model directory, a JSON object a line, or checks Tessera's.

Run (run.sh makes the environment):
  .deps/references/bin/python tools/references/models/check_export.py DIR IMAGE... [--library transformers] [--expect FILE]
    [--tolerance 1e-3]

DIR holds config.json and model.safetensors (`tessera export`, or timm's save_for_hf). Each image goes
through timm's own eval transform for the model's pretrained_cfg, then the model in float64. With
--library transformers (PYTHONPATH: the packages of .deps/references-transformers) DIR is `tessera export
--format hugging_face`'s, and its own processor prepares the images. A line:
  {"path": ..., "top": [{"class", "index", "prob"} of the five best], "logits": [...]}
With --expect FILE (the output of `tessera predict --from DIR IMAGE... --json --logits`, "-" is
stdin), compares line by line, in order: file name, logits and probabilities within the tolerance,
class names and indices. Prints what differs to stderr; exits 1 on any difference.
"""
import argparse
import json
import sys
from pathlib import Path

import torch
from PIL import Image


def timm_model(directory):
    """Logits of an image, and the classes' names."""
    import timm
    from timm.data import create_transform, resolve_model_data_config

    model = timm.create_model(f"local-dir:{directory}", pretrained=True).eval().double()
    transform = create_transform(**resolve_model_data_config(model))
    names = json.loads((Path(directory) / "config.json").read_text()).get("label_names")
    return lambda image: model(transform(image)[None].double())[0], names


def transformers_model(directory):
    """The same."""
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    model = AutoModelForImageClassification.from_pretrained(directory).eval().double()
    processor = AutoImageProcessor.from_pretrained(directory, use_fast=False)
    names = [model.config.id2label[i] for i in range(model.config.num_labels)]
    return lambda image: model(processor(image, return_tensors="pt")["pixel_values"].double()).logits[0], names


def predict(directory, paths, library="timm"):
    """One dict an image, as described above."""
    model, names = (timm_model if library == "timm" else transformers_model)(directory)
    for path in paths:
        with Image.open(path) as image, torch.no_grad():
            logits = model(image.convert("RGB"))
        probs, order = logits.softmax(0).topk(min(5, len(logits)))
        top = [{"class": names[i] if names else str(i), "index": i, "prob": p}
               for p, i in zip(probs.tolist(), order.tolist())]
        yield {"path": str(path), "top": top, "logits": logits.tolist()}


def differences(got, want, tolerance):
    """What of Tessera's line `got` is not timm's `want`, as text. Near ties may swap places."""
    if Path(got["path"]).name != Path(want["path"]).name:
        return [f"path {got['path']}"]
    if len(got["logits"]) != len(want["logits"]):
        return [f"{len(got['logits'])} logits, wanted {len(want['logits'])}"]
    if not got["top"]:
        return ["no top classes"]
    out = [f"logit {i}: {a}, wanted {b}" for i, (a, b) in enumerate(zip(got["logits"], want["logits"]))
           if not abs(a - b) <= tolerance]
    probs = torch.tensor(want["logits"], dtype=torch.float64).softmax(0).tolist()
    names = {t["index"]: t["class"] for t in want["top"]}
    for mine, timms in zip(got["top"], want["top"]):
        i = mine["index"]
        if not abs(mine["prob"] - probs[i]) <= tolerance or not abs(mine["prob"] - timms["prob"]) <= tolerance:
            out.append(f"top {mine}, wanted {timms}")
        elif i in names and mine["class"] != names[i]:
            out.append(f"class {mine['class']!r} of index {i}, wanted {names[i]!r}")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("images", nargs="+", metavar="IMAGE")
    parser.add_argument("--library", choices=["timm", "transformers"], default="timm")
    parser.add_argument("--expect", metavar="FILE", type=argparse.FileType())
    parser.add_argument("--tolerance", type=float, default=1e-3)
    args = parser.parse_args()
    results = list(predict(args.dir, args.images, args.library))
    if not args.expect:
        for result in results:
            print(json.dumps(result))
        return 0
    lines = [json.loads(line) for line in args.expect if line.strip()]
    errors = [] if len(lines) == len(results) else [f"{len(lines)} lines for {len(results)} images"]
    for got, want in zip(lines, results):
        errors += [f"{want['path']}: {d}" for d in differences(got, want, args.tolerance)]
    print("\n".join(errors) or f"{len(results)} images agree with {args.library}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
