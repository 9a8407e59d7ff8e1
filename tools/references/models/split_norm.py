"""timm's split batch norm: tests/references/split_norm.json.

Run: tools/references/run.sh split_norm, or `python split_norm.py` in its environment.

A BatchNorm2d of 4 features, converted by timm's convert_splitbn_model to 3 splits, on formula.array("x", [6, 2, 3, 4]) with channels
last, in f64; parameters and buffers are formula.parameter(<name>), num_batches_tracked 0.
Keys, arrays flat and rounded to 8 digits:
  y, dx, d/<name>      of training, for the cotangent formula.array("dy", …)
  after/<name>         the buffers after that step
  eval                 the answer in evaluation, with the buffers as they were before
"""
import json

import numpy as np
import torch
from timm.layers.split_batchnorm import convert_splitbn_model

import formula
from tensors import TESTS

SHAPE = (6, 2, 3, 4)


def to_torch(name):
    return torch.tensor(formula.array(name, SHAPE).astype(np.float64)).permute(0, 3, 1, 2).contiguous()


def make():
    norm = convert_splitbn_model(torch.nn.BatchNorm2d(4, momentum=0.3), 3).double()
    with torch.no_grad():
        for name, value in list(norm.named_parameters()) + list(norm.named_buffers()):
            if not name.endswith("num_batches_tracked"):
                value.copy_(torch.tensor(formula.parameter(name, tuple(value.shape)).astype(np.float64)))
    return norm


def main():
    x = to_torch("x").requires_grad_()
    norm = make()
    out = {"eval": norm.eval()(x).permute(0, 2, 3, 1)}
    y = norm.train()(x)
    y.backward(to_torch("dy"))
    out |= {"y": y.permute(0, 2, 3, 1), "dx": x.grad.permute(0, 2, 3, 1)}
    out |= {"d/" + name: value.grad for name, value in norm.named_parameters()}
    out |= {"after/" + name: value for name, value in norm.named_buffers()}
    text = ",\n".join(f"{json.dumps(key)}: {json.dumps([float(f'{v:.8g}') for v in value.detach().flatten().tolist()])}"
                      for key, value in out.items())
    (TESTS / "split_norm.json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()
