"""Images a second with Pillow, one process: decode, timm's random resized crop to 224 (bilinear), flip; one JSON object.

  python pillow_peer.py FOLDER [IMAGES=1000] [SIZE=224]
"""
import json
import math
import pathlib
import random
import sys
import time

import PIL
from PIL import Image


def crop_box(width, height, rng):
    """timm.data.transforms.RandomResizedCropAndInterpolation.get_params."""
    for _ in range(10):
        area = rng.uniform(0.08, 1) * width * height
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if w <= width and h <= height:
            x, y = rng.randint(0, width - w), rng.randint(0, height - h)
            return x, y, x + w, y + h
    return 0, 0, width, height


def load(path, size, rng):
    with open(path, "rb") as file:
        image = Image.open(file).convert("RGB")
    image = image.crop(crop_box(*image.size, rng)).resize((size, size), Image.Resampling.BILINEAR)
    if rng.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return image.tobytes()


def main():
    files = sorted(p for p in pathlib.Path(sys.argv[1]).rglob("*") if p.is_file())
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    size = int(sys.argv[3]) if len(sys.argv) > 3 else 224
    rng = random.Random(0)
    for path in files[:50]:
        load(path, size, rng)
    start = time.perf_counter()
    for i in range(count):
        load(files[i % len(files)], size, rng)
    seconds = time.perf_counter() - start
    print(json.dumps({"program": f"pillow {PIL.__version__}", "threads": 1, "images": count, "images_per_second": round(count / seconds, 1)}))


if __name__ == "__main__":
    main()
