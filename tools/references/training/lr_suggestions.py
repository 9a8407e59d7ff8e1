"""What fastai's own functions suggest for curves of a learning-rate search: tests/references/lr_suggestions.json.

Run: tools/references/run.sh lr_suggestions, or `python lr_suggestions.py` in its environment.

valley, slide, minimum and steep are those of fastai/callback/schedule.py, taken from the installed file by name and run on
float64 arrays in place of torch's tensors; fastai itself, which needs torch and more, is not imported. A list of curves, each
{name, lrs, losses, and of each function its suggestion}; null where the function fails, as slide does on fewer than 16 points.
"""
import ast
import importlib.util
import json
import pathlib

import numpy as np

FUNCTIONS = ["valley", "slide", "minimum", "steep"]


class Tensor(np.ndarray):
    """An array with the one method of torch's that the functions call."""

    def log(self):
        return np.log(self)


def fastai_functions():
    path = pathlib.Path(importlib.util.find_spec("fastai").origin).parent / "callback/schedule.py"
    tree = ast.parse(path.read_text())
    body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in FUNCTIONS]
    assert len(body) == len(FUNCTIONS)
    scope = {"np": np, "to_np": np.asarray}
    exec(compile(ast.Module(body=body, type_ignores=[]), str(path), "exec"), scope)
    return {name: scope[name] for name in FUNCTIONS}


def curves():
    """Smoothed losses over rates from 1e-7 to 10, as fastai's lr_find hands them to its functions: without the first tenth of
    100 steps and the last five."""
    rates = 1e-7 * (10 / 1e-7) ** (np.arange(100) / 100)
    log = np.log10(rates)
    noise = np.random.default_rng(7).normal(size=100)
    fall = 1 / (1 + np.exp(3 * (log + 3)))
    rise = np.exp(np.minimum(4 * (log - 0.2), 4))
    yield "valley", rates[10:-5], (2.3 * (0.35 + 0.65 * fall) + rise)[10:-5]
    yield "noisy", rates[10:-5], (2.3 * (0.35 + 0.65 * fall) + rise + 0.03 * noise)[10:-5]
    yield "late", rates[10:-5], (2.3 * (0.2 + 0.8 / (1 + np.exp(6 * (log + 0.5)))) + 0.002 * noise)[10:-5]
    yield "diverged early", rates[10:45], (2 - 0.02 * np.arange(100) + rise + 0.001 * noise)[10:45]
    yield "falls all along", rates[10:-5], 3 - 2 * np.linspace(0, 1, 85) ** 1.1
    yield "rises all along", rates[10:-5], 1 + 2 * np.linspace(0, 1, 85) ** 1.1
    yield "two dips", rates[10:-5], (2 - 0.5 * np.exp(-(log + 5) ** 2) - np.exp(-2 * (log + 2) ** 2) + 0.01 * noise)[10:-5]
    yield "few points", rates[10:22], (2 - 0.1 * np.arange(12) + 0.02 * noise[:12])
    yield "two points", rates[10:12], np.array([2.0, 1.0])
    yield "sixteen points", rates[10:26], (2 - 0.05 * np.arange(16) + 0.02 * noise[:16])


def suggestion(function, lrs, losses):
    try:
        return float(function(lrs.view(Tensor), losses.view(Tensor), 100)[0])
    except (IndexError, ValueError):
        return None


def main():
    functions = fastai_functions()
    out = []
    for name, lrs, losses in curves():
        entry = {"name": name, "lrs": lrs.tolist(), "losses": losses.tolist()}
        entry.update({key: suggestion(function, lrs, losses) for key, function in functions.items()})
        out.append(entry)
    path = pathlib.Path(__file__).resolve().parents[3] / "tests/references/lr_suggestions.json"
    path.write_text(json.dumps(out, indent=1) + "\n")


main()
