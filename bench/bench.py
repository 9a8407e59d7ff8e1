"""Tessera beside its peers. Run by bench/run.sh (./dev bench), which installs the peers and takes the same options."""
import argparse
import glob
import itertools
import json
import os
import pathlib
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import sinks
from photos import link_photos

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build/bench"
PHOTOS = WORK / "photos/photos"
PARTS = ("step", "bf16", "digits", "sinks", "resnet", "families", "product", "predict", "scale", "data", "start", "memory")
CORES = sorted(os.sched_getaffinity(0))[:2]  # every side has the same two


def python(environment):
    return str(ROOT / ".deps" / environment / "bin/python")


def program(name):
    found = [p for p in (WORK / "bin" / name, WORK / "bench" / name) if p.exists()]
    return str(found[0] if found else WORK / "bin" / name)


def plugin():
    found = glob.glob(str(ROOT / ".deps/venv/lib/python3*/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"))
    return found[0] if found else ""


def clean_environment(**changes):
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("TESSERA_", "JAX_", "XLA_", "PJRT_", "OMP_", "MKL_"))}
    return keep | {"OMP_NUM_THREADS": "2", "TORCHINDUCTOR_CACHE_DIR": str(WORK / "inductor"), "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"} | changes


def jax_plugin(devices=1):
    """JAX on the plugin that Tessera has, with that many virtual devices (without being asked, the plugin makes several)."""
    path = WORK / f"xcpu_{devices}.json"
    WORK.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"library_path": plugin(), "create_options": {"cpu_device_count": devices}}))
    return {"PJRT_NAMES_AND_LIBRARY_PATHS": f"xcpu:{path}", "JAX_PLATFORMS": "xcpu"}


JAX_OWN = {"JAX_PLATFORMS": "cpu"}


# With mean pooling, which JAX's peer has too; and as timm registers it, with a class token.
VIT_SMALL = {"vit_small": "mean pooling", "vit_small_patch16_224": "timm's, class token"}


def step_sides(task, dtype="f32"):
    """name -> (command, environment changes); the batch and the number of steps are filled in."""
    def peer(environment, script, *words):
        return [python(environment), str(ROOT / f"bench/peers/{script}.py"), task, "BATCH", "STEPS", *words]
    half = ["bf16"] if dtype == "bf16" else []
    sides = {
        "tessera": ([program("bench_step"), task, "BATCH", "STEPS", f"dtype={dtype}"], {}),
        "torch eager": (peer("references", "torch_step", "eager", *half), {}),
        "torch compile": (peer("references", "torch_step", "compile", *half), {}),
    }
    if task in ("vit_small", "digits") and not half:
        sides |= {
            "jax, plain": (peer("bench-jax", "jax_step", "plain"), jax_plugin()),
            "jax, tuned": (peer("bench-jax", "jax_step", "tuned"), jax_plugin()),
            "jax, tuned, own backend": (peer("bench-jax", "jax_step", "tuned"), JAX_OWN),
        }
    if task in VIT_SMALL and not half:
        sides["torch_xla"] = (peer("bench-torch-xla", "torch_step", "xla"), {"PJRT_DEVICE": "CPU"})
    if task not in (*VIT_SMALL, "digits"):
        sides["torch eager, channels_last"] = (peer("references", "torch_step", "eager", "channels_last", *half), {})
    return sides


def run_json(command, changes=None, cores=None):
    """The last line of what the command prints, read as JSON; None and a note where that fails."""
    if not os.path.exists(command[0]):
        return None, "not installed"
    done = subprocess.run(command, cwd=ROOT, env=clean_environment(**(changes or {})), text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, check=False, preexec_fn=lambda: os.sched_setaffinity(0, cores or CORES))
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        return json.loads(lines[-1]), ""
    words = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return None, f"exit {done.returncode}: {words[-1][:120] if words else 'no output'}"


