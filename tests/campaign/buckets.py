"""Servers of objects that fail: a run that reads and writes S3 or Google Cloud Storage ends as one on a disk does, or says why not."""

import itertools
import json
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runs import Budget, Result, seeded

ROOT = Path(__file__).resolve().parents[2]
# Its pauses between tries, 20 s for each request in a row, are a part of what is asked for.
HANG_SECONDS = 900
AT_A_TIME = 16
SECONDS_OF_A_RUN = 10

# As tests/support/scripts/serve_buckets.py calls them. Those that pass are tried again, or noticed by what is read back.
PASSING = ["internal error", "bad gateway", "slow down", "service unavailable", "gateway timeout", "too many requests", "request timeout",
           "reset", "reset after", "close", "garbage", "truncated", "long length", "short length", "reset in body", "drip", "late", "corrupt"]
LASTING = ["throttled", "expired", "denied", "unknown key", "wrong secret", "full", "no space", "elsewhere"]
SORTS = [["reads"], ["writes"], ["reads", "writes", "lists"]]


class Servers:
    def __init__(self, files):
        python = ROOT / ".deps/buckets/bin/python"
        if not python.exists():
            raise SystemExit(f"{python} is missing: ./dev campaign sets it up")
        command = [str(python), str(ROOT / "tests/support/scripts/serve_buckets.py"), str(files)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0)
        self.environment = json.loads(self.process.stdout.readline())

    def ask(self, **wanted):
        self.process.stdin.write(json.dumps(wanted, default=str) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Run:
    """One run with its workdir in a bucket, begun while the server fails and ended when it is well."""

    def __init__(self, place, servers, rng, number):
        self.place, self.servers, self.rng = place, servers, rng
        self.scheme, self.prefix = rng.choice(["s3", "gs"]), f"runs/{number}/"
        self.url = f"{self.scheme}://data/runs/{number}"
        self.here = place.directory / "machines" / str(number)
        self.kinds = rng.sample(PASSING, rng.randrange(1, len(PASSING) + 1))
        if rng.random() < 0.1:
            self.kinds.append(rng.choice(LASTING))
        self.every, self.of = rng.choice([2, 3, 4, 6]), rng.choice(SORTS)

    def told(self):
        return f"{self.url}, every {self.every} of {'+'.join(self.of)}: {', '.join(self.kinds)}"

    def train(self, machine):
        """On a machine that has the compiled programs, and keeps what it copied."""
        cache = self.here / machine
        if not cache.exists():
            cache.mkdir(parents=True, mode=0o700)
            for program in (self.place.directory / "cache").glob("*.exe"):
                shutil.copy2(program, cache)
        source = f"{self.scheme}://data"
        arguments = ["train", "recipe.toml", "--workdir", self.url, "--cache-dir", str(cache), f"data.source=folder({source}/train)",
                     f"eval.val.data.source=folder({source}/val)"]
        return self.place.start(arguments, environment=self.servers.environment).wait(HANG_SECONDS)

    def copied(self):
        to = self.here / "copy"
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir(parents=True)
        self.servers.ask(copy=self.scheme, prefix=self.prefix, to=to)
        return to

    def attempt(self, result):
        """What broke, or ""."""
        self.servers.ask(faults=self.kinds, every=self.every, of=self.of)
        first = self.train("first")
        made = self.servers.ask(faults=[])
        result.tried += made
        result.count(f"{self.scheme}, runs")
        replaced = "skipped" in first.err
        if first.code not in (0, 3):
            return first.told()
        if first.code == 3:
            result.count("said so")
            if not first.err.strip():
                return "exit 3 without a word"
            step = self.place.committed(self.copied())
            again = self.train(self.rng.choice(["first", "first", "second"]))
            if again.code != 0:
                return "then again: " + again.told()
            found = re.search(r"from step (\d+) of", again.err)
            if step > 0 and "the run is finished" not in again.err and (not found or int(found.group(1)) < step):
                return f"step {step} was in the bucket, and then again: {again.told()}"
        else:
            result.count("went on")
        if replaced:
            result.count("a sample replaced")
            return ""
        difference = self.place.difference(self.copied())
        return f"{difference}; first: {first.told()}" if difference else ""

    def end(self):
        self.servers.ask(remove=self.scheme, prefix=self.prefix)
        shutil.rmtree(self.here, ignore_errors=True)


def attempts(place, files, seed, budget, numbers):
    """One run after the other, with servers of their own."""
    result, servers = Result(), Servers(files)
    try:
        while budget.left(number := next(numbers)):
            run = Run(place, servers, seeded(seed, "buckets", number), number)
            if broken := run.attempt(result):
                result.broken.append(f"seed {seed}, run {number}, {run.told()}: {broken}")
            run.end()
    finally:
        servers.end()
    return result


def buckets(place, seed, seconds, tries=None):
    """`tries` are runs; what is counted as tried are answers that were no good. Runs mostly wait until they may ask again, so there are
    several at a time."""
    result, numbers = Result(), itertools.count()
    budget, at_a_time = Budget(seconds, tries), max(1, min(AT_A_TIME, int(seconds / SECONDS_OF_A_RUN)))
    files = place.directory / "bucket"
    for name in ("train", "val"):
        shutil.copytree(place.directory / name, files / name)
    with ThreadPoolExecutor(at_a_time) as pool:
        for one in [pool.submit(attempts, place, files, seed, budget, numbers) for _ in range(at_a_time)]:
            result.add(one.result())
    return result
