#!/usr/bin/env python3
"""From JPEG files to trained steps and to answers on the first NVIDIA GPU: gpu_files.py TESSERA PHOTOS WORK [SIDE]…

TESSERA is this project's program, PHOTOS a folder of JPEG files; the data set of 1,000 classes made of them in WORK has each many
times. The model is ViT-S/16 in bf16. SIDE: tessera, eager, compile (timm's loader and model in PyTorch, of the Python that runs
this); all, if none is named. SIDE/PART, as compile/predict, runs that part alone. Training is timed over steps 51 to STEPS, input
included; `predict` as a whole command with its program in the cache, peers' from the first file read to the last answer.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import time

from photos import link_photos

HERE = pathlib.Path(__file__).parent
MODEL, BATCH, STEPS, FILES, CLASSES = "vit_small_patch16_224", 256, 300, 25600, 1000
CROP = "decode | random_resized_crop(224, interpolation=random) | flip_lr"
CHAINS = {"plain": f"{CROP} | normalise()", "randaugment": f"{CROP} | randaug(rand-m9-mstd0.5-inc1) | normalise()"}


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1][:300])
    return done


def tessera_train(tessera, folder, work, chain):
    workdir = work / f"run-{chain}"
    run([tessera, "train", HERE.parent / "recipes/imagenet.toml", "--workdir", workdir, "--platform", "cuda",
         f"model.variant={MODEL}", f'data.source="folder({folder})"', f"data.batch={BATCH}", f'data.pp="{CHAINS[chain]}"',
         f'eval.val.data.source="folder({folder})"', "eval.val.batch=256", f'total="{STEPS} steps"', 'log="50 steps"',
         'optimizer.lr="cosine(1e-3, warmup=50 steps)"', *([] if chain == "randaugment" else ["data.mixup={}"])])
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return statistics.harmonic_mean([line["img/sec"] for line in lines if "img/sec" in line and line["step"] > 50])


def tessera_predict(tessera, folder, work):
    model = work / "timm"
    if not model.exists():
        run([sys.executable, HERE / "peers/predict.py", "save", MODEL, model])
    for _ in range(2):  # the first one fills the executable cache
        start = time.perf_counter()
        done = run([tessera, "predict", "--from", model, "--json", "--top", "1", "--dtype", "bf16", "--platform", "cuda", folder])
        seconds = time.perf_counter() - start
    answers = done.stdout.count("\n")
    if answers != FILES:
        raise RuntimeError(f"{answers} answers")
    return answers / seconds


def peer(command):
    return json.loads(run([sys.executable, *command]).stdout.strip().splitlines()[-1])["images_per_second"]


def main():
    tessera, photos, work = (pathlib.Path(word).absolute() for word in sys.argv[1:4])
    folder = link_photos(photos, work / "train", (f"{i % CLASSES:04}/{i:05}.jpg" for i in range(FILES)))
    for word in sys.argv[4:] or ("tessera", "eager", "compile"):
        side, _, wanted = word.partition("/")
        parts = {f"train, {chain}": (lambda chain=chain: tessera_train(tessera, folder, work, chain)) if side == "tessera" else
                 (lambda chain=chain: peer([HERE / "peers/timm_train.py", MODEL, folder, BATCH, STEPS, side, chain]))
                 for chain in CHAINS}
        parts["predict"] = (lambda: tessera_predict(tessera, folder, work)) if side == "tessera" else (
            lambda: peer([HERE / "peers/predict.py", "timm" if side == "eager" else side, MODEL, folder, "bf16", "cuda"]))
        for part, measure in parts.items():
            if wanted not in part:
                continue
            start = time.perf_counter()
            try:
                text = f"{measure():10.1f} images/s"
            except (RuntimeError, OSError, KeyError, statistics.StatisticsError) as error:
                text = f"failed: {error}"
            print(f"{side:8} {part:20} {text}   whole command {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
