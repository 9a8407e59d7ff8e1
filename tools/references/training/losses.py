"""Losses of classifiers by timm's own code: tests/references/losses.safetensors, in float64.

Run: tools/references/run.sh losses

Logits [B, C] are "losses/logits" of formula.py with scale 3, a teacher's "losses/teacher" likewise; labels and partners below;
the own share of row i is (i + 1) / (B + 1). Keys, each [1], and grad/<key> [B, C] of the logits:
  smoothed soft        LabelSmoothingCrossEntropy(0.1); SoftTargetCrossEntropy of mixed, smoothed targets (mixup_target's)
  bce bce_threshold bce_sum bce_pos bce_mixed bce_mixed_threshold
                       BinaryCrossEntropy(smoothing=0.1): as it is; target_threshold=0.2; sum_classes; pos_weight=2; of the mixed
                       targets, without and with target_threshold=0.2
  multi_hot multi_hot_mixed multi_hot_smoothed
                       BinaryCrossEntropy of dense targets: the rows of MULTI_HOT; mixed with those in reverse order; mixed, each
                       smoothed as mixup_target smooths
  bce_weight bce_pos_weights   BinaryCrossEntropy(smoothing=0.1, weight=W), (pos_weight=W)
  weight weight_smoothed weight_soft
                       torch's CrossEntropyLoss(weight=W): of the labels; with label_smoothing=0.1; of the mixed targets
  jsd                  JsdCrossEntropy(num_splits=3, alpha=12, smoothing=0.1); the labels are those of the first B / 3 rows
  soft_teacher hard_teacher   the distillation losses of task/token_distillation.py: temperature 3; hard
config: labels, partners.
"""
import numpy as np
import torch
import torch.nn.functional as F
from timm.data.mixup import one_hot
from timm.loss import BinaryCrossEntropy, JsdCrossEntropy, LabelSmoothingCrossEntropy, SoftTargetCrossEntropy

import formula
from tensors import save

BATCH, CLASSES, SMOOTHING = 6, 5, 0.1
LABELS, PARTNERS = [3, 0, 4, 4, 1, 2], [2, 1, 4, 4, 0, 3]
MULTI_HOT = [[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 1, 0, 0], [0, 1, 0, 0, 1], [1, 0, 0, 0, 0]]
W = [0.5, 2.0, 1.0, 3.0, 0.25]


def mixed_targets(labels, partners):
    """timm's mixup_target with a share of its own for each row."""
    off = SMOOTHING / CLASSES
    on = 1.0 - SMOOTHING + off
    share = ((torch.arange(BATCH, dtype=torch.float64) + 1) / (BATCH + 1))[:, None]
    y1, y2 = (one_hot(y, CLASSES, on_value=on, off_value=off).double() for y in (labels, partners))
    return y1 * share + y2 * (1 - share)


def main():
    torch.set_default_dtype(torch.float64)
    start = torch.from_numpy(formula.array("losses/logits", (BATCH, CLASSES), 3.0)).double()
    teacher = torch.from_numpy(formula.array("losses/teacher", (BATCH, CLASSES), 3.0)).double()
    labels, partners = torch.tensor(LABELS), torch.tensor(PARTNERS)
    mixed = mixed_targets(labels, partners)
    bce = lambda target, **kw: lambda x: BinaryCrossEntropy(smoothing=SMOOTHING, **kw)(x, target)

    hot, weight = torch.tensor(MULTI_HOT, dtype=torch.float64), torch.tensor(W, dtype=torch.float64)
    share = ((torch.arange(BATCH, dtype=torch.float64) + 1) / (BATCH + 1))[:, None]
    smoothed = hot * (1 - SMOOTHING) + SMOOTHING / CLASSES
    mix = lambda y: y * share + y.flip(0) * (1 - share)

    def soft_teacher(x, t=3.0):
        return F.kl_div(F.log_softmax(x / t, -1), F.log_softmax(teacher / t, -1), reduction="batchmean", log_target=True) * t**2

    losses = dict(
        smoothed=lambda x: LabelSmoothingCrossEntropy(SMOOTHING)(x, labels),
        soft=lambda x: SoftTargetCrossEntropy()(x, mixed),
        bce=bce(labels),
        bce_threshold=bce(labels, target_threshold=0.2),
        bce_sum=bce(labels, sum_classes=True),
        bce_pos=bce(labels, pos_weight=2.0),
        bce_mixed=bce(mixed),
        bce_mixed_threshold=bce(mixed, target_threshold=0.2),
        multi_hot=bce(hot),
        multi_hot_mixed=bce(mix(hot)),
        multi_hot_smoothed=bce(mix(smoothed)),
        bce_weight=bce(labels, weight=weight),
        bce_pos_weights=bce(labels, pos_weight=weight),
        weight=lambda x: F.cross_entropy(x, labels, weight=weight),
        weight_smoothed=lambda x: F.cross_entropy(x, labels, weight=weight, label_smoothing=SMOOTHING),
        weight_soft=lambda x: F.cross_entropy(x, mixed, weight=weight),
        jsd=lambda x: JsdCrossEntropy(num_splits=3, alpha=12, smoothing=SMOOTHING)(x, labels[: BATCH // 3].repeat(3)),
        soft_teacher=soft_teacher,
        hard_teacher=lambda x: F.cross_entropy(x, teacher.argmax(-1)),
    )
    tensors = {}
    for name, loss_of in losses.items():
        x = start.clone().requires_grad_()
        loss = loss_of(x)
        loss.backward()
        tensors |= {name: np.array(loss.item()), f"grad/{name}": x.grad.numpy()}
    save("losses.safetensors", tensors, dict(labels=LABELS, partners=PARTNERS))


if __name__ == "__main__":
    main()