class Report:
    def __init__(self):
        self.results = {"machine": machine(), "load": [os.getloadavg()[0]], "parts": {}}
        print(self.results["machine"])
        if self.results["load"][0] > 0.3:
            print(f"disturbed: load {self.results['load'][0]:.1f} before the start; ratios are paired, figures are not to be quoted")

    def title(self, part, text, ratio="tessera is"):
        print(f"\n{part}  {text}\n  {'side':<32}{'figure':>16}{ratio:>14}{'':4}target")

    def row(self, side, figure, ratio=None, target=None):
        factor = f"{ratio:.2f} x" if ratio else ""
        verdict = ""
        if target:
            verdict = f">= {target} x   {'reached' if ratio and ratio >= target else 'missed'}"
        print(f"  {side:<32}{figure:>16}{factor:>14}{'':4}{verdict}", flush=True)

    def keep(self, part, value):
        self.results["parts"][part] = value
        self.results["load"].append(os.getloadavg()[0])
        path = WORK / "results.json"
        path.write_text(json.dumps(self.results, indent=1) + "\n")


def machine():
    model = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores ({len(CORES)} used), {memory:.0f} GiB, Linux {platform.release()}"


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def rounds_of(sides, rounds, label):
    """Runs side after side, round after round, each round beginning one further: name -> list of results, and notes."""
    results, notes = {name: [] for name in sides}, {}
    names = list(sides)
    for r in range(rounds):
        for name in names[r % len(names):] + names[:r % len(names)]:
            if name in notes:
                continue
            progress(f"{label}: round {r + 1} of {rounds}, {name}")
            result, note = sides[name]()
            if result is None:
                notes[name] = note
            else:
                results[name].append(result)
    progress("")
    return results, notes


def paired(results, name, base="tessera", value=lambda r: min(r["seconds"])):
    """Median over rounds of the ratio within a round: how many times as long as `base` the side takes."""
    pairs = zip(results[name], results[base])
    return statistics.median(value(a) / value(b) for a, b in pairs) if results[name] and results[base] else None


def best(results, name):
    return statistics.median(min(r["seconds"]) for r in results[name])


def step_part(report, options, task, batch, part, figure, target, explain, dtype="f32"):
    def runner(command, changes):
        filled = [{"BATCH": str(batch), "STEPS": str(options.steps)}.get(w, w) for w in command]
        return lambda: run_json(filled, changes)
    chosen = {n: runner(*c) for n, c in step_sides(task, dtype).items() if n == "tessera" or not options.peers or
              any(p in n for p in options.peers.split(","))}
    results, notes = rounds_of(chosen, options.rounds, part)
    report.title(part, explain)
    rows = {}
    peers = [n for n in chosen if not n.startswith("tessera") and results[n]]
    goal = min(peers, key=lambda n: best(results, n)) if peers else None
    for name in chosen:
        if not results[name]:
            report.row(name, notes.get(name, "no result"))
            continue
        ratio = paired(results, name) if name != "tessera" else None
        rows[name] = {"seconds": best(results, name), "ratio": ratio, "rounds": results[name],
                      "cpu_ratio": paired(results, name, value=lambda r: min(r["cpu_seconds"]))}
        report.row(name, figure(best(results, name), batch), ratio, target if name == goal else None)
    report.keep(part, {"task": task, "batch": batch, "rows": rows, "notes": notes})


# Targets are against the best peer. AMX machines have faster products everywhere, so there is less to gain.
HAS_AMX = "amx_tile" in pathlib.Path("/proc/cpuinfo").read_text()


def images_per_second(seconds, batch):
    return f"{batch / seconds:.2f} images/s"


def part_step(report, options):
    for (task, form), batch in itertools.product(VIT_SMALL.items(), options.batch):
        step_part(report, options, task, batch, f"step, {form}, batch {batch}", images_per_second, 1.5 if HAS_AMX else 1.8,
                  f"ViT-S/16, {form}, 224 px, f32, AdamW")


