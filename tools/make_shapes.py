"""Writes pictures of two coloured shapes with captions: DIR/{train,seen,val}.jsonl and the JPEG files they name.

"a large blue square right of a small red circle": each shape has one of 2 sizes, 8 colours and 6 kinds, and stands left of, right of,
above or below the other. The larger one is named first; of equal ones the one that is left or above. Background, exact places, sizes
and colours vary, and there are specks and noise. A line of JSONL:

  image      DIR/images/<split>/<thousands>/<number>.jpg, from DIR on
  caption    the sentence

Eight pairs of colour and kind are in no picture of train; every picture of val has one at least. seen holds new pictures of train's
pairs. Lines of seen and val have besides, for choosing a caption among 64:

  candidates 64 sentences, of which one is true: the caption. Nearly half differ from it in one attribute, or have the shapes
             change places; the others differ in two attributes
  label      the place of the true one, 0 to 63

The same files every time, for the same seed and sizes. DIR appears only when it is complete.
"""

import argparse
import json
import os
import shutil

import numpy as np
from PIL import Image

SIZES = ("small", "large")
COLOURS = {
  "red": (215, 40, 40), "green": (40, 165, 60), "blue": (45, 75, 220), "yellow": (235, 215, 50),
  "purple": (150, 50, 190), "orange": (240, 135, 30), "cyan": (50, 205, 215), "white": (245, 245, 245),
}
KINDS = ("circle", "square", "triangle", "diamond", "cross", "ring")
RELATIONS = ("left of", "right of", "above", "below")
# From the first shape to the second, in x and y; the opposite of relation r is r ^ 1.
DIRECTIONS = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)], np.float32)
CANDIDATES = 64
CHUNK = 1000  # pictures drawn together

# A picture is (size, colour, kind, size, colour, kind, relation), as numbers.
ATTRIBUTES = (len(SIZES), len(COLOURS), len(KINDS), len(SIZES), len(COLOURS), len(KINDS), len(RELATIONS))


def held_out(colour, kind):
  """Each colour with one kind."""
  return kind == (colour * 5 + 2) % len(KINDS)


def sentence(scene):
  name = lambda size, colour, kind: f"a {SIZES[size]} {tuple(COLOURS)[colour]} {KINDS[kind]}"
  return f"{name(*scene[:3])} {RELATIONS[scene[6]]} {name(*scene[3:6])}"


def as_named(scene):
  """The same picture with the larger shape first; of equal ones the one that is left or above."""
  first, second, relation = tuple(scene[:3]), tuple(scene[3:6]), scene[6]
  if second[0] > first[0] or (second[0] == first[0] and relation & 1):
    return (*second, *first, relation ^ 1)
  return (*first, *second, relation)


def draw_scenes(count, new_pairs, rng):
  """[count, 7]; with new_pairs at least one shape of each scene is held out, without none is."""
  kept = np.empty((0, 7), np.int64)
  while len(kept) < count:
    scenes = np.stack([rng.integers(n, size=4 * count) for n in ATTRIBUTES], axis=1)
    new = held_out(scenes[:, 1], scenes[:, 2]).astype(int) + held_out(scenes[:, 4], scenes[:, 5])
    differ = (scenes[:, 1:3] != scenes[:, 4:6]).any(axis=1)
    kept = np.concatenate([kept, scenes[differ & ((new > 0) == new_pairs)]])
  return np.array([as_named(scene) for scene in kept[:count].tolist()])


def changed(scene, places, rng):
  scene = list(scene)
  for place in places:
    scene[place] = (scene[place] + int(rng.integers(1, ATTRIBUTES[place]))) % ATTRIBUTES[place]
  return as_named(scene)


def candidates(scene, rng):
  """The scene and 63 that are false of it."""
  false = {as_named(scene[:place] + (value,) + scene[place + 1:]) for place in range(7) for value in range(ATTRIBUTES[place])}
  false.add(as_named((*scene[3:6], *scene[:3], scene[6])))
  false.discard(scene)
  while len(false) < CANDIDATES - 1:
    false.add(changed(scene, rng.choice(7, 2, replace=False), rng))
    false.discard(scene)
  scenes = sorted(false)
  rng.shuffle(scenes)
  label = int(rng.integers(CANDIDATES))
  scenes.insert(label, scene)
  return [sentence(one) for one in scenes], label


def distance(kind, x, y, r):
  """How far the points are outside of a shape of radius r, in the unit of x and y."""
  ax, ay = np.abs(x), np.abs(y)
  if kind == 0:
    return np.hypot(x, y) - r
  if kind == 1:
    return np.maximum(ax, ay) - 0.85 * r
  if kind == 2:
    return np.maximum(y - 0.7 * r, 0.866 * ax - 0.5 * y - 0.55 * r)
  if kind == 3:
    return (ax + ay - 1.1 * r) * 0.7071
  if kind == 4:
    return np.minimum(np.maximum(ax - r, ay - 0.34 * r), np.maximum(ay - r, ax - 0.34 * r))
  return np.abs(np.hypot(x, y) - 0.75 * r) - 0.25 * r


