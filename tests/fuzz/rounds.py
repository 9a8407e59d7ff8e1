#!/usr/bin/env python3
"""Runs libFuzzer's programs in rounds and adds up what they did: ./dev fuzz. See README.md here.

A pass gives each target a round. With a goal, passes go on until all targets together have reached it; after each, the quarter of
the targets that is fastest gets as many rounds as the pass had. As many rounds run at a time as there are processors. What was
done stays in OUT/totals-PRESET.json, so that a campaign of several days adds up. An input that breaks a target is kept in OUT,
named after the target, and the rounds go on.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent

# How a round ends that nothing broke: when its time is over, or by a signal (libFuzzer's code for that is 72).
WELL = {0, 72, -signal.SIGINT, -signal.SIGTERM}


class Totals:
    """Of each target, over all rounds: executions, seconds of processor time, rounds, and inputs that broke it."""

    def __init__(self, path):
        self.path = path
        self.of = json.loads(path.read_text()) if path.exists() else {}

    def add(self, name, **more):
        row = self.of.setdefault(name, {"executions": 0, "seconds": 0.0, "rounds": 0, "broken": 0})
        for key, value in more.items():
            row[key] += value
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.of, indent=1, sort_keys=True) + "\n")
        new.replace(self.path)

    def executions(self, names):
        return sum(self.of[name]["executions"] for name in names if name in self.of)

    def rate(self, name):
        row = self.of.get(name)
        return row["executions"] / max(row["seconds"], 1e-3) if row else 0.0


def fuzz(program, name, out, seconds):
    """One round. Gives executions, seconds of processor time, and whether an input broke the target."""
    found = out / name
    found.mkdir(exist_ok=True)
    command = [program, f"-max_total_time={seconds}", "-print_final_stats=1", f"-artifact_prefix={out}/{name}-", str(found),
               str(HERE / "corpus" / name)]
    with (out / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    text = (out / f"{name}.log").read_text(errors="replace")
    broke = process.returncode not in WELL
    if broke:
        os.replace(out / f"{name}.log", out / f"{name}-broken.log")
    executions = re.search(r"stat::number_of_executed_units: *(\d+)", text)
    return int(executions[1]) if executions else 0, usage.ru_utime + usage.ru_stime, broke


def rounds(names, totals, goal):
    """Names of targets, in the order of their rounds."""
    yield from names
    while goal and totals.executions(names) < goal:
        fastest = sorted(names, key=totals.rate, reverse=True)[:(len(names) + 3) // 4]
        for i in range(len(names)):
            yield fastest[i % len(fastest)]
        yield from names


def table(totals):
    print("| target | executions | seconds of processor time | a second | broken |\n|---|---|---|---|---|")
    for name, row in sorted(totals.of.items()):
        print(f"| `{name}` | {row['executions']:,} | {row['seconds']:,.0f} | {totals.rate(name):,.0f} | {row['broken']} |")
    print(f"| all | {totals.executions(totals.of):,} | {sum(row['seconds'] for row in totals.of.values()):,.0f} | | "
          f"{sum(row['broken'] for row in totals.of.values())} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path, help="where fuzz_TARGET were built")
    parser.add_argument("targets", nargs="*", help="all if none is named")
    parser.add_argument("--preset", default="fuzz-fast", help="of the build, in the name of the file of totals")
    parser.add_argument("--out", type=Path, default=Path(".deps/fuzz"), help="what is found, and the totals")
    parser.add_argument("--seconds", type=int, default=60, help="of a round")
    parser.add_argument("--until", type=int, metavar="N", help="rounds go on until the targets have had N executions in all")
    parser.add_argument("--table", action="store_true", help="only prints the totals")
    options = parser.parse_intermixed_args()
    options.out.mkdir(parents=True, exist_ok=True)
    totals = Totals(options.out / f"totals-{options.preset}.json")
    if options.table:
        return table(totals)
    names = options.targets or sorted(path.name for path in (HERE / "corpus").iterdir())
    queue = rounds(names, totals, options.until)
    one = threading.Lock()  # of the queue and the totals
    running = {name: threading.Lock() for name in names}
    stopped = threading.Event()
    broken = []

    def work():
        while not stopped.is_set():
            with one:
                name = next(queue, None)
                if name is None or (options.until and totals.executions(names) >= options.until):
                    return
            with running[name]:
                executions, seconds, broke = fuzz(options.programs / f"fuzz_{name}", name, options.out, options.seconds)
            with one:
                totals.add(name, executions=executions, seconds=seconds, rounds=1, broken=int(broke))
                print(f"fuzz {name}: {executions:,} executions, {executions / max(seconds, 1e-3):,.0f} a second of processor time; "
                      f"of all {totals.executions(names):,}" + (f"; BROKEN, see {options.out}/{name}-*" if broke else ""), flush=True)
                if broke:
                    broken.append(name)

    jobs = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(jobs) as workers:
        try:
            for ended in [workers.submit(work) for _ in range(jobs)]:
                ended.result()
        finally:
            stopped.set()
    return 1 if broken else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
