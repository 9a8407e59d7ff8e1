"""Calls that fail: every call of every command, one by one, once and for good, with each error that a disk gives."""

import errno
import json
import re
import shutil

from runs import Budget, Result, seeded

# A call fails once, or every call from that one on does.
WAYS = ("once", "sticky")
ERRORS = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EMFILE]
# Done; usage (a directory that can't be used); data. 75 and 130 are for signals, 1 would be a bug of ours.
ALLOWED = {0, 2, 3}
# No more open files is a limit of the machine, and no fault of the data.
ALLOWED_AT_A_LIMIT = ALLOWED | {4}


def commands(place, scratch):
    """Of each command: its arguments, and what of its results must be right when it says that all went well."""
    last = str(sorted(place.reference.glob("checkpoints/step_*"))[-1])
    image = str(next((place.directory / "val").rglob("*.png")))
    return {
        "train": place.train(scratch / "run"),
        "eval": ["eval", "recipe.toml", "--from", last],
        "predict": ["predict", "--from", last, image, "--json"],
        "export": ["export", "--from", last, "--to", str(scratch / "exported")],
        "export --plain": ["export", "--from", last, "--plain", "--to", str(scratch / "plain.safetensors")],
        "data convert": ["data", "convert", "folder(train)", "--to", "tar", "--out", str(scratch / "shards")],
        "data check": ["data", "check", "recipe.toml"],
    }


def contents(directory):
    """Of every file below. But for a lock, which names its process; a temporary file that a failing disk did not let go; and the plan
    of a conversion, which knows less of a file that could not be looked at."""
    found = sorted(path for path in directory.rglob("*") if path.is_file()) if directory.exists() else []
    files = [path for path in found if path.name not in (".lock", "convert.json") and ".tmp-" not in path.name]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def kind_of(call):
    """What is called on which file; files that differ in numbers alone are of one kind."""
    return re.sub(r"[0-9a-f]{16,}|\d+", "N", call)


def kinds(lines, place):
    """Of a trace, by the number of the call."""
    calls = (line.replace(str(place.directory) + "/", "").split(" ", 1) for line in lines)
    return {int(number): kind_of(call) for number, call in calls}


class Command:
    def __init__(self, place, name):
        self.place, self.name = place, name
        self.scratch = place.directory / "scratch"
        self.fresh()
        self.arguments = commands(place, self.scratch)[name]
        read = ("recipe.toml", "train", "val", "cache")
        roots = [self.scratch, place.reference, *(place.directory / name for name in read)]
        self.roots = ":".join(str(root) for root in roots)
        trace = place.directory / "trace"
        trace.unlink(missing_ok=True)
        self.calls = place.count(self.arguments, ROOTS=self.roots, TRACE=trace)
        self.kinds = kinds(trace.read_text().splitlines(), place)
        self.good = self.written()
        self.fresh()
        self.said = place.run(self.arguments).out

    def fresh(self):
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()

    def written(self):
        return {} if self.name == "train" else contents(self.scratch)

    def try_fault(self, k, error, when, result):
        """The name of the call that failed and its file; "" if there were not as many calls this time."""
        told = f"{self.name}, call {k} of {self.calls}: {errno.errorcode[error]} {when}"
        failed = self.place.directory / "failed"
        failed.unlink(missing_ok=True)
        self.fresh()
        ended = self.place.run(self.arguments, {"ROOTS": self.roots, "FAIL": f"{k} {error} {when}", "FAILED": failed})
        call = failed.read_text().strip().replace(str(self.place.directory) + "/", "") if failed.exists() else ""
        result.tried += 1
        result.count(f"{self.name}: " + ("not reached" if not call else "went on" if ended.code == 0 else "said so"))
        self.check(f"{told} ({call})", ended, error, result)
        return call

    def check(self, told, ended, error, result):
        if ended.code not in (ALLOWED_AT_A_LIMIT if error == errno.EMFILE else ALLOWED):
            return result.broken.append(f"{told}: {ended.told()}")
        if ended.code != 0 and not (ended.err + ended.out).strip():
            return result.broken.append(f"{told}: exit {ended.code} without a word")
        if ended.code == 0:
            self.check_success(told, ended, result)
        else:
            self.check_again(told, result)

    def check_success(self, told, ended, result):
        excused = "skipped" in ended.err or "unreadable" in ended.err or "warning" in ended.err
        if self.name == "train":
            difference = self.place.difference(self.scratch / "run")
            if difference and not excused:
                result.broken.append(f"{told}: exit 0, and {difference}")
        elif self.written() != self.good and not excused:
            result.broken.append(f"{told}: exit 0, and other files were written")
        elif self.name in ("eval", "predict") and ended.out != self.said and not excused:
            result.broken.append(f"{told}: exit 0, and another result was told")

    def check_again(self, told, result):
        """The same command, once the disk is well: it ends as if nothing had been."""
        again = self.place.run(self.arguments)
        if again.code == 2 and self.name.startswith("export") and "--overwrite" in again.err:
            # The first try was in its place when it failed, with its checksum or without.
            again = self.place.run([*self.arguments, "--overwrite"])
        if again.code != 0:
            result.broken.append(f"{told}; then again: {again.told()}")
        elif self.name == "train" and (difference := self.place.difference(self.scratch / "run")):
            result.broken.append(f"{told}; then again: {difference}")
        elif self.written() != self.good:
            result.broken.append(f"{told}; then again: other files were written")


