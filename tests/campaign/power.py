"""Power cuts: what a disk may hold at any moment of a run loads as the newest step that the run had saved."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import disk
from runs import Budget, Result, seeded


class Probe:
    """Asks one process for the newest checkpoint of many directories."""

    def __init__(self, place):
        self.process = subprocess.Popen([place.probe, "latest"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def latest(self, directory):
        self.process.stdin.write(f"{directory}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the reader of checkpoints ended at {directory}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Watched:
    """A disk and which steps were saved: one counts from the moment when its name is durable, or when what came before it goes."""

    def __init__(self, root):
        self.disk, self.saved, self.renamed = disk.Disk(root), -1, -1
        self.sums = {}  # of each step: of its arrays, once it is in place

    def do(self, record):
        self.disk.do(record)
        if record[0] == b"rename" and record[2].rsplit(b"/", 1)[-1].startswith(b"step_"):
            self.renamed = int(record[2].rsplit(b"/", 1)[-1][5:])
        directory = self.disk.root.entries.get(b"checkpoints")
        if record[0] == b"sync" and directory is not None and self.disk.open_files[record[1]] is directory:
            self.saved = self.renamed
        if record[0] == b"unlink" and b"/step_" in record[1] and b".tmp-" not in record[1]:
            self.saved = self.renamed


def steps_logged(text):
    """Whole lines of metrics.jsonl."""
    steps = []
    for line in text.split(b"\n")[:-1]:
        try:
            steps.append(json.loads(line)["step"])
        except (ValueError, KeyError):
            pass
    return steps


def power(place, seed, seconds, tries=None):
    rng, result, budget = seeded(seed, "power"), Result(), Budget(seconds, tries)
    workdir = place.workdir()
    workdir.mkdir()
    record = place.directory / "record"
    record.unlink(missing_ok=True)
    ended = place.run(place.train(workdir, "checkpoint.keep=2"), {"ROOTS": workdir, "RECORD": record})
    if ended.code != 0:
        raise SystemExit("the recorded run failed: " + ended.told())
    records = disk.read_records(record)
    wanted = {step: steps_until(place, step) for step in range(0, 25)}
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    probe = Probe(place)
    with tempfile.TemporaryDirectory(dir=memory, prefix="tessera-power-") as images:
        while budget.left(result.tried):
            watched = Watched(workdir)  # once more through the whole run, with cuts at some of its calls
            for number, one in enumerate(records + [None]):
                if one is not None:
                    watched.do(one)
                else:
                    watched.saved = watched.renamed  # it has ended well
                if one is not None and rng.random() < 0.5 or not budget.left(result.tried):
                    continue
                result.tried += 1
                image = Path(images, "image")
                tree = watched.disk.after_cut(rng)
                disk.write_tree(tree, image)
                found = probe.latest(image / "checkpoints")
                told = f"seed {seed}, cut after call {number} of {len(records)}"
                if found.get("step", -1) < watched.saved:
                    result.broken.append(f"{told}: step {watched.saved} was saved, found: {found}")
                elif found.get("step", -1) >= 0:
                    logged = set(steps_logged(tree.get(b"metrics.jsonl", b"")))
                    if missing := [step for step in wanted[found["step"]] if step not in logged]:
                        result.broken.append(f"{told}: step {found['step']} was saved without the metrics of {missing}")
                result.count("newest step found" if found.get("step", -1) >= 0 else "before the first save")
                shutil.rmtree(image)
                if number % 64 == 0 and found.get("step", -1) >= 0 and tries is None and rng.random() < 0.05:
                    go_on(place, tree, workdir, told, result)
    probe.close()
    return result


def steps_until(place, step):
    return [line for line in steps_logged((place.reference / "metrics.jsonl").read_bytes()) if line <= step]


def go_on(place, tree, recorded, told, result):
    """What is left on the disk is continued, and must end as the undisturbed run."""
    shutil.rmtree(recorded)
    disk.write_tree(tree, recorded)
    ended = place.run(place.train(recorded, "checkpoint.keep=2"))
    result.count("continued to the end")
    if ended.code != 0 or place.difference(recorded):
        result.broken.append(f"{told}, continued: {place.difference(recorded) or ended.told()}")
