#!/usr/bin/env python3
"""Changes one line of the program at a time, as tests/mutations.toml says, and looks whether the tests notice.

  tools/mutate.py                 every mutation
  tools/mutate.py scan 'l2_.*'    those whose description has a match
  tools/mutate.py --list          what there is, and where; fails where a line no longer fits the sources (the test house.mutations)
  tools/mutate.py --check         the tests that the table names, on the unchanged program

A mutation is built alone, with the test programs that are to notice it and no others; one that survives is a gap in the tests.
The checkout is changed while this runs (nothing else may be built in it) and is as before afterwards, whatever happens. A file
that was moved is found by its name, and a test by its suite and name.
"""

import argparse
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "mutations.toml"
# As tests/CMakeLists.txt sets for the folders that mostly compile.
ENVIRONMENT = {"XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"}


class BadTable(Exception):
    pass


def find_file(mutation):
    """The file with the old text: where the table says, or else the one of its name under src."""
    stated = ROOT / mutation["file"]
    candidates = [stated] if stated.exists() else sorted((ROOT / "src").rglob(stated.name))
    holding = [path for path in candidates if mutation["old"] in path.read_text()]
    if len(holding) != 1:
        raise BadTable(f"{mutation['what']}: {len(holding)} files named {stated.name} have {mutation['old']!r}")
    count = holding[0].read_text().count(mutation["old"])
    if count != 1:
        raise BadTable(f"{mutation['what']}: {holding[0].name} has {mutation['old']!r} {count} times")
    return holding[0]


def all_tests():
    """(folder of tests/, "Suite.Name") of each."""
    found, tests = [], ROOT / "tests"
    for path in sorted(tests.rglob("*.cc")):
        for suite, name in re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", path.read_text(), re.M):
            found.append((path.relative_to(tests).parts[0], f"{suite}.{name}"))
    return found


def tests_of(mutation, tests):
    """Folder -> names of tests."""
    chosen = {}
    for wanted in mutation["tests"]:
        # Where two folders have a suite of the same name, the table writes "folder/" before it.
        found = [(folder, name) for folder, name in tests if fnmatchcase(name, wanted) or fnmatchcase(f"{folder}/{name}", wanted)]
        if not found:
            raise BadTable(f"{mutation['what']}: there is no test {wanted}")
        for folder, name in found:
            chosen.setdefault(folder, []).append(name)
    return chosen


def gtest_filter(names):
    # Tests with parameters are All/Suite.Name/parameter.
    return ":".join(pattern for name in names for pattern in (name, f"*/{name}/*"))


def adopt_orphans():
    """What a test starts and leaves behind becomes a child of this process (prctl's PR_SET_CHILD_SUBREAPER)."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def end_orphans():
    """A changed program may train on for ever, beside the tests of the next change."""
    while children := Path("/proc/self/task", str(os.getpid()), "children").read_text().split():
        for child in map(int, children):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


class Builder:
    def __init__(self, tree, jobs):
        self.tree, self.jobs = tree, jobs

    def build(self, folders):
        targets = [f"test_{folder}" for folder in folders]
        command = ["cmake", "--build", str(self.tree), "-j", str(self.jobs), "--target", *targets]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    def run(self, folder, names, seconds):
        """The first test that fails, "crash" or "time"; nothing where all pass."""
        program = self.tree / "tests" / f"test_{folder}"
        command = [program, f"--gtest_filter={gtest_filter(names)}", "--gtest_fail_fast", "--gtest_brief=1"]
        try:
            done = subprocess.run(command, cwd=program.parent, env=os.environ | ENVIRONMENT, capture_output=True, text=True,
                                  errors="replace", timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"{folder}: out of time"
        finally:
            end_orphans()
        if "0 tests from 0 test suites ran" in done.stdout:
            sys.exit(f"test_{folder} has none of {', '.join(names)}")
        if failed := re.search(r"FAILED  \] ([^\s,]+)", done.stdout):
            return f"{folder}.{failed[1]}"
        return f"{folder}: ended with {done.returncode}" if done.returncode != 0 else None


def run_tests(builder, tests, seconds):
    for folder, names in tests.items():
        if noticed := builder.run(folder, names, seconds):
            return noticed
    return None


def try_mutation(builder, mutation, path, chosen, seconds):
    """(killed, survived or broken; by what)."""
    before = path.read_text()
    try:
        path.write_text(before.replace(mutation["old"], mutation["new"]))
        built = builder.build(chosen)
        if built.returncode != 0:
            lines = [line for line in built.stdout.splitlines() if "error" in line]
            return "broken", lines[0] if lines else built.stdout[-300:]
        noticed = run_tests(builder, chosen, seconds)
    finally:
        path.write_text(before)
    return ("killed", noticed) if noticed else ("survived", "")


def check(builder, places, seconds):
    """The tests pass on the unchanged program: else a mutation would seem to be noticed."""
    tests = {}
    for _, chosen in places:
        for folder, names in chosen.items():
            tests.setdefault(folder, set()).update(names)
    built = builder.build(tests)
    if built.returncode != 0:
        sys.exit(built.stdout[-2000:])
    failed = [found for folder, names in tests.items() if (found := builder.run(folder, sorted(names), 20 * seconds))]
    if failed:
        sys.exit("these fail on the unchanged program: " + ", ".join(failed))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", help="regular expressions over descriptions and file names")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tree", type=Path, default=ROOT / "build" / "release", help="the build directory")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=int, default=180, help="that the tests of one mutation may take in each program")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the file is put back
    adopt_orphans()

    mutations = tomllib.loads(TABLE.read_text())["mutation"]
    if options.patterns:
        wanted = re.compile("|".join(options.patterns))
        mutations = [m for m in mutations if wanted.search(m["what"]) or wanted.search(m["file"])]
    tests = all_tests()
    places, problems = [], []
    for mutation in mutations:
        try:
            places.append((find_file(mutation), tests_of(mutation, tests)))
        except BadTable as problem:
            problems.append(f"tests/mutations.toml: {problem}")
    if problems:
        sys.exit("\n".join(problems))
    if options.list:
        for mutation, (path, chosen) in zip(mutations, places):
            print(f"{path.relative_to(ROOT)}: {mutation['what']}   ({', '.join(chosen)})")
        return
    builder = Builder(options.tree, options.jobs)
    if options.check:
        return check(builder, places, options.seconds)

    # Those of one test program one after the other: each build then puts back one file and changes one.
    in_order = sorted(zip(mutations, places), key=lambda pair: sorted(pair[1][1]))
    counts = {"killed": 0, "survived": 0, "broken": 0}
    try:
        for mutation, (path, chosen) in in_order:
            start = time.monotonic()
            outcome, by = try_mutation(builder, mutation, path, chosen, options.seconds)
            counts[outcome] += 1
            print(f"{outcome:8}  {mutation['what']}   {by}   {time.monotonic() - start:.0f} s", flush=True)
    finally:  # so that no program stays built of a changed file
        builder.build({folder for _, chosen in places for folder in chosen})
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    sys.exit(0 if counts["killed"] == len(mutations) else 1)


if __name__ == "__main__":
    main()