class Journal:
    """What was tried, in a file of a line of JSON each, so that a campaign over all calls can go on where it ended."""

    def __init__(self, path):
        self.lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self.done = {(line["command"], line["number"], line["when"]) for line in self.lines}
        self.file = path.open("a")

    def add(self, **line):
        self.lines.append(line)
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    def count(self, result):
        """Of all lines, of this and earlier campaigns."""
        for when in WAYS:
            result.count(f"failed {when}", sum(line["when"] == when and line["call"] != "" for line in self.lines))
        result.count("of different calls on different files", len({(line["command"], line["call"]) for line in self.lines if line["call"]}))


def plan(place, rng, journal, ways):
    """Every call of each command, in each of the ways: first each once, then from then on. The order is drawn, but for one call of
    each kind that comes first, unless the journal has the kind."""
    every = [Command(place, name) for name in commands(place, place.directory)]
    for when in ways:
        tries = [(command, k, when) for command in every for k in range(command.calls)]
        rng.shuffle(tries)
        seen = {(line["command"], kind_of(line["call"])) for line in journal.lines if line["when"] == when} if journal else set()
        first, others = [], []
        for command, k, _ in tries:
            kind = (command.name, command.kinds.get(k))
            (others if kind in seen else first).append((command, k, when))
            seen.add(kind)
        yield from first + others


def faults(place, seed, seconds, tries=None, journal=None, ways=WAYS):
    """`journal`: a file; what it has is not tried again. `ways`: of those that a call fails in."""
    rng, result, budget = seeded(seed, "faults"), Result(), Budget(seconds, tries)
    journal = Journal(journal) if journal else None
    every = list(plan(place, rng, journal, ways))
    for command, k, when in every:
        error = rng.choice(ERRORS)
        if journal and (command.name, k, when) in journal.done:
            continue
        if not budget.left(result.tried):
            break
        broken = len(result.broken)
        call = command.try_fault(k, error, when, result)
        if journal:
            journal.add(command=command.name, number=k, when=when, error=errno.errorcode[error], call=call, broken=result.broken[broken:])
    if journal:
        journal.count(result)
    result.count("calls to fail, in all", len(every) // len(ways))
    result.count("of different kinds", len({(command.name, kind) for command, _, _ in every for kind in command.kinds.values()}))
    shutil.rmtree(place.directory / "scratch", ignore_errors=True)
    return result
