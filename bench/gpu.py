#!/usr/bin/env python3
"""Training steps on the first NVIDIA GPU, side by side: gpu.py BENCH_STEP [TASK BATCH DTYPE]…

BENCH_STEP is this project's program (target bench_step); the peers are timm's model in PyTorch, eager and compiled, and, for a
ViT in f32, JAX, all of the Python that runs this. Each side runs ROUNDS times, in turns; the rate is that of the median step of
all rounds. A side that fails is left out with its last line.
"""
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROUNDS, STEPS = 2, 20


def sides(bench_step, task, batch, dtype):
    torch = [sys.executable, HERE / "peers/torch_step.py", task, batch, STEPS]
    words = ["cuda"] + (["bf16"] if dtype == "bf16" else [])
    layout = [] if task.startswith("vit") else ["channels_last"]
    yield "tessera", [bench_step, task, batch, STEPS, "platform=cuda", f"dtype={dtype}"]
    yield "PyTorch eager", [*torch, "eager", *words, *layout]
    yield "PyTorch compiled", [*torch, "compile", *words, *layout]
    if task.startswith("vit") and dtype == "f32":
        yield "JAX", [sys.executable, HERE / "peers/jax_step.py", task, batch, STEPS, "plain"]


def measure(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return None, (done.stderr.strip().splitlines() or ["no output"])[-1][:300]
    return json.loads(lines[-1]), None


def compare(bench_step, task, batch, dtype):
    seconds, compiling, failed = {}, {}, {}
    for _ in range(ROUNDS):
        for name, command in sides(bench_step, task, batch, dtype):
            result, error = measure(command)
            if error:
                failed[name] = error
            else:
                seconds.setdefault(name, []).extend(result["seconds"])
                compiling[name] = result["compile_seconds"]
    ours = statistics.median(seconds["tessera"]) if "tessera" in seconds else None
    for name, times in seconds.items():
        median = statistics.median(times)
        ratio = f"{median / ours:8.2f}" if ours else ""
        print(f"{task:16} {batch:>5} {dtype:5} {name:18} {int(batch) / median:10.1f} images/s {1000 * median:8.2f} ms {ratio}"
              f"   first step {compiling[name]:.1f} s", flush=True)
    for name, error in failed.items():
        print(f"{task:16} {batch:>5} {dtype:5} {name:18} failed: {error}", flush=True)


def main():
    bench_step, words = sys.argv[1], sys.argv[2:]
    for i in range(0, len(words), 3):
        compare(bench_step, *words[i:i + 3])


if __name__ == "__main__":
    main()
