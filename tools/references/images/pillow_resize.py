"""Pillow's Image.resize and timm's eval transform on uint8 RGB: tests/references/resize.safetensors.

Run: tools/references/run.sh pillow_resize, or `python pillow_resize.py` in its environment.

Inputs: formula.image("resize/<case>", height, width), or "eval/<case>"; not stored. Keys, uint8 [H, W, 3]:
  <filter>/<case>   Image.resize(size, filter, box); filter is bilinear, bicubic, box, hamming, lanczos
  eval/<case>       timm's eval transform, crop_pct 0.875: the shorter side resized to
                    floor(img_size / 0.875), then a centre crop; before the conversion to float
config: cases {case: {in: [w, h], out: [w, h], box: [left, top, right, bottom] or null}},
eval {case: {in: [w, h], img_size, interpolation}}, crop_pct, pillow (version).
"""
import numpy as np
import PIL
from PIL import Image
from timm.data import create_transform

import formula
from tensors import save

FILTERS = ("bilinear", "bicubic", "box", "hamming", "lanczos")
CASES = {  # in, out, box
    "down": ((48, 36), (16, 12), None),
    "down_odd": ((65, 43), (33, 21), None),
    "down_far": ((201, 151), (14, 13), None),
    "up": ((9, 7), (23, 31), None),
    "mixed": ((40, 11), (13, 29), None),
    "same": ((15, 13), (15, 13), None),
    "width_only": ((24, 17), (9, 17), None),
    "height_only": ((17, 24), (17, 9), None),
    "column": ((1, 17), (8, 9), None),
    "row": ((17, 1), (9, 8), None),
    "down_first": ((31, 44), (24, 29), None),  # Pillow 13 shrinks heights first where they lose twice what widths do
    "down_first_up": ((12, 40), (23, 21), None),
    "down_first_far": ((40, 160), (39, 13), None),
    "down_not_first": ((31, 44), (24, 30), None),
    "to_pixel": ((20, 19), (1, 1), None),
    "from_pixel": ((1, 1), (5, 4), None),
    "to_column": ((11, 13), (1, 13), None),
    "box_int": ((40, 30), (24, 23), (5, 4, 29, 20)),
    "box_float": ((40, 30), (16, 17), (3.5, 2.25, 33.75, 28.5)),
    "box_up": ((21, 19), (25, 27), (7.3, 6.1, 12.9, 11.2)),
    "box_edge": ((33, 27), (11, 10), (20.5, 13.25, 33, 27)),
    "box_same_size": ((30, 30), (12, 12), (9, 8, 21, 20)),
    "box_half_pixel": ((30, 30), (12, 12), (9.5, 8.5, 21.5, 20.5)),
    "box_thin": ((30, 30), (6, 7), (10.25, 11.5, 10.75, 12)),
}
EVAL = {  # in, img_size, interpolation
    "wide": ((101, 75), 64, "bicubic"),
    "tall": ((77, 131), 64, "bilinear"),
    "small": ((51, 47), 64, "bicubic"),
    "narrow": ((70, 190), 61, "bicubic"),
    "odd_target": ((333, 211), 61, "bilinear"),
}


def main():
    tensors = {}
    for case, ((w, h), size, box) in CASES.items():
        image = Image.fromarray(formula.image("resize/" + case, h, w))
        for name in FILTERS:
            tensors[f"{name}/{case}"] = np.asarray(image.resize(size, Image.Resampling[name.upper()], box))
    for case, ((w, h), img_size, interpolation) in EVAL.items():
        transform = create_transform(img_size, interpolation=interpolation, crop_pct=0.875, normalize=False)
        image = Image.fromarray(formula.image("eval/" + case, h, w))
        tensors["eval/" + case] = transform(image).permute(1, 2, 0).numpy()
    save("resize.safetensors", tensors, {
        "cases": {c: {"in": i, "out": o, "box": b} for c, (i, o, b) in CASES.items()},
        "eval": {c: {"in": i, "img_size": s, "interpolation": p} for c, (i, s, p) in EVAL.items()},
        "crop_pct": 0.875,
        "pillow": PIL.__version__,
    })


if __name__ == "__main__":
    main()
