"""Kernels of patch embeddings moved to another patch size and to other channels: tests/references/patches.safetensors.

Run: tools/references/run.sh patches, or `python patches.py` in its environment.

Inputs: formula.array("patches/<case>", [old, old, 3, FEATURES], 0.5); not stored. Keys, float32, laid out as the inputs:
  bicubic/<case>    timm's resample_patch_embed
  bilinear/<case>   the same formula with torch's bilinear interpolation, align_corners and antialias off, which is what
                    big_vision's resample_patchemb (models/proj/flexi/vit.py) takes from tf.image.resize
  channels/<n>      timm's adapt_input_conv to n channels, of the first case's input
config: features, cases {case: [old, new]}, channels.
"""
import torch
from timm.layers import resample_patch_embed
from timm.models._manipulate import adapt_input_conv

import formula
from tensors import save

FEATURES = 2
CASES = {"up": (4, 7), "double": (8, 16), "down": (8, 5), "half": (16, 8)}
CHANNELS = [1, 2, 4, 7]


def bilinear(kernel, new):
    old = kernel.shape[-1]
    basis = torch.eye(old * old, dtype=torch.float64).reshape(old * old, 1, old, old)
    matrix = torch.nn.functional.interpolate(basis, size=(new, new), mode="bilinear").reshape(old * old, new * new)
    moved = kernel.double().reshape(-1, old * old) @ torch.linalg.pinv(matrix).T
    return moved.reshape(*kernel.shape[:2], new, new)


def main():
    def ours(kernel):
        return kernel.permute(2, 3, 1, 0).numpy()

    tensors = {}
    for case, (old, new) in CASES.items():
        kernel = torch.from_numpy(formula.array("patches/" + case, (old, old, 3, FEATURES), 0.5)).permute(3, 2, 0, 1)
        tensors["bicubic/" + case] = ours(resample_patch_embed(kernel.double(), (new, new)))
        tensors["bilinear/" + case] = ours(bilinear(kernel, new))
        if case == "up":
            tensors |= {f"channels/{n}": ours(adapt_input_conv(n, kernel.clone())) for n in CHANNELS}
    save("patches.safetensors", tensors, dict(features=FEATURES, cases=CASES, channels=CHANNELS))


if __name__ == "__main__":
    main()
