"""Runs of the built program on small data, under a campaign's conditions, and what must be the same after them."""

import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import zlib
from pathlib import Path

# A process that takes longer than this hangs: the runs here take a second or two.
HANG_SECONDS = 120

# Everything that a resumed run could get wrong: crops and flips that move, mixing, dropout, an average, several threads.
RECIPE = """seed = 3
total = "24 steps"
log = "2 steps"
checkpoint = { every = "3 steps", keep = 2 }
data = { source = "folder(train)", batch = 4, pp = "decode | random_resized_crop(8) | flip_lr | value_range(-1, 1)", threads = 2, mixup = { mixup = 0.2 } }
model = { name = "vit", width = 16, depth = 2, heads = 2, patch = 4, pool = "gap", dropout = 0.1, drop_path = 0.1 }
objective = { name = "softmax" }
optimizer = { name = "adamw", lr = "1e-2" }
average = { decay = 0.9 }
[eval.val]
type = "classification"
data = { source = "folder(val)", pp = "decode | resize(9) | central_crop(8) | value_range(-1, 1)", threads = 1 }
every = "6 steps"
batch = 4
predictions = true
"""

# What the clock decides.
TIMES = re.compile(r"img/sec|input|uptime|core_hours|z/|y/|goodput|badput|mfu")


def write_png(path, label, variant):
    """8 x 8 pixels: class 0 is bright on the left, class 1 on the right."""
    rows = b""
    for y in range(8):
        rows += b"\0"
        for x in range(8):
            bright = (x < 4) == (label == 0)
            rows += bytes((200 if bright else 30) + (variant * 7 + x * 3 + y * 5 + c * 11) % 40 for c in range(3))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Ended:
    """How a process ended."""

    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def told(self):
        return f"exit {self.code}: {self.err.strip()[-400:]}"


