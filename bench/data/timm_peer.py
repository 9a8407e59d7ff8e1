"""Images a second with timm's own transforms on Pillow, one process, one thread; one JSON object.

  python timm_peer.py FOLDER [IMAGES=500] [train|loader|eval]

train: create_transform(224, is_training=True, auto_augment='rand-m9-mstd0.5-inc1', color_jitter=0.4, re_prob=0.25,
interpolation='random'), to a normalised float tensor. loader: the same as timm's loader calls it with its prefetcher (uint8 out;
normalising and erasing are left to the device). eval: shorter side to 256 (bicubic), central crop of 224, uint8 out.
"""
import json
import pathlib
import sys
import time

import PIL
import timm
import torch
from PIL import Image, ImageOps
from timm.data import create_transform


# timm's PosterizeIncreasing keeps 0 bits at level 10, which Pillow 13 refuses; older ones made it black.
posterize = ImageOps.posterize
ImageOps.posterize = lambda image, bits: posterize(image, bits) if bits else image.point([0] * 768)


def transform_for(mode):
    if mode == "eval":
        return create_transform(224, interpolation="bicubic", crop_pct=0.875, use_prefetcher=True)
    return create_transform(224, is_training=True, auto_augment="rand-m9-mstd0.5-inc1", color_jitter=0.4, re_prob=0.25,
                            interpolation="random", use_prefetcher=mode == "loader")


def main():
    torch.set_num_threads(1)
    files = sorted(p for p in pathlib.Path(sys.argv[1]).rglob("*") if p.is_file())
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    mode = sys.argv[3] if len(sys.argv) > 3 else "train"
    transform = transform_for(mode)

    def load(path):
        with open(path, "rb") as file:
            return transform(Image.open(file).convert("RGB"))

    for path in files[:50]:
        load(path)
    start = time.perf_counter()
    for i in range(count):
        load(files[i % len(files)])
    seconds = time.perf_counter() - start
    print(json.dumps({"program": f"timm {timm.__version__} pillow {PIL.__version__} {mode}", "threads": 1, "images": count,
                      "images_per_second": round(count / seconds, 1)}))


if __name__ == "__main__":
    main()
