"""Moments of timm's initial weights: tests/references/initial_moments.json.

Run: tools/references/run.sh initial_moments, or `python initial_moments.py` in its environment.

For each case of image_models.py, by parameter: [elements, mean, standard deviation, largest absolute value], over DRAWS models.
"""
import json

import torch

from image_models import CASES
from tensors import TESTS

DRAWS = 64


def moments(build, args):
    draws = {}
    for seed in range(DRAWS):
        torch.manual_seed(seed)
        for name, parameter in build(args).named_parameters():
            draws.setdefault(name, []).append(parameter.detach().double().flatten())
    rows = {}
    for name, values in draws.items():
        all_values = torch.cat(values)
        figures = (all_values.mean(), all_values.std(unbiased=False), all_values.abs().max())
        rows[name] = [values[0].numel(), *(float(f"{figure.item():.6g}") for figure in figures)]
    return rows


def main():
    path = TESTS / "initial_moments.json"
    with open(path, "w") as file:
        cases = {case: moments(build, args) for case, (_, build, args, _) in CASES.items()}
        lines = [f"{json.dumps(case)}: {{\n" + ",\n".join(f"{json.dumps(name)}: {row}" for name, row in rows.items()) + "}"
                 for case, rows in cases.items()]
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
    print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
