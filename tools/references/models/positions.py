"""Learned positions moved to another grid: tests/references/positions.safetensors.

Run: tools/references/run.sh positions, or `python positions.py` in its environment.

Inputs: formula.array("positions/<case>", [1, prefix + rows * columns, width], 0.5); not stored. Keys, float32:
  bicubic/<case>    timm's resample_abs_pos_embed (bicubic, antialias)
  bilinear/<case>   the grid by torch's bilinear interpolation with align_corners, which is what big_vision's
                    scipy.ndimage.zoom(order=1) computes: corners stay corners; the prefix is copied
config: width, cases {case: {prefix, old: [rows, columns], new: [rows, columns]}}.
"""
import torch
from timm.layers import resample_abs_pos_embed
from torch.nn.functional import interpolate

import formula
from tensors import save

WIDTH = 5
CASES = {
    "up": (0, (4, 4), (7, 7)),
    "up_prefix": (1, (3, 3), (8, 8)),
    "down": (0, (14, 14), (6, 6)),
    "down_prefix": (3, (9, 9), (4, 4)),
    "oblong": (1, (5, 3), (2, 9)),
    "to_row": (0, (4, 4), (1, 6)),
}


def bilinear(positions, prefix, old, new):
    grid = positions[:, prefix:].reshape(1, *old, WIDTH).permute(0, 3, 1, 2)
    grid = interpolate(grid, size=new, mode="bilinear", align_corners=True)
    return torch.cat([positions[:, :prefix], grid.permute(0, 2, 3, 1).reshape(1, -1, WIDTH)], dim=1)


def main():
    tensors = {}
    for case, (prefix, old, new) in CASES.items():
        shape = (1, prefix + old[0] * old[1], WIDTH)
        positions = torch.from_numpy(formula.array("positions/" + case, shape, 0.5))
        tensors["bicubic/" + case] = resample_abs_pos_embed(positions, new, old, prefix).numpy()
        tensors["bilinear/" + case] = bilinear(positions, prefix, old, new).numpy()
    cases = {case: dict(prefix=p, old=old, new=new) for case, (p, old, new) in CASES.items()}
    save("positions.safetensors", tensors, dict(width=WIDTH, cases=cases))


if __name__ == "__main__":
    main()
