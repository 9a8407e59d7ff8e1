"""timm's FastCollateMixup and RandomErasing: tests/references/mixup.safetensors.

Run: tools/references/run.sh mixup, or `python mixup.py` in its environment.

Batches of formula.image("mixup/<row>", 9, 12), label of row i: 3 i mod 5. Keys of a case, for its B rows:
  <case>/rows     [B, 6]: share of the own pixels, share of the own label, box (top, left, bottom, right), as timm drew them
  <case>/images   uint8 [B, 9, 12, 3]
  <case>/targets  [B, 5], with smoothing 0.1
  erase/boxes [B, 2, 4], erase/images [B, 9, 12, 3]: RandomErasing(mode="const", max_count=2) of ones
config: timm (version), cases.
"""
import random

import numpy as np
import timm
import torch
from timm.data import mixup as timm_mixup
from timm.data import random_erasing

import formula
from tensors import save

ROWS, HEIGHT, WIDTH, CLASSES = 6, 9, 12, 5
CASES = {
    "mixup_batch": dict(mixup_alpha=0.8, mode="batch"),
    "cutmix_batch": dict(mixup_alpha=0.0, cutmix_alpha=1.0, mode="batch"),
    "minmax_batch": dict(mixup_alpha=0.0, cutmix_minmax=(0.2, 0.8), mode="batch"),
    "both_pair": dict(mixup_alpha=0.8, cutmix_alpha=1.0, prob=0.9, mode="pair"),
    "both_elem": dict(mixup_alpha=0.8, cutmix_alpha=1.0, prob=0.8, mode="elem"),
}
SEEDS = {"mixup_batch": 2, "cutmix_batch": 2, "minmax_batch": 3, "both_pair": 7, "both_elem": 15}  # of varied draws


class Recorder:
    """Writes down what timm draws, in the order in which it goes through the rows."""

    def __init__(self, collate):
        self.boxes, self.lams, self.cut = [], None, None
        self.collate = collate
        for name in ("_params_per_elem", "_params_per_batch"):
            setattr(collate, name, self.record(getattr(collate, name)))
        original = timm_mixup.cutmix_bbox_and_lam
        self.restore = lambda: setattr(timm_mixup, "cutmix_bbox_and_lam", original)

        def box_and_lam(*args, **kwargs):
            box, lam = original(*args, **kwargs)
            self.boxes.append((box[0], box[2], box[1], box[3]))
            return box, lam

        timm_mixup.cutmix_bbox_and_lam = box_and_lam

    def record(self, params):
        def draw(*args):
            lam, cut = params(*args)
            self.lams, self.cut = np.copy(lam), cut
            return lam, cut

        return draw

    def rows(self, mode, corrected):
        lams, cut, boxes = np.atleast_1d(self.lams), np.atleast_1d(self.cut), list(self.boxes)
        out = np.zeros((ROWS, 6), np.float32)
        for i in range(ROWS):
            at = 0 if mode == "batch" else min(i, ROWS - 1 - i) if mode == "pair" else i
            own = 1.0 if cut[at] else lams[at]
            box = (0, 0, 0, 0)
            if cut[at] and lams[at] != 1:
                first = mode == "elem" or (i == 0 if mode == "batch" else i == at)
                box = boxes.pop(0) if first else out[at if mode == "pair" else 0, 2:]
            out[i] = (own, corrected[i], *box)
        return out


def mix(case, options):
    np.random.seed(SEEDS[case])
    collate = timm_mixup.FastCollateMixup(num_classes=CLASSES, label_smoothing=0.1, **options)
    recorder = Recorder(collate)
    images = [formula.image(f"mixup/{i}", HEIGHT, WIDTH).transpose(2, 0, 1).copy() for i in range(ROWS)]
    labels = [3 * i % CLASSES for i in range(ROWS)]
    out, targets = collate(list(zip(images, labels)))
    recorder.restore()
    off, on = 0.1 / CLASSES, 0.9 + 0.1 / CLASSES
    one_hot = np.where(np.arange(CLASSES) == np.array(labels)[:, None], on, off)
    # lambda as the targets say it: t = lambda y1 + (1 - lambda) y2 where the labels differ.
    corrected = np.ones(ROWS)
    for i in range(ROWS):
        a, b = one_hot[i], one_hot[ROWS - 1 - i]
        if labels[i] != labels[ROWS - 1 - i]:
            k = labels[i]
            corrected[i] = (targets[i, k].item() - b[k]) / (a[k] - b[k])
    return recorder.rows(options["mode"], corrected), out.numpy().transpose(0, 2, 3, 1), targets.numpy()


def erase():
    random.seed(5)
    boxes = np.zeros((ROWS, 2, 4), np.float32)

    eraser = random_erasing.RandomErasing(probability=0.7, mode="const", max_count=2, device="cpu")
    original = random_erasing._get_pixels
    images = torch.ones(ROWS, 3, HEIGHT, WIDTH)
    results = []
    for i in range(ROWS):
        found = []

        def pixels(per_pixel, rand_color, size, **kwargs):
            found.append(size)
            return torch.full(size, -float(len(found)))

        random_erasing._get_pixels = pixels
        image = images[i].clone()
        eraser(image)
        for k, (_, h, w) in enumerate(found):
            # Where box k lies: its value is seen at its corners unless a later box covers them.
            ys, xs = np.nonzero(image[0].numpy() == -(k + 1))
            boxes[i, k] = (ys.min(), xs.min(), ys.max() + 1, xs.max() + 1) if len(ys) else (0, 0, 0, 0)
        results.append(torch.where(image < 0, torch.zeros(()), image).numpy().transpose(1, 2, 0))
    random_erasing._get_pixels = original
    return boxes, np.stack(results)


def main():
    tensors = {}
    for case, options in CASES.items():
        for key, value in zip(("rows", "images", "targets"), mix(case, options)):
            tensors[f"{case}/{key}"] = value
    tensors["erase/boxes"], tensors["erase/images"] = erase()
    save("mixup.safetensors", tensors, {"timm": timm.__version__, "cases": list(CASES)})


main()