class Process:
    def __init__(self, command, directory, environment, prepare=None):
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.start = time.monotonic()
        # In a process group of its own: Ctrl-C is for the campaign.
        self.process = subprocess.Popen(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=self.out,
                                        stderr=self.err, preexec_fn=prepare, process_group=0)

    def send(self, number):
        self.process.send_signal(number)

    def running(self):
        return self.process.poll() is None

    def stderr(self):
        self.err.seek(0)
        return self.err.read().decode(errors="replace")

    def wait(self, seconds=HANG_SECONDS):
        """None as the exit code of one that had to be killed because it hung."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = None
        self.out.seek(0)
        out, err = self.out.read().decode(errors="replace"), self.stderr()
        self.out.close()
        self.err.close()
        return Ended(code, out, err, time.monotonic() - self.start)


def timeless(path):
    lines = []
    for line in path.read_text().splitlines():
        lines.append({key: value for key, value in json.loads(line).items() if not TIMES.match(key)})
    return lines


class Workplace:
    """A directory with data, a recipe, a cache of compiled programs, and an undisturbed run to compare with."""

    def __init__(self, build, where=None):
        self.program = str(Path(build, "bin/tessera").resolve())
        self.shim = str(Path(build, "tests/campaign/io_shim.so").resolve())
        self.probe = str(Path(build, "tests/campaign/campaign_probe").resolve())
        self.directory = Path(tempfile.mkdtemp(prefix="tessera-campaign-", dir=where)).resolve()
        for split, count in (("train", 20), ("val", 7)):
            for i in range(count):
                write_png(self.directory / split / "left" / f"{i}.png", 0, i)
                write_png(self.directory / split / "right" / f"{i}.png", 1, i)
        (self.directory / "recipe.toml").write_text(RECIPE)
        (self.directory / "runs").mkdir()
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("TESSERA_")}
        self.environment["TESSERA_CACHE_DIR"] = str(self.directory / "cache")
        self.names = 0
        self.reference = self.workdir()
        ended = self.run(self.train(self.reference))
        if ended.code != 0:
            raise SystemExit("the undisturbed run failed: " + ended.told())
        self.seconds = self.run(self.train(self.workdir())).seconds  # with compiled programs in the cache

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def workdir(self):
        self.names += 1
        return self.directory / "runs" / str(self.names)

    def train(self, workdir, *more):
        return ["train", "recipe.toml", "--workdir", str(workdir), *more]

    def start(self, arguments, shim=None, prepare=None, environment=None):
        """`shim`: variables of io_shim.cc, without their common prefix. `environment`: variables besides the workplace's own."""
        environment = self.environment | (environment or {})
        if shim is not None:
            environment["LD_PRELOAD"] = self.shim
            for key, value in shim.items():
                environment["TESSERA_IO_" + key] = str(value)
        return Process([self.program, *arguments], self.directory, environment, prepare)

    def run(self, arguments, shim=None, prepare=None):
        return self.start(arguments, shim, prepare).wait()

    def count(self, arguments, **shim):
        """How many calls of `arguments` count."""
        counter = self.directory / "counter"
        counter.unlink(missing_ok=True)
        ended = self.run(arguments, {**shim, "COUNTER": counter})
        if ended.code != 0:
            raise SystemExit("a run under the shim failed: " + ended.told())
        return struct.unpack("q", counter.read_bytes())[0]

    def difference(self, workdir):
        """What of a finished run is not as in the undisturbed one; "" when all is."""
        try:
            for name in sorted(path.name for path in (self.reference / "checkpoints").glob("step_*"))[-1:]:
                for file in ("state.safetensors",):
                    # A step that was written again in a bucket has names with a prefix.
                    there = workdir / "checkpoints" / name
                    listed = [one["name"] for one in json.loads((there / "COMMIT").read_text())["files"] if one["name"].endswith(file)]
                    if (there / listed[0]).read_bytes() != (self.reference / "checkpoints" / name / file).read_bytes():
                        return f"{name}/{file} differs"
            lines, wanted = timeless(workdir / "metrics.jsonl"), timeless(self.reference / "metrics.jsonl")
            if lines != wanted:
                return "metrics.jsonl differs" + "".join(f": {a} instead of {b}" for a, b in zip(lines, wanted) if a != b)[:300]
            for file in sorted((self.reference / "evals").glob("*")):
                if (workdir / "evals" / file.name).read_bytes() != file.read_bytes():
                    return f"evals/{file.name} differs"
        except OSError as error:
            return str(error)
        return ""

    def committed(self, workdir):
        """The newest step with a COMMIT; -1 without one."""
        steps = [int(path.parent.name[5:]) for path in workdir.glob("checkpoints/step_*/COMMIT") if path.parent.name[5:].isdigit()]
        return max(steps, default=-1)


class Result:
    """Of one scenario: how many were tried, how many of each kind, and what broke a promise."""

    def __init__(self):
        self.tried = 0
        self.kinds = {}
        self.broken = []
        self.worst = {}  # the largest of each measure

    def count(self, kind, number=1):
        self.kinds[kind] = self.kinds.get(kind, 0) + number

    def measure(self, name, value):
        self.worst[name] = max(self.worst.get(name, value), value)

    def add(self, other):
        self.tried += other.tried
        self.broken += other.broken
        for kind, number in other.kinds.items():
            self.count(kind, number)
        for name, value in other.worst.items():
            self.measure(name, value)


class Budget:
    """Of one scenario. `stopped`, set by a signal to the campaign, ends all of them: the table is written with what was tried."""

    stopped = False

    def __init__(self, seconds, tries=None):
        self.end, self.tries = time.monotonic() + seconds, tries

    def left(self, tried=0):
        return not Budget.stopped and time.monotonic() < self.end and (self.tries is None or tried < self.tries)

    @staticmethod
    def stop(*_):
        Budget.stopped = True


def seeded(seed, *names):
    return random.Random(":".join(str(part) for part in (seed, *names)))


SIGNAL_NAMES = {number: number.name for number in signal.Signals}
