"""Files of torch.save: tests/references/torch/.

Run: tools/references/run.sh torch_files

tensors.pth, tensors.safetensors   every type and form of tensors: strided, sharing a storage, expanded, scalar, empty, Parameter
protocol4.pt                       the same by another pickle protocol
checkpoint.pth.tar                 as timm's train.py saves: epoch, args (argparse.Namespace), optimizer, state_dict and
                                   state_dict_ema with wrappers' prefixes
module.pth                         a whole torch.nn.Module, which is code
code.pth, opcode.pth               files whose pickles would run a command, by REDUCE and by INST
old.pth                            the format before PyTorch 1.6
"""
import argparse
import zipfile
from collections import OrderedDict
from pathlib import Path

import torch
from safetensors.torch import save_file

OUT = Path(__file__).parents[3] / "tests/references/torch"


def tensors():
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 7
    out = OrderedDict(plain=base.clone(), transposed=base.clone().T, rows=base[1:3], columns=base[:, 2:5:2],
                      expanded=torch.tensor([1.5, -2.0]).expand(3, 2), scalar=torch.tensor(3.25), empty=torch.zeros(0, 3),
                      parameter=torch.nn.Parameter(torch.ones(2, 2) / 3))
    for name in ("float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"):
        out[name] = (torch.arange(5) - (0 if name in ("uint8", "bool") else 2)).to(getattr(torch, name))
    return out


def train_checkpoint():
    layer = torch.nn.Linear(3, 2)
    torch.nn.init.constant_(layer.weight, 0.5)
    torch.nn.init.constant_(layer.bias, -1)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = {f"module.{name}": value for name, value in layer.state_dict().items()}
    ema = {f"_orig_mod.module.{name}": value * 2 for name, value in layer.state_dict().items()}
    return {"epoch": 3, "arch": "linear", "state_dict": state, "state_dict_ema": ema, "optimizer": optimizer.state_dict(),
            "version": 2, "args": argparse.Namespace(lr=1e-3, mixup=[0.1], name=None), "metric": 81.25}


def with_pickle(name, pickle):
    with zipfile.ZipFile(OUT / name, "w") as archive:
        archive.writestr(zipfile.ZipInfo("archive/data.pkl"), pickle)
        archive.writestr(zipfile.ZipInfo("archive/version"), "3\n")


def main():
    OUT.mkdir(exist_ok=True)
    torch.save(tensors(), OUT / "tensors.pth")
    torch.save(tensors(), OUT / "protocol4.pt", pickle_protocol=4)
    save_file({name: value.detach().contiguous().clone() for name, value in tensors().items()}, OUT / "tensors.safetensors")
    torch.save(train_checkpoint(), OUT / "checkpoint.pth.tar")
    torch.save(torch.nn.Linear(1, 1), OUT / "module.pth")
    torch.save({"a": torch.ones(1)}, OUT / "old.pth", _use_new_zipfile_serialization=False)
    with_pickle("code.pth", b"\x80\x02cos\nsystem\nq\x00X\x04\x00\x00\x00trueq\x01\x85q\x02Rq\x03.")
    with_pickle("opcode.pth", b"(S'true'\nios\nsystem\n.")


if __name__ == "__main__":
    main()
