"""scikit-learn's scores of logits and labels: tests/references/multi_label_scores.json.

Run: tools/references/run.sh multi_label_scores

multi_label: a list of {logits, labels (0 and 1), threshold, mAP, roc_auc, f1_micro, f1_macro}, of sigmoids. Scores over the
classes that have positive and negative examples (mAP and roc_auc), else over all; null where that is none.
one_label: a list of {logits, labels, roc_auc}: one against the rest, of softmax.
Logits of the first are multiples of 1/4, so that many are equal.
"""
import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

warnings.filterwarnings("ignore")  # classes without examples or predictions are what is asked for


def draw_logits(draw, hot):
    return np.round((draw.normal(size=hot.shape) * 2 + 1.5 * hot - 1) * 4) / 4


def several(draw, n, classes, share, threshold=0.5):
    hot = (draw.random((n, classes)) < share).astype(int)
    hot[0] = 0  # an image without a label
    logits = draw_logits(draw, hot)
    with_positives = hot.sum(0) > 0
    both = with_positives & (hot.sum(0) < n)
    given = (1 / (1 + np.exp(-logits)) > threshold).astype(int)
    score = lambda of, which: float(of(hot[:, which], logits[:, which], average="macro")) if which.any() else None
    return {"logits": logits.tolist(), "labels": hot.tolist(), "threshold": threshold,
            "mAP": score(average_precision_score, with_positives), "roc_auc": score(roc_auc_score, both),
            "f1_micro": float(f1_score(hot, given, average="micro", zero_division=0)),
            "f1_macro": float(f1_score(hot, given, average="macro", zero_division=0))}


def one(draw, n, classes):
    labels = np.concatenate([np.arange(classes), draw.integers(0, classes, n - classes)])
    logits = draw.normal(size=(n, classes)) * 2 + 1.5 * np.eye(classes)[labels]
    logits = logits.astype(np.float32).astype(float)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    p /= p.sum(1, keepdims=True)
    auc = roc_auc_score(labels, p[:, 1]) if classes == 2 else roc_auc_score(labels, p, multi_class="ovr", average="macro")
    return {"logits": logits.tolist(), "labels": labels.tolist(), "roc_auc": float(auc)}


def main():
    draw = np.random.default_rng(0)
    cases = {"multi_label": [several(draw, 40, 6, 0.3), several(draw, 12, 9, 0.08), several(draw, 30, 3, 0.6, 0.2),
                             several(draw, 25, 2, 0.4, 0.9), several(draw, 4, 3, 0.0)],
             "one_label": [one(draw, 30, 2), one(draw, 40, 5), one(draw, 13, 12)]}
    path = Path(__file__).parents[3] / "tests/references/multi_label_scores.json"
    path.write_text("{\n" + ",\n".join(f'"{kind}": [\n' + ",\n".join(map(json.dumps, of)) + "\n]" for kind, of in cases.items()) + "\n}\n")


if __name__ == "__main__":
    main()
