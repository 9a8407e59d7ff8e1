"""scikit-learn's and big_vision's figures on given features: tests/references/metrics.safetensors.

Run: BIG_VISION=<checkout of google-research/big_vision at 0127fb6> tools/references/run.sh metrics

Features of set s with n rows: formula.array(f"metrics/{s}", [n, WIDTH]) + CENTRES[label], labels (7 i + 3) mod CLASSES.
Of big_vision's evaluators the functions themselves are run, taken out of their files, which import all of TensorFlow.
Keys, for test splits of N = 1, 7, 1000, 1003 rows, train of 150:
  few_shot/<shots>/<N>   predicted classes, with the first `shots` rows of each class; few_shot/all/<N>: with all of them
  knn/<weights>/<N>      KNeighborsClassifier(20, metric="cosine"), weights uniform or exp(similarity / 0.07)
  probe/<N>, probe/weights, probe/bias   LogisticRegression(C=0.5) on features of mean 0 and deviation 1
  confusion/…            recall, precision, balanced accuracy of knn/softmax/1003
  retrieval/<texts>      recalls at 1, 5, 10: image to text, then text to image; text t belongs to image (5 t) mod 40
  zero_shot              classes of 40 images by the mean of 3 prompts a class
"""
import ast
import functools
import os
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, precision_score, recall_score
from sklearn.neighbors import KNeighborsClassifier

import formula
from tensors import save

jax.config.update("jax_enable_x64", True)
WIDTH, CLASSES, TRAIN = 24, 5, 150
SPLITS = (1, 7, 1000, 1003)
CENTRES = formula.array("metrics/centres", (CLASSES, WIDTH)) * np.float32(0.25)


def taken(path, names, **scope):
    """The functions `names` of a file of big_vision, run in a scope of their own."""
    tree = ast.parse((Path(os.environ["BIG_VISION"]) / "big_vision" / path).read_text())
    wanted = [n for n in tree.body
              if getattr(n, "name", None) in names
              or isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id in names for t in n.targets)]
    assert len(wanted) == len(names), names
    exec(compile(ast.Module(wanted, []), path, "exec"), scope)
    return scope


def labels_of(rows):
    return (np.arange(rows) * 7 + 3) % CLASSES


def features(name, rows):
    return formula.array(f"metrics/{name}", (rows, WIDTH)) + CENTRES[labels_of(rows)]


def few_shot(out):
    def jit_cpu(**kw):
        return functools.partial(jax.jit, **kw)

    scope = taken("evaluators/fewshot_lsr.py", ["BIAS_CONSTANT", "_precompute_cache", "_eig_fewshot_acc_fn"],
                  u=types.SimpleNamespace(jit_cpu=jit_cpu), jax=jax, jnp=jnp)
    x, y = features("train", TRAIN).astype(np.float64), labels_of(TRAIN)
    chosen = {shots: np.concatenate([np.where(y == c)[0][:shots] for c in range(CLASSES)]) for shots in (1, 5, 10)}
    chosen["all"] = np.arange(TRAIN)
    for shots, rows in chosen.items():
        cache = scope["_precompute_cache"](x[rows], y[rows], CLASSES)
        for n in SPLITS:
            test = features(f"test{n}", n).astype(np.float64)
            # Accuracy against a constant class, for every class, is which rows got it: so the original's own argmax is kept.
            shares = [[float(scope["_eig_fewshot_acc_fn"](cache, test[i : i + 1], np.full(1, c), 2.0**10)) for c in range(CLASSES)]
                      for i in range(min(n, 40))]
            out[f"few_shot/{shots}/{n}"] = np.argmax(shares, axis=1)
            out[f"few_shot/{shots}/{n}/accuracy"] = scope["_eig_fewshot_acc_fn"](cache, test, labels_of(n), 2.0**10)


def neighbours(out):
    for name, weights in {"uniform": "uniform", "softmax": lambda d: np.exp((1 - d) / 0.07)}.items():
        model = KNeighborsClassifier(20, metric="cosine", weights=weights).fit(features("train", TRAIN), labels_of(TRAIN))
        for n in SPLITS:
            out[f"knn/{name}/{n}"] = model.predict(features(f"test{n}", n))
    predicted, labels = out["knn/softmax/1003"], labels_of(1003)
    out["confusion/recall"] = recall_score(labels, predicted, average=None)
    out["confusion/precision"] = precision_score(labels, predicted, average=None)
    out["confusion/balanced"] = balanced_accuracy_score(labels, predicted)


def probe(out):
    x = features("train", TRAIN).astype(np.float64)
    mean, deviation = x.mean(0), x.std(0)
    model = LogisticRegression(C=0.5, tol=1e-10, max_iter=10000).fit((x - mean) / deviation, labels_of(TRAIN))
    for n in SPLITS:
        out[f"probe/{n}"] = model.predict((features(f"test{n}", n) - mean) / deviation)
    out["probe/weights"] = model.coef_ / deviation
    out["probe/bias"] = model.intercept_ - (model.coef_ / deviation) @ mean


def image_text(out):
    scope = taken("evaluators/proj/image_text/image_text_retrieval.py",
                  ["RECALL_THRESHOLDS", "text_to_image_retrieval_eval", "image_to_text_retrieval_eval"],
                  np=np, List=list, Mapping=dict)
    images = features("images", 40)
    for texts in (1, 7, 200):
        owner = [(5 * t) % 40 for t in range(texts)]
        z = images[owner] + formula.array(f"metrics/texts{texts}", (texts, WIDTH))
        distances = -(images @ z.T)
        image_to_text = scope["image_to_text_retrieval_eval"](distances, owner)
        text_to_image = scope["text_to_image_retrieval_eval"](distances, owner)
        out[f"retrieval/{texts}"] = [*image_to_text.values(), *text_to_image.values()]
    scope = taken("evaluators/proj/image_text/discriminative_classifier.py", ["_average_embeddings"], np=np)
    of_class = np.repeat(np.arange(CLASSES), 3)
    texts = CENTRES[of_class] + formula.array("metrics/prompts", (len(of_class), WIDTH), 0.2)
    classes = scope["_average_embeddings"](texts, labels=of_class, num_classes=CLASSES, normalize=True)
    out["zero_shot"] = (images @ classes.T).argmax(1)
    out["zero_shot/embeddings"] = classes


def main():
    out = {}
    for part in (few_shot, neighbours, probe, image_text):
        part(out)
    save("metrics.safetensors", {k: np.asarray(v, dtype=np.float64) for k, v in out.items()},
         {"sklearn": sklearn.__version__, "jax": jax.__version__, "big_vision": "0127fb6"})


if __name__ == "__main__":
    main()