def places(scenes, radius, rng):
  """[count, 2, 2]: x and y of both shapes in 0..1, apart along the relation and near in the other direction."""
  count = len(scenes)
  along = DIRECTIONS[scenes[:, 6]]
  apart = radius.sum(axis=1) + rng.uniform(0.05, 0.15, count)
  aside = rng.uniform(-0.06, 0.06, count)
  offset = along * apart[:, None] + along[:, ::-1] * aside[:, None]
  low = np.maximum(radius[:, :1], radius[:, 1:] - offset)
  high = 1 - np.maximum(radius[:, :1], radius[:, 1:] + offset)
  first = low + (high - low) * rng.uniform(size=(count, 2))
  return np.stack([first, first + offset], axis=1)


def paint(image, coverage, colour):
  image += coverage[..., None] * (colour - image)


def draw(scenes, side, rng):
  """uint8 [count, side, side, 3]."""
  count = len(scenes)
  uniform = lambda low, high, shape: rng.uniform(low, high, shape).astype(np.float32)
  y, x = np.mgrid[0:side, 0:side].astype(np.float32)[:, None] + 0.5
  x, y = x / np.float32(side), y / np.float32(side)
  grey = uniform(50, 130, (count, 1, 1, 1)) + uniform(-12, 12, (count, 1, 1, 3))
  slope = uniform(-35, 35, (count, 2, 1, 1, 1))
  images = (grey + slope[:, 0] * (x - 0.5)[..., None] + slope[:, 1] * (y - 0.5)[..., None])
  for _ in range(6):
    centre, colour = uniform(0, 1, (2, count, 1, 1)), uniform(0, 255, (count, 1, 1, 3))
    away = np.hypot(x - centre[0], y - centre[1]) - uniform(0.006, 0.014, (count, 1, 1))
    paint(images, np.clip(0.5 - away * side, 0, 1), colour)
  large = scenes[:, [0, 3]] == 1
  radius = np.where(large, uniform(0.18, 0.205, (count, 2)), uniform(0.115, 0.135, (count, 2)))
  centres = places(scenes, radius, rng).astype(np.float32)
  colours = np.array(list(COLOURS.values()), np.float32)[scenes[:, [1, 4]]] + uniform(-18, 18, (count, 2, 3))
  for which in range(2):
    for kind in range(len(KINDS)):
      these = np.flatnonzero(scenes[:, 2 + 3 * which] == kind)
      cx, cy = centres[these, which].T[:, :, None, None]
      away = distance(kind, x - cx, y - cy, radius[these, which, None, None])
      part = images[these]
      paint(part, np.clip(0.5 - away * side, 0, 1), colours[these, which, None, None])
      images[these] = part
  images += 6 * rng.standard_normal(images.shape, np.float32)
  return np.clip(np.rint(images), 0, 255).astype(np.uint8)


def write_split(folder, split, count, side, rng):
  scenes = draw_scenes(count, split == "val", rng)
  with open(f"{folder}/{split}.jsonl", "w", encoding="utf-8") as lines:
    for begin in range(0, count, CHUNK):
      chunk = scenes[begin:begin + CHUNK]
      sub = f"images/{split}/{begin // CHUNK:03}"
      os.makedirs(f"{folder}/{sub}")
      for i, (pixels, scene) in enumerate(zip(draw(chunk, side, rng), chunk.tolist())):
        path = f"{sub}/{begin + i:06}.jpg"
        Image.fromarray(pixels).save(f"{folder}/{path}", quality=92)
        scene = tuple(scene)
        line = {"image": path, "caption": sentence(scene)}
        if split != "train":
          line["candidates"], line["label"] = candidates(scene, rng)
        lines.write(json.dumps(line) + "\n")


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("dir", nargs="?", default="data/shapes")
  parser.add_argument("--train", type=int, default=40_000, help="pictures of train")
  parser.add_argument("--val", type=int, default=2_000, help="pictures of val, and of seen")
  parser.add_argument("--size", type=int, default=64, help="pixels of a side")
  parser.add_argument("--seed", type=int, default=0)
  arguments = parser.parse_args()
  out = arguments.dir.rstrip("/")
  partial = out + ".partial"
  shutil.rmtree(partial, ignore_errors=True)
  os.makedirs(partial)
  for i, (split, count) in enumerate({"train": arguments.train, "seen": arguments.val, "val": arguments.val}.items()):
    write_split(partial, split, count, arguments.size, np.random.default_rng([arguments.seed, i]))
  shutil.rmtree(out, ignore_errors=True)
  os.replace(partial, out)
  print(f"{out}: {arguments.train} training, {arguments.val} new and {arguments.val} held-out pictures")


if __name__ == "__main__":
  main()
