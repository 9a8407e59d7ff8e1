"""Writes scikit-learn's handwritten digits as class folders of PNG files: DIR/{train,val}/<digit>/<index>.png.

1,797 images of 8 x 8 grey pixels, pixel = round(v / 16 * 255) for v in 0..16. Stratified 80/20 split with a fixed seed: 1,437 for
training, 360 held out. The same files every time. DIR appears only when it is complete.
"""

import argparse
import os
import shutil

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("dir", nargs="?", default="data/digits")
  out = parser.parse_args().dir.rstrip("/")

  digits = load_digits()
  pixels = np.floor(digits.images / 16 * 255 + 0.5).astype(np.uint8)
  indices = np.arange(len(pixels))
  train, val = train_test_split(indices, test_size=0.2, stratify=digits.target, random_state=0)

  partial = out + ".partial"
  shutil.rmtree(partial, ignore_errors=True)
  for split, members in (("train", train), ("val", val)):
    for label in range(10):
      os.makedirs(f"{partial}/{split}/{label}")
    for i in sorted(members):
      Image.fromarray(pixels[i]).save(f"{partial}/{split}/{digits.target[i]}/{i:04}.png")
  shutil.rmtree(out, ignore_errors=True)
  os.replace(partial, out)
  print(f"{out}: {len(train)} training and {len(val)} held-out images")


if __name__ == "__main__":
  main()