def part_bf16(report, options):
    for (task, form), batch in itertools.product(VIT_SMALL.items(), options.batch):
        step_part(report, options, task, batch, f"bf16, {form}, batch {batch}", images_per_second, 1.4,
                  f"ViT-S/16, {form}, 224 px, bf16 (torch: autocast), AdamW", "bf16")


def part_digits(report, options):
    step_part(report, options, "digits", 128, "digits", lambda s, b: f"{s * 1e3:.1f} ms", 2.0,
              "ViT 96 x 6, 16 px, batch 128, f32, AdamW, gradients clipped to norm 1")


def part_sinks(report, options):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sinks-", dir=WORK))
    environment = clean_environment(TESSERA_CACHE_DIR=str(WORK / "cache"), MLFLOW_TRACKING_URI=sinks.start_tracker())
    command = [program("tessera"), "train", "recipes/digits.toml"]
    rounds = max(options.rounds, 4)
    everything = sorted(os.sched_getaffinity(0))
    cores = CORES if len(everything) > len(CORES) else CORES[:-1] or CORES
    others = [core for core in everything if core not in cores] or cores
    os.sched_setaffinity(0, others)  # the tracker's threads are of this process
    try:
        results, answers = sinks.take_turns(command, environment, cores, others, ROOT, folder, rounds)
    finally:
        os.sched_setaffinity(0, everything)
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\nsinks  the digits' recipe, batch 32, {len(cores)} cores, {rounds} rounds of {sinks.TURNS} turns of {sinks.TURN:g} s: what steps take more than without sinks (median of\n"
          f"       pairs, standard error), and what sinks and page take of the program's processor time; {answers} answers to readers\n"
          f"  {'side':<36}{'step':>12}{'more':>18}{'monitoring':>13}   target")
    for name, turns in results.items():
        more, error = sinks.compare(results, name)
        row = f"  {name:<36}{1e3 * statistics.median(turn['step'] for turn in turns):>9.2f} ms"
        row += f"{'' if name == sinks.BASE else f'{more:+.2f} ± {error:.2f} %':>18}{sinks.share_of_monitoring(turns):>11.2f} %"
        print(row + ("   <= 0.5 %" if sinks.SIDES[name] else ""))
    report.keep("sinks", {"rounds": results, "answers": answers})


def part_resnet(report, options):
    for task in ("resnet18", "resnet50"):
        step_part(report, options, task, 16, task, images_per_second, 1.2, f"{task}, 224 px, batch 16, f32, AdamW")


def part_families(report, options):
    for task in ("convnext_tiny", "resnext50_32x4d", "mixer_s16_224", "resmlp_12_224"):
        step_part(report, options, task, 16, task, images_per_second, 1.2, f"{task}, 224 px, batch 16, f32, AdamW")


# Of ViT-S/16 at batch 16: the two layers of an MLP, and what the gradient of the first one's weights sums up.
PRODUCTS = ((3152, 1536, 384), (3152, 384, 1536), (384, 1536, 3152))


def part_product(report, options):
    """On one core, with all packing. Processor time: nothing else is in it."""
    for dtype, (m, n, k) in itertools.product(("f32", "bf16"), PRODUCTS):
        words = [dtype, str(m), str(n), str(k), "20"]
        sides = {
            "tessera": lambda words=words: run_json([program("bench_product"), *words], cores=CORES[:1]),
            "torch mm": lambda words=words: run_json([python("references"), str(ROOT / "bench/peers/torch_product.py"), *words],
                                                     cores=CORES[:1]),
        }
        title = f"product, {dtype}, {m} x {k} x {n}"
        results, notes = rounds_of(sides, options.rounds, title)
        report.title(title, "one core")
        cpu = lambda r: min(r["cpu_seconds"])
        for name in sides:
            if not results[name]:
                report.row(name, notes.get(name, "no result"))
                continue
            gflops = 2e-9 * m * n * k / statistics.median(map(cpu, results[name]))
            report.row(name, f"{gflops:.0f} GFLOP/s", None if name == "tessera" else paired(results, name, value=cpu))
        report.keep(title, {"rows": results, "notes": notes})


