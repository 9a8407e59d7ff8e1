"""Writes JPEG photographs of 500 x 375 pixels and about 100 KB, as in ImageNet, for the input benchmark.

  python tools/make_photos.py FOLDER [COUNT=200]

They are crops, at several sizes, of the photographs that come with scikit-image and scikit-learn (pip install pillow scikit-image
scikit-learn pooch). FOLDER/photos/ is one class folder.
"""
import io
import pathlib
import random
import sys

from PIL import Image
import skimage.data
import sklearn.datasets

SIZE, BYTES = (500, 375), 100_000


def photographs():
    arrays = [skimage.data.astronaut(), skimage.data.chelsea(), skimage.data.coffee()]
    arrays += list(sklearn.datasets.load_sample_images().images)
    return [Image.fromarray(a).convert("RGB") for a in arrays]


def crop(image, rng):
    """A random 4:3 part of at least half the largest one, scaled to SIZE."""
    width = min(image.width, image.height * 4 / 3) * rng.uniform(0.5, 1)
    height = width * 3 / 4
    x, y = rng.uniform(0, image.width - width), rng.uniform(0, image.height - height)
    return image.resize(SIZE, Image.Resampling.LANCZOS, (x, y, x + width, y + height))


def encode(image):
    """The quality whose file is nearest to BYTES."""
    best = None
    for quality in range(70, 100, 2):
        out = io.BytesIO()
        image.save(out, "JPEG", quality=quality, subsampling=2)
        if best is None or abs(out.tell() - BYTES) < abs(len(best) - BYTES):
            best = out.getvalue()
    return best


def main():
    folder = pathlib.Path(sys.argv[1]) / "photos"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    images = photographs()
    total = 0
    for i in range(count):
        data = encode(crop(images[i % len(images)], rng))
        (folder / f"{i:04}.jpg").write_bytes(data)
        total += len(data)
    print(f"{count} photographs of {total // count / 1000:.0f} KB in {folder}")


if __name__ == "__main__":
    main()
