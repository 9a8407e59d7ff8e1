"""timm's augmentations on Pillow and torchvision's colour jitter: tests/references/augment.safetensors.

Run: tools/references/run.sh augment, or `python augment.py` in its environment.

Pictures: pictures.py.
Keys, uint8 [H, W, 3]: <case>. config: cases {case: {picture, steps: [{op, value, filter}]}}, mixes {case: {picture, chains:
[{weight, steps}], mix, blended}}, fill, levels (what timm's level functions return), every_color (checksums), versions.
"""
import itertools
import math
import random

import numpy as np
import PIL
import timm
import torchvision
from PIL import Image
from timm.data import auto_augment as aa
from timm.data import transforms as tt
from torchvision.transforms import functional as F

from pictures import PICTURES, picture
from tensors import save

FILL = (124, 116, 104)
BILINEAR, BICUBIC, NEAREST = Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.NEAREST
FILTERS = {"nearest": NEAREST, "bilinear": BILINEAR, "bicubic": BICUBIC}


def geometry(function):
    return lambda image, value, name: function(image, value, resample=FILTERS[name], fillcolor=FILL)


OPS = {
    "AutoContrast": lambda image, value, name: aa.auto_contrast(image),
    "Equalize": lambda image, value, name: aa.equalize(image),
    "Invert": lambda image, value, name: aa.invert(image),
    "Posterize": lambda image, value, name: aa.posterize(image, int(value)),
    "Solarize": lambda image, value, name: aa.solarize(image, int(value)),
    "SolarizeAdd": lambda image, value, name: aa.solarize_add(image, int(value)),
    "Color": lambda image, value, name: aa.color(image, value),
    "Contrast": lambda image, value, name: aa.contrast(image, value),
    "Brightness": lambda image, value, name: aa.brightness(image, value),
    "Sharpness": lambda image, value, name: aa.sharpness(image, value),
    "GaussianBlur": lambda image, value, name: aa.gaussian_blur(image, value),
    "Hue": lambda image, value, name: F.adjust_hue(image, value),
    "Rotate": geometry(aa.rotate),
    "ShearX": geometry(aa.shear_x),
    "ShearY": geometry(aa.shear_y),
    "TranslateX": geometry(aa.translate_x_abs),
    "TranslateY": geometry(aa.translate_y_abs),
}
VALUES = {
    "AutoContrast": (0,),
    "Equalize": (0,),
    "Invert": (0,),
    "Posterize": (1, 2, 3, 4, 5, 7, 8),
    "Solarize": (0, 26, 128, 200, 256),
    "SolarizeAdd": (0, 11, 99, 110, 128),
    "Color": (0.0, 0.1, 0.37, 1.0, 1.81, 1.9),
    "Contrast": (0.0, 0.1, 0.73, 1.0, 1.27, 1.9),
    "Brightness": (0.1, 0.6, 0.9999, 1.4, 1.9),
    "Sharpness": (0.0, 0.1, 0.55, 1.45, 1.9),
    "GaussianBlur": (0.1, 0.5, 1.0, 1.9, 4.0),
    "Hue": (-0.5, -0.3, -0.004, 0.1, 0.27, 0.5),
    "Rotate": (-30, -27.0, -1.25, 0, 3.3, 15, 27.9, 30, 90, 180, -90, 135),
    "ShearX": (-0.3, -0.27, 0.03, 0.15, 0.2999, 1.5),
    "ShearY": (-0.3, -0.27, 0.03, 0.15, 0.2999, 1.5),
    "TranslateX": (-13.5, -4.05, 0, 0.3, 7, 11.745, 60),
    "TranslateY": (-13.5, -4.05, 0, 0.3, 7, 11.745, 60),
}
GEOMETRY = ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")


def single_cases():
    """(case, picture, op, value, filter); each value on two pictures, each op's first and last also on the odd ones."""
    for op, values in VALUES.items():
        for (i, value), name in itertools.product(enumerate(values), FILTERS if op in GEOMETRY else ("bicubic",)):
            pictures = PICTURES if i in (0, len(values) - 1) and op not in GEOMETRY else PICTURES[i % 2:i % 2 + 1]
            if op in GEOMETRY and i in (1, len(values) - 1):
                pictures += ("square", "tiny")
            if op in GEOMETRY and value in (90, 180, -90):
                pictures = ("noise", "square")
            for p in pictures:
                yield f"{op}/{value}/{name}/{p}", p, op, value, name


class Recorder:
    """An op of a mix that records what was applied."""

    def __init__(self, op, value, name="bicubic"):
        self.step, self.args = {"op": op, "value": value, "filter": name}, (op, value, name)

    def __call__(self, image):
        op, value, name = self.args
        return OPS[op](image, value, name)


def mix_cases():
    chains = ([Recorder("Rotate", 5.5, "bilinear"), Recorder("Equalize", 0)], [Recorder("Sharpness", 1.3)],
              [Recorder("TranslateX", -2.7), Recorder("Posterize", 3), Recorder("ShearY", 0.11)])
    for blended, p in itertools.product((False, True), ("noise", "photo")):
        weights = np.float32([0.21, 0.5, 0.29])
        m = np.float32(0.613)
        mixer = aa.AugMixAugment([], width=3, depth=1, blended=blended)
        image = picture(p)
        if blended:
            out = image
            for w, chain in zip(mixer._calc_blended_weights(weights, m), chains):
                branch = image
                for op in chain:
                    branch = op(branch)
                out = Image.blend(out, branch, w)
        else:
            mixed = np.zeros_like(image, dtype=np.float32)
            for mw, chain in zip(weights, chains):
                branch = image
                for op in chain:
                    branch = op(branch)
                mixed += mw * np.asarray(branch, dtype=np.float32)
            np.clip(mixed, 0, 255.0, out=mixed)
            out = Image.blend(image, Image.fromarray(mixed.astype(np.uint8)), m)
        config = {"picture": p, "mix": float(m), "blended": blended,
                  "chains": [{"weight": float(w), "steps": [r.step for r in c]} for w, c in zip(weights, chains)]}
        yield f"mix/{'blended' if blended else 'summed'}/{p}", config, out