# As timm's directories hold them, with weights from a seed.
PREDICT_MODELS = ("vit_small_patch16_224", "resnet50")


def predict_folder(count):
    """The photographs, again and again, as that many files."""
    return link_photos(PHOTOS, WORK / f"photos-{count}", (f"all/{i:05}.jpg" for i in range(count)))


def part_predict(report, options):
    """Peers are timed from the first file read to the last answer, Tessera as a whole command, its start included."""
    folder = predict_folder(options.images)
    script = [python("references"), str(ROOT / "bench/peers/predict.py")]
    for model, dtype in itertools.product(PREDICT_MODELS, ("f32", "bf16")):
        directory = WORK / f"timm-{model}"
        if not (directory / "config.json").exists():
            run_json([*script, "save", model, str(directory)])
        command = [program("tessera"), "predict", "--from", str(directory), "--json", "--top", "1", "--dtype", dtype,
                   str(folder)]

        def tessera(command=command):
            start = time.perf_counter()
            done = subprocess.run(command, cwd=ROOT, env=clean_environment(TESSERA_CACHE_DIR=str(WORK / "cache")), text=True,
                                  capture_output=True, check=False, preexec_fn=lambda: os.sched_setaffinity(0, CORES))
            if done.returncode or done.stdout.count("\n") != options.images:
                return None, f"exit {done.returncode}: {(done.stderr.strip() or 'too few answers').splitlines()[-1][:120]}"
            return {"seconds": [time.perf_counter() - start]}, ""

        tessera()  # fills the executable cache
        sides = {"tessera, whole command": tessera}
        for peer in ("timm", "compile", "onnxruntime", "openvino"):
            if peer == "onnxruntime" and dtype == "bf16":
                continue  # its CPU kernels are f32's
            if not options.peers or any(p in peer for p in options.peers.split(",")):
                sides[peer] = lambda peer=peer, model=model, dtype=dtype: run_json([*script, peer, model, str(folder), dtype])
        title = f"predict, {model}, {dtype}"
        results, notes = rounds_of(sides, options.rounds, title)
        report.title(title, f"a folder of {options.images} JPEG files, two cores")
        rows = {}
        for name in sides:
            if not results[name]:
                report.row(name, notes.get(name, "no result"))
                continue
            own = name.startswith("tessera")
            ratio = None if own else paired(results, name, "tessera, whole command")
            target = {"timm": 1.5, "compile": 1.5, "openvino": 1.0}.get(name)
            rows[name] = {"seconds": best(results, name), "ratio": ratio, "rounds": results[name]}
            report.row(name, f"{options.images / best(results, name):.1f} images/s", ratio, target)
        report.keep(title, {"rows": rows, "notes": notes})


