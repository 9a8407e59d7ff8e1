"""timm's own reading of command lines: tests/references/timm_commands.json, and the arguments of its train.py.

Run: TIMM=<checkout of huggingface/pytorch-image-models> VIT_10B=<checkout of ronghanghu/vit_10b_fsdp_example> \
         tools/references/run.sh timm_commands

{"main": {argument: default}, "bits": {the same of the branch bits_and_tpu}, "vit10b": {the same of run_vit_training.py},
 "commands": {name: {"lr": rate, "epochs": of the whole run, "rates": [[epoch, rate], ...]}}} for tests/references/timm_commands.txt.
The parsers are those of the programs: their add_argument calls are run as they stand.
"""
import argparse
import ast
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import torch
from timm import utils
from timm.scheduler import create_scheduler_v2, scheduler_kwargs

TESTS = Path(__file__).resolve().parents[3] / "tests" / "references"
MAIN, BITS, VIT_10B = "aa4b585", "a25bf97", "d672ec7"


def source(checkout, commit, path):
    return subprocess.run(["git", "-C", checkout, "show", f"{commit}:{path}"], check=True, capture_output=True, text=True).stdout


def parser_of(text):
    """Statements that make the parser and its groups, wherever they stand."""
    scope = {"argparse": argparse, "utils": utils}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Expr, ast.Assign)) and any(
                isinstance(n, ast.Attribute) and n.attr in ("add_argument", "add_argument_group", "ArgumentParser",
                                                            "add_mutually_exclusive_group") for n in ast.walk(node)):
            exec(compile(ast.Module([node], []), "parser", "exec"), scope)
    return scope["parser"]


def arguments(parser):
    out = {}
    for action in parser._actions:
        names = [n for n in action.option_strings if n.startswith("--")]
        if not names or "--help" in names:
            continue
        default = action.default
        if isinstance(action, (argparse._StoreTrueAction, argparse._StoreFalseAction)) or default in (None, "", [], {}):
            default = ""
        elif isinstance(default, list):
            default = " ".join(str(v) for v in default)
        out[names[0]] = str(default)
    return out


def devices(words):
    """How many devices the launcher starts, and the words behind train.py."""
    if words[0].endswith("_train.sh"):
        return int(words[1]), words[3 if words[2] == "train.py" else 2:]
    launcher, rest = words[:words.index("train.py")], words[words.index("train.py") + 1:]
    joined = " ".join(launcher).replace("=", " ").split()
    count = 1
    for name in ("--nproc_per_node", "--nnodes", "--num-devices"):
        if name in joined:
            count *= int(joined[joined.index(name) + 1])
    return count, rest


def rates(parser, command):
    world, words = devices(shlex.split(command))
    args = parser.parse_args(words)
    batch = args.batch_size * world * args.grad_accum_steps
    lr = args.lr
    if not lr:  # as main() of train.py
        ratio = batch / args.lr_base_size
        scale = args.lr_base_scale or ("sqrt" if any(o in args.opt.lower() for o in ("ada", "lamb")) else "linear")
        lr = args.lr_base * (ratio ** 0.5 if scale == "sqrt" else ratio)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    updates = 100
    scheduler, epochs = create_scheduler_v2(optimizer, **scheduler_kwargs(args), updates_per_epoch=updates)
    out = {"batch": batch, "lr": lr, "epochs": epochs, "rates": []}
    if args.sched == "plateau":
        return out
    for epoch in range(epochs):
        scheduler.step_update(epoch * updates) if args.sched_on_updates else scheduler.step(epoch)
        if epoch < 8 or epoch % 7 == 0 or epoch > epochs - 3:
            out["rates"].append([epoch, optimizer.param_groups[0]["lr"]])
    return out


def main():
    timm, vit = os.environ["TIMM"], os.environ["VIT_10B"]
    parser = parser_of(source(timm, MAIN, "train.py"))
    out = {"main": arguments(parser), "bits": arguments(parser_of(source(timm, BITS, "train.py"))),
           "vit10b": arguments(parser_of(source(vit, VIT_10B, "run_vit_training.py"))), "commands": {}}
    for line in (TESTS / "timm_commands.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, command = line.split(" ", 1)
            out["commands"][name] = rates(parser, command)
    text = re.sub(r"\n\s+(-?[\d.e-]+),?\n\s+(-?[\d.e-]+)\n\s+\]", r" \1, \2]", json.dumps(out, indent=1))
    (TESTS / "timm_commands.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