def level_values():
    """What timm's level functions make of a level, with the sign drawn positive and negative; {name: {level: [values]}}."""
    table = {}
    hparams = dict(translate_const=250, img_mean=FILL)
    for name, function in aa.LEVEL_TO_ARG.items():
        if name in ("TranslateX", "TranslateY"):
            continue
        table[name] = {}
        for level in (0, 1, 2.37, 5, 7.5, 9, 10, 14):
            values = set()
            for draw in (0.25, 0.75):
                original, random.random = random.random, lambda: draw
                values.add(function(level, hparams)[0] if function else 0)
                random.random = original
            table[name][str(level)] = sorted(values)
    return table


def size_cases():
    """timm's ResizeKeepRatio: [width, height] of a picture -> of the result, without and with fixed factors."""
    cases = []
    for w, h in ((500, 375), (375, 500), (101, 77), (64, 64), (33, 800)):
        image = Image.new("RGB", (w, h))
        for size, longest in (((224, 224), 0.0), ((224, 224), 1.0), ((96, 128), 0.0), ((64, 64), 0.5)):
            height, width = tt.ResizeKeepRatio.get_params(image, size, longest)
            cases.append({"in": [w, h], "size": [size[1], size[0]], "longest": longest, "out": [width, height]})
    return cases


def pad_cases():
    """timm's crop_or_pad and center_crop_or_pad."""
    for p, mode, (top, left, height, width) in (
            ("noise", "constant", (-3, 5, 31, 12)), ("noise", "reflect", (-7, -4, 40, 30)),
            ("tiny", "reflect", (-9, -11, 21, 30)),
            ("photo", "constant", (4, 3, 11, 13)), ("tiny", "reflect", (1, -2, 9, 2))):
        fill = list(FILL) if mode == "constant" else 0
        out = tt.crop_or_pad(picture(p), top, left, height, width, fill=fill, padding_mode=mode)
        yield (f"crop_or_pad/{p}/{mode}/{height}x{width}",
               {"picture": p, "mode": mode, "box": [left, top, width, height]}, out)
    for p, mode, (height, width) in (
            ("noise", "constant", (33, 12)), ("photo", "reflect", (25, 33)), ("photo", "constant", (19, 28)),
            ("tiny", "reflect", (13, 4)), ("square", "constant", (18, 16))):
        fill = list(FILL) if mode == "constant" else 0
        out = tt.center_crop_or_pad(picture(p), (height, width), fill=fill, padding_mode=mode)
        yield f"center/{p}/{mode}/{height}x{width}", {"picture": p, "mode": mode, "size": [width, height]}, out


def blur_cases():
    for p, size, sigma in (("noise", 23, 0.1), ("noise", 23, 0.83), ("photo", 23, 2.0), ("square", 9, 1.3), ("photo", 3, 0.5)):
        out = F.gaussian_blur(picture(p), [size, size], [sigma, sigma])
        yield f"blur/{p}/{size}/{sigma}", {"picture": p, "size": size, "sigma": sigma}, out


def checksum(image):
    """Of bytes b[i]: sum of b[i] (i mod 65521 + 1), modulo 2^64."""
    data = np.asarray(image).reshape(-1).astype(np.uint64)
    return int((data * (np.arange(data.size, dtype=np.uint64) % 65521 + 1)).sum())


def every_color():
    """Checksums of operations on all 2^24 colours in order: [op, value, checksum]."""
    index = np.arange(1 << 24, dtype=np.uint32).reshape(4096, 4096)
    image = Image.fromarray(np.stack([index >> 16, index >> 8 & 255, index & 255], 2).astype(np.uint8))
    return [[op, value, checksum(OPS[op](image, value, None))]
            for op, value in (("Hue", 0.1), ("Hue", -0.37), ("Color", 0.0), ("Color", 0.3), ("Color", 1.7))]


def main():
    tensors, cases, mixes = {}, {}, {}
    for case, p, op, value, name in single_cases():
        tensors[case] = np.asarray(OPS[op](picture(p), value, name))
        cases[case] = {"picture": p, "steps": [{"op": op, "value": value, "filter": name}]}
    for case, config, out in mix_cases():
        tensors[case] = np.asarray(out)
        mixes[case] = config
    groups = {}
    for group, generator in (("pads", pad_cases), ("blurs", blur_cases)):
        groups[group] = {}
        for case, config, out in generator():
            tensors[case] = np.asarray(out)
            groups[group][case] = config
    for p in ("noise", "photo"):
        tensors[f"grey/{p}"] = np.asarray(F.rgb_to_grayscale(picture(p), 3))
    save("augment.safetensors", tensors, {
        "fill": FILL, "cases": cases, "mixes": mixes, "levels": level_values(), "keep_ratio": size_cases(), **groups,
        "every_color": every_color(),
        "versions": {"timm": timm.__version__, "pillow": PIL.__version__, "torchvision": torchvision.__version__},
    })


if __name__ == "__main__":
    main()