def part_scale(report, options):
    """Eight virtual devices share the cores that one device has to itself. What is more than one device's time is sharding's cost
    and, at batch 16, that of products of two images each, for which the same weights are packed eight times."""
    def own(batch, depth, *words):
        return [program("bench_step"), "vit_small", str(batch), str(options.steps), f"model.depth={depth}", *words], {}
    def jax(batch, depth, devices):
        words = ["vit_small", str(batch), str(options.steps), "tuned", f"depth={depth}", f"fsdp={devices}"]
        return [python("bench-jax"), str(ROOT / "bench/peers/jax_step.py"), *words], jax_plugin(devices)
    sides = {  # name -> (the side it is compared with, command, environment changes)
        "tessera": (None, *own(16, 6)),
        "8 devices, fsdp=8": ("tessera", *own(16, 6, "devices=8", "mesh=fsdp=8")),
        "8 devices, replica=2, fsdp=4": ("tessera", *own(16, 6, "devices=8", "mesh=replica=2, fsdp=4")),
        "XLA's code alone": (None, *own(16, 6, "kernels=false")),
        "XLA's code alone, fsdp=8": ("XLA's code alone", *own(16, 6, "kernels=false", "devices=8", "mesh=fsdp=8")),
        "jax, tuned": (None, *jax(16, 6, 1)),
        "jax, tuned, fsdp=8": ("jax, tuned", *jax(16, 6, 8)),
        "batch 64, 3 blocks": (None, *own(64, 3)),
        "batch 64, 3 blocks, fsdp=8": ("batch 64, 3 blocks", *own(64, 3, "devices=8", "mesh=fsdp=8")),
        "batch 64, 3 blocks, jax": (None, *jax(64, 3, 1)),
        "batch 64, 3 blocks, jax, fsdp=8": ("batch 64, 3 blocks, jax", *jax(64, 3, 8)),
    }
    results, notes = rounds_of({n: (lambda s=s: run_json(*s[1:])) for n, s in sides.items()}, options.rounds, "scale")
    report.title("scale", "half a ViT-S/16, batch 16, f32: virtual devices against one", "of one device")
    rows = {}
    for name, (base, *_) in sides.items():
        if not results[name]:
            report.row(name, notes.get(name, "no result"))
            continue
        ratio = paired(results, name, base) if base else None
        rows[name] = {"seconds": best(results, name), "ratio": ratio, "rounds": results[name]}
        report.row(name, f"{best(results, name) * 1e3:.0f} ms", ratio)
    report.keep("scale", {"rows": rows, "notes": notes})


