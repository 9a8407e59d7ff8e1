"""Damaged and hostile files: refused, with a reason, within limits of time and memory."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from runs import Budget, Result, seeded

SOURCE = Path(__file__).resolve().parents[2]
MAX_SECONDS, MAX_BYTES = 2.0, 512 << 20


def ask_probe(place, what, rng, count, path, result):
    """The lines that the probe prints; a probe that dies is a broken promise."""
    seed = rng.randrange(2**31)
    done = subprocess.run([place.probe, what, str(seed), str(count), str(path)], capture_output=True, text=True)
    if done.returncode != 0:
        result.broken.append(f"campaign_probe {what} {seed} {count} {path}: exit {done.returncode}: "
                             f"{done.stderr[-300:]}{done.stdout[-300:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def attack(place, what, count, path, seed, seconds, tries):
    """Asks the probe, `count` files at a time, until the time is over or something broke."""
    rng, result, budget = seeded(seed, what), Result(), Budget(seconds, tries)
    while budget.left(result.tried) and not result.broken:
        for line in ask_probe(place, what, rng, count if tries is None else tries, path, result):
            result.tried += line["tried"]
            for kind in ("refused", "decoded", "unharmed"):
                if kind in line:
                    result.count(kind, line[kind])
            if "longest_seconds" in line:
                result.measure("longest, s", line["longest_seconds"])
            if "memory_bytes" in line:
                result.measure("memory, MiB", line["memory_bytes"] / (1 << 20))
            if line.get("longest_seconds", 0) > MAX_SECONDS or line.get("memory_bytes", 0) > MAX_BYTES:
                result.broken.append(f"seed {seed}: {line}")
    return result


def checkpoints(place, seed, seconds, tries=None):
    """Copies of a checkpoint with bits turned over, files cut, lengthened, swapped."""
    last = sorted(place.reference.glob("checkpoints/step_*"))[-1]
    return attack(place, "damage", 5000, last, seed, seconds, tries)


def images(place, seed, seconds, tries=None):
    """Damaged images of every kind that the tests have."""
    return attack(place, "images", 2000, SOURCE / "tests/image/images", seed, seconds, tries)


def parsers(place, seed, seconds, tries=None):
    """Damaged files of the fuzzers' corpus, each to the parser it belongs to."""
    return attack(place, "parsers", 20000, SOURCE / "tests/fuzz/corpus", seed, seconds, tries)


def folders(place, seed, seconds, tries=None):
    """A folder in which every other file is damaged, is trained on and checked: files are named, and none stops the run."""
    rng, result, budget = seeded(seed, "folders"), Result(), Budget(seconds, tries)
    good = sorted(path for path in (SOURCE / "tests/image/images").glob("*.*") if path.stat().st_size > 0)
    while budget.left(result.tried):
        folder = place.directory / "hostile"
        subprocess.run(["rm", "-rf", folder], check=True)
        for i in range(40):
            data = bytearray(rng.choice(good).read_bytes())
            for _ in range(rng.randrange(12) if i % 2 else 0):
                data[rng.randrange(len(data))] = rng.randrange(256)
            path = folder / ("left" if i % 4 < 2 else "right") / f"{i}.img"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data[:rng.randrange(1, len(data) + 1)] if i % 6 == 1 else data)
        os.mkfifo(folder / "left" / "fifo.png")
        workdir = place.workdir()
        ended = place.run(place.train(workdir, f'data.source="folder({folder})"', 'data.max_bad="100 %"'))
        result.tried += 40
        result.measure("longest run, s", ended.seconds)
        if ended.code != 0:
            result.broken.append(f"seed {seed}: {ended.told()}")
    return result


def damage(path, rng):
    """A bit turned over, bytes added, or the end cut off."""
    data = bytearray(path.read_bytes())
    how = rng.choice(["bit", "bit", "longer", "cut", "empty"])
    if how == "bit":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == "longer":
        at = rng.randrange(len(data) + 1)
        data[at:at] = rng.randbytes(rng.randrange(1, 9))
    else:
        del data[rng.randrange(len(data)) if how == "cut" else 0:]
    path.write_bytes(data)
    return bytes(data), how


def sums(place, seed, seconds, tries=None):
    """Files with a checksum, damaged: refused by the command that reads them, or made anew where they are a cache."""
    rng, result, budget = seeded(seed, "sums"), Result(), Budget(seconds, tries)
    whole, scratch = place.directory / "whole", place.directory / "damaged"
    last = sorted(place.reference.glob("checkpoints/step_*"))[-1]
    image = str(next((place.directory / "val").rglob("*.png")))
    for arguments in (["export", "--from", str(last), "--to", str(whole / "export")],
                      ["data", "convert", "folder(train)", "--to", "tar", "--out", str(whole / "shards")]):
        ended = place.run(arguments)
        if ended.code != 0:
            raise SystemExit("what is to be damaged could not be made: " + ended.told())
    # Of that training alone: what other commands cached it neither reads nor makes anew.
    ended = place.start(place.train(place.workdir()), environment={"TESSERA_CACHE_DIR": str(whole / "cache")}).wait()
    if ended.code != 0:
        raise SystemExit("the cache that is to be damaged could not be made: " + ended.told())
    # Of each kind: the files with a checksum, and the command that reads them.
    kinds = {"export": (("model.safetensors", "config.json"), ["predict", "--from", str(scratch), image]),
             "shards": (("*.tar", "classes.txt"), ["data", "check", f"wds({scratch}/*.tar)"]),
             "cache": (("*.exe", "index/*.index"), None)}
    for kind, (_, arguments) in kinds.items():  # what is whole is taken, else a refusal would say nothing
        if arguments is not None:
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(whole / kind, scratch)
            ended = place.run(arguments)
            if ended.code != 0:
                raise SystemExit(f"the undamaged {kind} is refused: {ended.told()}")
    while budget.left(result.tried):
        kind = rng.choice(list(kinds))
        patterns, arguments = kinds[kind]
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(whole / kind, scratch)
        path = rng.choice(sorted(found for pattern in patterns for found in scratch.glob(pattern)))
        damaged, how = damage(path, rng)
        told = f"seed {seed}, {kind} {path.relative_to(scratch)} ({how}) of try {result.tried}"
        result.tried += 1
        if arguments is not None:
            ended = place.run(arguments)
            result.count(f"{kind} refused" if ended.code == 3 else f"{kind} not refused")
            if ended.code != 3:
                result.broken.append(f"{told}: {ended.told()}")
            continue
        workdir = place.workdir()
        ended = place.start(place.train(workdir), environment={"TESSERA_CACHE_DIR": str(scratch)}).wait()
        made = not path.exists() or path.read_bytes() != damaged
        result.count(f"{path.suffix[1:]} made anew" if made else f"{path.suffix[1:]} left as it was")
        # An index has bytes between its parts that mean nothing, and that no sum is of.
        left = not made and path.suffix == ".exe"
        if ended.code != 0 or place.difference(workdir) or left:
            result.broken.append(f"{told}: {place.difference(workdir) or ended.told()}{', left as it was' if left else ''}")
    return result
