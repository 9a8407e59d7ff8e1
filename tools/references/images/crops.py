"""Where torchvision's FiveCrop and TenCrop cut: tests/references/crops.json.

Run: tools/references/run.sh crops, or `python crops.py` in its environment.

For each size [height, width] of an image and of its crops: "five" and "ten", the crops in torchvision's order, each as [top, left,
mirrored]. They are read off an image whose pixels are their own places.
"""
import json

import numpy as np
from PIL import Image
from torchvision.transforms import FiveCrop, TenCrop

from tensors import TESTS

SIZES = [((8, 9), (5, 4)), ((9, 8), (4, 4)), ((12, 12), (7, 7)), ((256, 256), (224, 224)), ((6, 6), (6, 6)), ((11, 10), (8, 5))]


def crops(transform, height, width):
    places = np.stack(list(np.meshgrid(np.arange(height), np.arange(width), indexing="ij")) + [np.zeros((height, width))], -1)
    out = []
    for crop in transform(Image.fromarray(places.astype(np.uint8))):
        pixels = np.asarray(crop).astype(int)
        mirrored = bool(pixels[0, 0, 1] > pixels[0, -1, 1])
        out.append([int(pixels[0, 0, 0]), int(pixels[0, :, 1].min()), mirrored])
    return out


def main():
    cases = [{"image": image, "crop": crop, "five": crops(FiveCrop(crop), *image), "ten": crops(TenCrop(crop), *image)}
             for image, crop in SIZES]
    (TESTS / "crops.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