# With glibc's own thresholds Pillow may give every picture's memory back and take it anew, or not, by where its heap happens to
# end; that is up to a sixth of its speed. With these it is always the quicker of the two.
KEEP_HEAP = {"MALLOC_TRIM_THRESHOLD_": str(256 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}


# peer -> (environment, what tessera is to be at least times as fast as it at each task, on one core)
DATA_PEERS = {
    "pillow": ("bench-photos", {"crop": 3.7}),
    "pillow-simd": ("bench-pillow-simd", {"crop": 2.6}),
    "timm": ("references", {"augment": 3.0}),
    "tf": ("references-tensorflow", {"crop": 1.4}),
    "tf-antialias": ("references-tensorflow", {"crop": 2.2}),
    "dali": ("bench-data", {}),
    "dali-antialias": ("bench-data", {"crop": 2.6}),
    "grain": ("bench-data", {}),
}
CHAINS = {
    "crop": "decode | random_resized_crop(224) | flip_lr",
    "augment": "decode | random_resized_crop(224, interpolation=random) | flip_lr | color_jitter(0.4) | randaug(rand-m9-mstd0.5-inc1)",
    "eval": "decode | resize_small(256) | central_crop(224)",
}
DATA_TASKS = {
    "crop": "decode, random resized crop to 224, flip",
    "augment": "timm's training transform: the same, rand-m9-mstd0.5-inc1, jitter 0.4; timm erases too, tessera on the device",
    "eval": "decode, the shorter side to 256, the central 224; 2 x the best peer",
}


def data_sides(task, workers, options):
    photos, cores = str(WORK / "photos"), CORES[-workers:]

    def tessera(count):
        command = [program("bench_data"), photos, CHAINS[task], str(count), str(options.images)]
        return lambda: run_json(command, cores=CORES[-count:])

    def peer(name, environment):
        script = [python(environment), str(ROOT / "bench/data/peers.py"), name.replace("-simd", ""), task, photos, str(workers)]
        return lambda: run_json([*script, str(options.images // 2)], KEEP_HEAP, cores)

    sides = {"tessera": tessera(workers)}
    if workers > 1:
        sides["tessera, one core"] = tessera(1)
    for name, (environment, _) in DATA_PEERS.items():
        # Pillow alone is one process; only timm has timm's transform.
        if (task == "augment") != (name == "timm" and task == "augment") or (workers > 1 and name.startswith("pillow")):
            continue
        if not options.peers or any(p in name for p in options.peers.split(",")):
            sides[name] = peer(name, environment)
    return sides


def data_part(report, options, task, workers):
    part = f"data, {task}, {workers} core{'s' if workers > 1 else ''}"
    sides = data_sides(task, workers, options)
    results, notes = rounds_of(sides, options.rounds, part)
    report.title(part, f"JPEG of 500 x 375: {DATA_TASKS[task]}")

    def rate(name):
        return statistics.median(r["images_per_second"] for r in results[name])

    peers = [n for n in sides if not n.startswith("tessera") and results[n]]
    quickest = max(peers, key=rate) if peers else None
    rows = {}
    for name in sides:
        if not results[name]:
            report.row(name, notes.get(name, "no result"))
            continue
        ratio = paired(results, name, value=lambda r: 1 / r["images_per_second"]) if name != "tessera" else None
        target = DATA_PEERS[name][1].get(task) if name in peers and workers == 1 else None
        if name == "tessera, one core":
            target = 1.9
        if task == "eval" and workers == 1 and name == quickest:
            target = 2.0
        rows[name] = {"images_per_second": rate(name), "ratio": ratio, "rounds": results[name]}
        report.row(name, f"{rate(name):.0f} images/s", ratio, target)
    report.keep(part, {"rows": rows, "notes": notes})


def part_data(report, options):
    for task in DATA_TASKS:
        for workers in range(1, len(CORES) + 1):
            data_part(report, options, task, workers)


def until(command, changes, reached):
    """Seconds from starting the command until reached() or reached(a line of its output); ends the command then."""
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, cwd=ROOT, env=clean_environment(**changes), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=lambda: os.sched_setaffinity(0, CORES))
        try:
            while not reached():
                if child.poll() is not None:
                    errors.seek(0)
                    lines = errors.read().strip().splitlines()
                    return None, f"exit {child.returncode}: {lines[-1][:120] if lines else ''}"
                time.sleep(0.001)
            return {"seconds": [time.perf_counter() - start]}, ""
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
            child.wait()


def non_empty(path):
    return lambda: path.exists() and path.stat().st_size > 0


def start_sides(folder):
    """name -> function of a cache directory."""
    count = iter(range(10**6))

    def tessera(cache):
        workdir = folder / f"run{next(count)}"
        return until([program("tessera"), "train", "recipes/digits.toml", "log=1 steps", "--workdir", str(workdir)],
                     {"TESSERA_CACHE_DIR": str(cache)}, non_empty(workdir / "metrics.jsonl"))

    def jax(cache):
        if not os.path.exists(python("bench-jax")):
            return None, "not installed"
        flag = folder / f"flag{next(count)}"
        return until([python("bench-jax"), str(ROOT / "bench/peers/jax_start.py"), str(cache), str(flag)], JAX_OWN, non_empty(flag))

    return {"tessera": tessera, "jax": jax}


def part_start(report, options):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="start-", dir=WORK))
    try:
        sides = start_sides(folder)
        for temperature in ("cold", "warm"):
            fresh = iter(range(10**6))

            def bind(name, side):
                return lambda: side(folder / (f"cold-{name}{next(fresh)}" if temperature == "cold" else f"cold-{name}"))
            if temperature == "warm":
                for name, side in sides.items():
                    side(folder / f"cold-{name}")
            results, notes = rounds_of({n: bind(n, s) for n, s in sides.items()}, options.rounds, f"start, {temperature}")
            report.title(f"start, {temperature}", "from the command to the first step of the digits recipe, its metrics on disk")
            rows = {}
            for name in sides:
                if not results[name]:
                    report.row(name, notes.get(name, "no result"))
                    continue
                ratio = paired(results, name) if name != "tessera" else None
                rows[name] = {"seconds": best(results, name), "ratio": ratio, "rounds": results[name]}
                report.row(name, f"{best(results, name):.2f} s", ratio)
            report.keep(f"start, {temperature}", {"rows": rows, "notes": notes})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


MEMORY_RECIPE = """\
seed = 0
total = "6 steps"
log = "1 steps"
checkpoint = {{ every = "100 %", keep = 1 }}
data = {{ source = "folder({photos})", batch = {batch}, pp = "decode | random_resized_crop(224) | flip_lr | value_range(-1, 1)" }}
model = {{ name = "vit", variant = "S/16", pool = "gap" }}
objective = {{ name = "softmax" }}
optimizer = {{ name = "adamw", lr = "1e-3", weight_decay = 1e-4 }}
"""
PREFETCH = 2  # the default of data.prefetch


def peak_of(command):
    """Peak resident bytes of a child, or a note."""
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, cwd=ROOT, env=clean_environment(TESSERA_CACHE_DIR=str(WORK / "cache")),
                                 stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                 preexec_fn=lambda: os.sched_setaffinity(0, CORES))
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        lines = out.read().strip().splitlines()
    if child.returncode:
        return None, f"exit {child.returncode}: {lines[-1][:120] if lines else ''}"
    return usage.ru_maxrss * 1024, ""


