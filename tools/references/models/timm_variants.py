"""The parameters of timm's models that src/models has by name: tests/references/timm_variants.json.

Run: tools/references/run.sh timm_variants, or `python timm_variants.py` in its environment.

{name: [elements of all parameters, hash]}, with 1000 classes. The hash is FNV-1a-32 over the sorted lines "<name> [d0, d1]\\n".
"""
import json
import re
from pathlib import Path

import timm
import torch

from tensors import TESTS

MODELS = Path(__file__).resolve().parents[3] / "src" / "models"


def names():
    """First words of the tables' rows."""
    rows = "\n".join(p.read_text() for p in sorted(MODELS.rglob("*")) if p.suffix in (".def", ".cc"))
    found = re.findall(r'^(?:TIMM_VIT\(| +\{)"([a-z0-9_]+)",\s+\d+,', rows, re.M)
    return sorted(set(found) & set(timm.list_models()))


def fnv(text):
    h = 2166136261
    for byte in text.encode():
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    return h


def parameters(name):
    with torch.device("meta"):
        model = timm.create_model(name, num_classes=1000)
    shapes = {n: list(p.shape) for n, p in model.named_parameters()}
    lines = sorted(f"{n} {s}\n" for n, s in shapes.items())
    return [sum(p.numel() for p in model.parameters()), fnv("".join(lines))]


if __name__ == "__main__":
    table = {name: parameters(name) for name in names()}
    out = TESTS / "timm_variants.json"
    out.write_text("{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(v)}" for n, v in table.items()) + "\n}\n")
    print(f"{out.name}: {len(table)} models")
