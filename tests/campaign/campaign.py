#!/usr/bin/env python3
"""Attacks the built program at random, for a time, and counts what held: ./dev campaign. See README.md here."""

import argparse
import datetime
import random
import signal
import sys
import time
from pathlib import Path

import buckets
import conditions
import faults
import hostile
import kills
import power
from runs import Budget, Result, Workplace

# Each with its share of the time.
SCENARIOS = {
    "kills": (kills.kills, 30, "SIGKILL at any call and moment; continued, the end is the undisturbed one's, byte for byte"),
    "faults": (faults.faults, 20, "one call of a command fails, once or from then on: said so, nothing lost, and well again"),
    "power": (power.power, 10, "what a disk may hold after a power cut: the newest saved step loads, with its metrics"),
    "checkpoints": (hostile.checkpoints, 5, "damaged checkpoints: refused"),
    "sums": (hostile.sums, 3, "damaged files with a checksum: exports, shards and cached programs are refused or made anew"),
    "images": (hostile.images, 5, "damaged images: pixels or a reason, within 2 s and 512 MiB"),
    "parsers": (hostile.parsers, 5, "damaged files of every format: a result or a reason"),
    "folders": (hostile.folders, 3, "training among damaged files and pipes"),
    "signals": (conditions.signals, 8, "any signal at any moment: saved or unmoved, and continued to the undisturbed end"),
    "limits": (conditions.limits, 5, "little memory, few files, small files, little time: said so, nothing lost"),
    "slow": (conditions.slow, 5, "files that are slow or never answer: a signal ends the run"),
    "buckets": (buckets.buckets, 10, "servers of S3 and Google Cloud Storage that fail: the run ends as on a disk, or says why and goes on later"),
    "soak": (conditions.soak, 4, "a long run: memory stays level"),
}


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev campaign", description=__doc__)
    parser.add_argument("hours", nargs="?", type=float, default=1.0, help="how long in all (1)")
    parser.add_argument("--seed", type=int, help="of everything that is drawn (a new one)")
    parser.add_argument("--only", action="append", choices=list(SCENARIOS), help="this scenario alone; may be given again")
    parser.add_argument("--skip", action="append", default=[], choices=list(SCENARIOS), help="all but this; may be given again")
    parser.add_argument("--tries", type=int, help="at most so many of each scenario")
    parser.add_argument("--journal", type=Path, help="of faults: a file of what was tried, which is not tried again")
    parser.add_argument("--ways", nargs="+", choices=faults.WAYS, default=faults.WAYS, help="of faults: a call fails once, from then on, or both")
    parser.add_argument("--build", default="build/release", help="where the program was built")
    parser.add_argument("--keep", action="store_true", help="leave the directory of the runs")
    return parser.parse_args()


def summary(name, result, seconds, seed):
    kinds = [f"{number:,} {kind}" for kind, number in sorted(result.kinds.items())]
    kinds += [f"{kind} {value:.3g}" for kind, value in sorted(result.worst.items())]
    return f"| {name} | {result.tried:,} | {len(result.broken)} | {'; '.join(kinds)} | {seconds:.0f} | {seed} |"


def main():
    options = parse_arguments()
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    names = [name for name in options.only or SCENARIOS if name not in options.skip]
    shares = sum(SCENARIOS[name][1] for name in names)
    place = Workplace(options.build)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, Budget.stop)
    print(f"seed {seed}   {datetime.date.today()}   a run takes {place.seconds:.2f} s   {place.directory}", flush=True)
    print("\n| scenario | tried | broken | of them | s | seed |\n|---|---|---|---|---|---|", flush=True)
    broken = []
    for name in names:
        if Budget.stopped:
            break
        run, share, _ = SCENARIOS[name]
        start = time.monotonic()
        result = Result()
        more = {"journal": options.journal, "ways": options.ways} if name == "faults" else {}
        result.add(run(place, seed, 3600 * options.hours * share / shares, options.tries, **more))
        print(summary(name, result, time.monotonic() - start, seed), flush=True)
        broken += [f"{name}: {text}" for text in result.broken]
    for text in broken[:50]:
        print(f"\nBROKEN {text}")
    if not (broken or options.keep):
        place.close()
    print(f"\n{len(broken)} broken" if broken else "\nall held")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
