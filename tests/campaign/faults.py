"""Calls that fail: every call of every command, one by one, once and for good, with each error that a disk gives."""

import errno
import shutil

from runs import Budget, Result, seeded

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


class Command:
    def __init__(self, place, name):
        self.place, self.name = place, name
        self.scratch = place.directory / "scratch"
        self.fresh()
        self.arguments = commands(place, self.scratch)[name]
        roots = [self.scratch, place.directory / "train", place.directory / "val", place.reference]
        self.roots = ":".join(str(root) for root in roots)
        self.calls = place.count(self.arguments, ROOTS=self.roots)
        self.good = self.written()
        self.fresh()
        self.said = place.run(self.arguments).out

    def fresh(self):
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()

    def written(self):
        return {} if self.name == "train" else contents(self.scratch)

    def try_fault(self, k, error, when, result):
        told = f"{self.name}, call {k} of {self.calls}: {errno.errorcode[error]} {when}"
        self.fresh()
        ended = self.place.run(self.arguments, {"ROOTS": self.roots, "FAIL": f"{k} {error} {when}"})
        result.tried += 1
        result.count(f"{self.name}: " + ("went on" if ended.code == 0 else "said so"))
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


def faults(place, seed, seconds, tries=None):
    """At random over all commands; with enough time every call of each, once and for good."""
    rng, result, budget = seeded(seed, "faults"), Result(), Budget(seconds, tries)
    every = [Command(place, name) for name in commands(place, place.directory)]
    plan = [(command, k, when) for command in every for k in range(command.calls) for when in ("once", "sticky")]
    rng.shuffle(plan)
    for command, k, when in plan:
        if not budget.left(result.tried):
            break
        command.try_fault(k, rng.choice(ERRORS), when, result)
    result.count("calls to fail, in all", len(plan) // 2)
    shutil.rmtree(place.directory / "scratch", ignore_errors=True)
    return result
