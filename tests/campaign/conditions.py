"""What else happens to a process: signals, limits of the system, slow and hanging files, long runs."""

import os
import resource
import signal
import time

from runs import Budget, Result, seeded, SIGNAL_NAMES

# What each signal asks for: the exit code after saving. None: the run goes on.
ASKED = {signal.SIGTERM: 75, signal.SIGHUP: 75, signal.SIGXCPU: 75, signal.SIGINT: 130, signal.SIGPIPE: None, signal.SIGXFSZ: None}


def signals(place, seed, seconds, tries=None):
    """Any signal at any moment: saved, and continued to the undisturbed end."""
    rng, result, budget = seeded(seed, "signals"), Result(), Budget(seconds, tries)
    workdir, history = place.workdir(), []
    while budget.left(result.tried):
        number = rng.choice(list(ASKED))
        process = place.start(place.train(workdir))
        time.sleep(place.seconds * rng.uniform(0.25, 1.0))
        sent, began = process.running(), time.monotonic()
        if sent:
            process.send(number)
        ended = process.wait()
        history.append(SIGNAL_NAMES[number])
        if sent and ASKED[number] is not None and ended.code == ASKED[number]:
            result.tried += 1
            result.count(f"saved after {SIGNAL_NAMES[number]}")
            result.measure("longest until the end, s", time.monotonic() - began)
            continue
        # Handlers are not there in the first moment, when nothing is there to be saved either.
        if sent and ended.code == -number and not (workdir / "metrics.jsonl").exists():
            continue
        place.seconds = min(place.seconds, ended.seconds)
        if ended.code != 0:
            result.broken.append(f"seed {seed}, {history}: {ended.told()}")
        elif difference := place.difference(workdir):
            result.broken.append(f"seed {seed}, {history}: {difference}")
        result.tried += 1
        result.count(f"went on after {SIGNAL_NAMES[number]}" if sent else "was through")
        workdir, history = place.workdir(), []
    return result


def expect_undisturbed_end(place, workdir, result, told):
    """The run goes on with nothing in its way, and ends as one that never had anything."""
    again = place.run(place.train(workdir))
    if again.code != 0 or place.difference(workdir):
        result.broken.append(f"{told}: {place.difference(workdir) or again.told()}")


def limits(place, seed, seconds, tries=None):
    """Little memory, few threads, few files, small files: said so, with the limit named, and nothing lost."""
    rng, result, budget = seeded(seed, "limits"), Result(), Budget(seconds, tries)
    kinds = {"memory": (resource.RLIMIT_AS, lambda: rng.randrange(100, 3000) << 20),
             "open files": (resource.RLIMIT_NOFILE, lambda: rng.randrange(4, 60)),
             "file size": (resource.RLIMIT_FSIZE, lambda: rng.randrange(0, 200_000)),
             "processor time": (resource.RLIMIT_CPU, lambda: rng.randrange(1, 3)),
             # RLIMIT_NPROC does not bind root: io_shim.cc refuses them.
             "threads": (None, lambda: f"{rng.randrange(60)} {rng.choice(['once', 'sticky'])}")}
    # What is said of what ran out inside XLA, which ends the process itself, as of what ran out elsewhere.
    named = {"memory": "memory", "threads": "thread"}
    while budget.left(result.tried):
        kind = rng.choice(list(kinds))
        limit, draw = kinds[kind]
        value = draw()
        workdir = place.workdir()
        if limit is None:
            ended = place.run(place.train(workdir), {"THREAD": value})
        else:
            hard = resource.getrlimit(limit)[1]
            ended = place.run(place.train(workdir), prepare=lambda: resource.setrlimit(limit, (value, hard)))
        result.tried += 1
        told = f"seed {seed}, {kind} limited to {value}"
        result.count(f"{kind}: " + ("enough" if ended.code == 0 else "said so"))
        if ended.code not in (0, 2, 3, 4, 75) or (ended.code == 4 and named.get(kind, "") not in ended.err):
            result.broken.append(f"{told}: {ended.told()}")
            continue
        expect_undisturbed_end(place, workdir, result, f"{told}; then without")
    return result


def slow(place, seed, seconds, tries=None):
    """Files that take their time, or never answer: a signal ends the run all the same."""
    rng, result, budget = seeded(seed, "slow"), Result(), Budget(seconds, tries)
    roots = f"{place.directory / 'train'}:{place.directory / 'val'}"
    calls = place.count(place.train(place.workdir()), ROOTS=roots)
    counted = place.workdir()
    own_calls = place.count(place.train(counted), ROOTS=counted)
    while budget.left(result.tried):
        result.tried += 1
        workdir = place.workdir()
        if rng.random() < 0.3:
            ended = place.run(place.train(workdir), {"ROOTS": place.directory, "DELAY": rng.randrange(100, 2000)})
            result.count("slow")
            if ended.code != 0 or place.difference(workdir):
                result.broken.append(f"seed {seed}, slow: {place.difference(workdir) or ended.told()}")
            continue
        own = rng.random() < 0.4  # a file of the run itself, which its end may need
        at = rng.randrange(own_calls if own else calls)
        process = place.start(place.train(workdir, "--stop-patience", "1"), {"ROOTS": workdir if own else roots, "HANG": at})
        time.sleep(place.seconds + rng.uniform(0, 0.5))
        running, began = process.running(), time.monotonic()
        if running:
            process.send(signal.SIGTERM)
        ended = process.wait(30)
        left = own and running and ended.code == 3 and "has taken" in ended.err
        result.count("hanging for ever: left, with its name" if left else "hanging" if running else "was through before it hung")
        if running:
            result.measure("hanging: longest until the end, s", time.monotonic() - began)
        # Before the handler is there, while files are listed, the signal ends the process itself: nothing is lost.
        # What hung may be a thread that read ahead, of a run that was through.
        if not left and ended.code not in ((0, 75, -signal.SIGTERM) if running else (0,)):
            result.broken.append(f"seed {seed}, call {at}{' of the run' if own else ''} hangs: {ended.told()}")
            continue
        expect_undisturbed_end(place, workdir, result, f"seed {seed}, call {at}{' of the run' if own else ''} hung; then")
    return result


def resident(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(place, seed, seconds, tries=None):
    """One long run with evaluations and saves: its memory stays level."""
    result = Result()
    process = place.start(place.train(place.workdir(), 'total="1000000000 steps"', 'log="1000 steps"', 'eval.val.every="500 steps"',
                                      'checkpoint={every="500 steps", keep=2}', "eval.val.predictions=false"))
    samples, budget, start = [], Budget(seconds), time.monotonic()
    while budget.left() and process.running():
        time.sleep(min(1.0, seconds / 20))
        if process.running():
            samples.append(resident(process.process.pid))
    process.send(signal.SIGTERM)
    ended = process.wait()
    result.tried = len(samples)
    quarter = max(1, len(samples) // 4)
    early, late = max(samples[quarter:2 * quarter], default=0), max(samples[-quarter:], default=0)
    result.measure("memory in the second quarter, MiB", early / (1 << 20))
    result.measure("in the last, MiB", late / (1 << 20))
    if ended.code != 75:
        result.broken.append(f"the long run: {ended.told()}")
    # A start fills caches and pools; a leak of a step's or a batch's memory would be far more than this in some minutes.
    if time.monotonic() - start >= 300 and late > 1.05 * early + (8 << 20):
        result.broken.append(f"memory grew from {early >> 20} to {late >> 20} MiB")
    return result
