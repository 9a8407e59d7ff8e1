"""SIGKILL anywhere: the run that is started again ends with the bytes of one that never was killed."""

import time

from runs import Budget, Result, seeded


def inside_a_save(workdir):
    return any(workdir.glob("checkpoints/*.tmp-*"))


def kills(place, seed, seconds, tries=None):
    """Half at a call that changes files (the shim), the rest at a moment."""
    rng, result, budget = seeded(seed, "kills"), Result(), Budget(seconds, tries)
    calls = place.count(place.train(place.workdir()), CLASSES="w", ROOTS=place.directory / "runs")
    workdir, step, history = place.workdir(), -1, []
    while budget.left(result.tried):
        by_call = rng.random() < 0.7
        shim = {"CLASSES": "w", "ROOTS": place.directory / "runs", "KILL": rng.randrange(calls)} if by_call else None
        process = place.start(place.train(workdir), shim)
        if not by_call:
            time.sleep(place.seconds * rng.uniform(0.1, 1.0))
            if process.running():
                process.send(9)
        ended = process.wait()
        history.append(shim["KILL"] if by_call else "time")
        if "continues" in ended.err and f"from step {max(step, 0)} of" not in ended.err:
            result.broken.append(f"seed {seed}, kills {history}: step {step} was on disk, and the run said: {ended.told()}")
        if ended.code == -9:
            result.tried += 1
            result.count("inside a save" if inside_a_save(workdir) else "elsewhere")
            step = place.committed(workdir)
            continue
        if not by_call:
            place.seconds = min(place.seconds, ended.seconds)
        if ended.code != 0:
            result.broken.append(f"seed {seed}, kills {history}: {ended.told()}")
        elif difference := place.difference(workdir):
            result.broken.append(f"seed {seed}, kills {history}: {difference}")
        workdir, step, history = place.workdir(), -1, []
    ended = place.run(place.train(workdir))
    if ended.code != 0 or place.difference(workdir):
        result.broken.append(f"seed {seed}, kills {history}: {place.difference(workdir) or ended.told()}")
    return result
