"""Kills processes of a launch at random moments, and compares how the run ends with one that was never disturbed.

  python3 tests/campaign/processes.py [--processes 4] [--kills 50] [--seed 0]

Needs ./dev build, the digits (./dev demo) and etcd. Exit code 1 where the bytes differ or the run does not end.
"""
import argparse
import hashlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "bin/tessera"


def launch(workdir, processes, steps, restarts):
    command = [PROGRAM, "launch", f"local:{processes}", "--restarts", str(restarts), "--", "train", "recipes/digits.toml",
               f"total={steps} steps", "checkpoint.every=20 steps", "log=20 steps", "monitor.sinks=[]", "--no-report", "--workdir", workdir]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=open(f"{workdir}.log", "wb"))


def children(parent):
    """Processes of the launch that train, by their number."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(fields[1]) != parent:
            continue
        for setting in environment:
            if setting.startswith(b"TESSERA_PROCESS_ID="):
                found[int(setting.partition(b"=")[2])] = int(entry.name)
    return found


def weights(workdir, steps):
    path = pathlib.Path(workdir) / f"checkpoints/step_{steps:09}/state.safetensors"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = f"{folder}/whole", f"{folder}/killed"
        if launch(whole, options.processes, options.steps, 0).wait() != 0:
            sys.exit(open(f"{whole}.log").read())
        run = launch(killed, options.processes, options.steps, 10 * options.kills)
        kills = [0] * options.processes
        deaf = 0
        while run.poll() is None:
            time.sleep(draw.uniform(0.2, 6))
            there = children(run.pid)
            if sum(kills) == options.kills or len(there) < options.processes:
                continue
            victim = draw.randrange(options.processes)
            how = draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
            try:
                os.kill(there[victim], how)
            except ProcessLookupError:
                continue
            kills[victim] += 1
            deaf += how == signal.SIGSTOP
            print(f"{sum(kills)} of {options.kills}: process {victim} {'stopped' if how == signal.SIGSTOP else 'killed'}", flush=True)
        same = weights(killed, options.steps) == weights(whole, options.steps) is not None
        print(f"{sum(kills)} processes lost ({deaf} of them stopped; by number {kills}), exit code {run.returncode}: "
              f"{'the same bytes' if same else 'OTHER BYTES'}")
        if not same or run.returncode != 0:
            sys.exit(open(f"{killed}.log").read())


if __name__ == "__main__":
    main()
