"""scikit-learn's scores of labels and predictions: tests/references/class_scores.json.

Run: tools/references/run.sh class_scores

A list of {classes, labels, predicted, f1, f1_weighted, kappa, balanced_accuracy}: random ones, some of which lack classes
among the labels, among the predictions or among both; all right; all wrong; one class throughout (kappa is NaN: null).
"""
import json
import math
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import balanced_accuracy_score, cohen_kappa_score, f1_score

warnings.filterwarnings("ignore")  # classes without examples, one class alone: they are what is asked for


def case(classes, labels, predicted):
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    scores = {"f1": f1_score(labels, predicted, average="macro", zero_division=0),
              "f1_weighted": f1_score(labels, predicted, average="weighted", zero_division=0),
              "kappa": cohen_kappa_score(labels, predicted),
              "balanced_accuracy": balanced_accuracy_score(labels, predicted)}
    return {"classes": classes, "labels": labels.tolist(), "predicted": predicted.tolist(),
            **{name: None if math.isnan(value) else float(value) for name, value in scores.items()}}


def main():
    draw = np.random.default_rng(0)
    cases = []
    for classes, n in [(2, 9), (3, 40), (10, 60), (50, 60), (5, 1)]:
        labels = draw.integers(0, classes, n)
        right = draw.random(n) < 0.6
        cases.append(case(classes, labels, np.where(right, labels, draw.integers(0, classes, n))))
    cases.append(case(6, [0, 0, 1, 1, 5], [0, 1, 1, 1, 2]))  # 3 and 4 are nowhere, 2 no label, 5 no prediction
    cases.append(case(3, [0, 1, 2, 0], [0, 1, 2, 0]))
    cases.append(case(2, [0, 1, 0, 1], [1, 0, 1, 0]))
    cases.append(case(2, [1, 1, 1], [1, 1, 1]))
    cases.append(case(2, [1, 1, 1], [0, 0, 0]))
    path = Path(__file__).parents[3] / "tests/references/class_scores.json"
    path.write_text("[\n" + ",\n".join(json.dumps(one) for one in cases) + "\n]\n")


if __name__ == "__main__":
    main()