def thousand_classes():
    """The photographs as one image in each of 1,000 class folders, so that the model is the one of the step benchmark."""
    return link_photos(PHOTOS, WORK / "photos-1000", (f"{i:04}/0.jpg" for i in range(1000)))


def part_memory(report, options):
    report.title("memory", "peak resident memory of a ViT-S/16 training run, checkpoint included")
    rows = {}
    for batch in options.batch:
        account, note = run_json([program("bench_step"), "vit_small", str(batch), "1"])
        folder = pathlib.Path(tempfile.mkdtemp(prefix="memory-", dir=WORK))
        try:
            recipe = folder / "memory.toml"
            recipe.write_text(MEMORY_RECIPE.format(photos=thousand_classes(), batch=batch))
            command = [program("tessera"), "train", str(recipe), "--workdir"]
            peak_of(command + [str(folder / "first")])  # fills the executable cache
            peak, peak_note = peak_of(command + [str(folder / "second")])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if not account or not peak:
            report.row(f"batch {batch}", note or peak_note)
            continue
        # Prefetched batches, one being filled, one on the device.
        queue = (PREFETCH + 2) * batch * 224 * 224 * 3
        bound = account["state_bytes"] + account["temporary_bytes"] + queue
        rows[batch] = {"peak": peak, "state": account["state_bytes"], "temporaries": account["temporary_bytes"], "queue": queue,
                       "ratio": peak / bound}
        verdict = "reached" if peak / bound <= 1.3 else "missed"
        report.row(f"batch {batch}: peak", f"{peak / 2**20:.0f} MiB")
        report.row("  state, temporaries, queue", f"{bound / 2**20:.0f} MiB")
        print(f"  {'  peak / the above':<30}{peak / bound:>14.2f} x{'':18}<= 1.3 x   {verdict}")
    report.keep("memory", rows)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench", description="Tessera beside its peers, as ratios.")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART", help=f"of {', '.join(PARTS)}; all when none")
    parser.add_argument("--rounds", type=int, default=3, help="every side once a round (3)")
    parser.add_argument("--steps", type=int, default=4, help="timed steps of a round, of which the best counts (4)")
    parser.add_argument("--batch", type=lambda t: [int(b) for b in t.split(",")], default=[16, 32], help="of step and memory (16,32)")
    parser.add_argument("--images", type=int, default=2000, help="of a round of data (2000)")
    parser.add_argument("--peers", default="", help="only peers whose name has one of these words: jax,eager")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    report = Report()
    for part in PARTS:
        if not options.parts or part in options.parts:
            globals()[f"part_{part}"](report, options)
    print(f"\nall figures: {(WORK / 'results.json').relative_to(ROOT)}")


if __name__ == "__main__":
    main()
