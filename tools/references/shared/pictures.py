"""The pictures that augmentations are tried on; not stored. tests/image/augment_testing.cc makes them too.

By name: "noise" 21 x 27, "photo" 28 x 20 (waves and a little noise), "square" 17 x 17 and "tiny" 5 x 4 of noise, "flat" 7 x 5 of one
colour, "dark" 19 x 13 of few values.
"""
import numpy as np
from PIL import Image

import formula

PICTURES = ("noise", "photo", "square", "tiny", "flat", "dark")


def picture(name):
    if name == "photo":
        noise = formula.image("augment/photo", 20, 28).astype(np.int64)
        y, x, c = np.mgrid[0:20, 0:28, 0:3]
        return Image.fromarray((x * 5 + y * (6 - 2 * c) + c * 20 + noise // 16).astype(np.uint8))
    if name == "flat":
        return Image.fromarray(np.broadcast_to(np.array([200, 31, 77], np.uint8), (5, 7, 3)).copy())
    if name == "dark":
        return Image.fromarray(formula.image("augment/dark", 13, 19) // 29 + 17)
    width, height = {"noise": (21, 27), "square": (17, 17), "tiny": (5, 4)}[name]
    return Image.fromarray(formula.image("augment/" + name, height, width))
