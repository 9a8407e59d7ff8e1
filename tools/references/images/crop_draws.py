"""How often timm draws which random crop: tests/references/crop_draws.safetensors.

Run: tools/references/run.sh crop_draws, or `python crop_draws.py` in its environment.

Keys, float32 counts of DRAWS boxes out of images of 500 x 375 and 120 x 400 (config images): <image>/sizes [8, 8] by eighths of the
height, then of the width, that the box takes; <image>/x, <image>/y [8] by eighths of where it lies in the room it has.
"""
import random

from PIL import Image
from timm.data.transforms import RandomResizedCropAndInterpolation

from crop_tally import DRAWS, IMAGES, tally
from tensors import save


def main():
    random.seed(0)
    tensors = {}
    for name, (width, height) in IMAGES.items():
        image = Image.new("RGB", (width, height))
        boxes = []
        for _ in range(DRAWS):
            top, left, h, w = RandomResizedCropAndInterpolation.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3))
            boxes.append((left, top, w, h))
        tensors |= {f"{name}/{key}": counts for key, counts in tally(boxes, width, height).items()}
    save("crop_draws.safetensors", tensors, {"images": IMAGES, "draws": DRAWS})


if __name__ == "__main__":
    main()
