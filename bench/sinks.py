"""What seeing a run costs it: the digits with all sinks, and with the page and its readers, against the same without any.

All sides train at the same time and take turns: one trains for some seconds while the others are stopped (SIGSTOP). So whatever else
slows the machine, or the processor's clock, does so to all of them alike, and many short turns tell differences that whole runs do not.
Each round starts all sides anew: where a process finds its memory makes its steps a few per cent faster or slower for as long as it lives.
Readers and the tracker have a core of their own, as readers of a page sit at other machines: what is measured is what it costs to answer.

As a program it is the readers: sinks.py PORT TOKEN COUNT, each of which does what a browser with the page open does.
"""
import asyncio
import http.server
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

STEPS_LEFT_OUT = 100  # the first of a run
TURN = 5.0            # seconds
TURNS = 3             # of each side in a round
TOKEN = "readers-of-the-benchmark"
# More lines than the recipe writes: the first of a turn began before it, and does not count.
SETTINGS = ["total=1000000 steps", "log=50 steps", "checkpoint.every=1000000 steps", "monitor.profile=none", "--no-report"]
SIDES = {
    "no sinks": [],
    "all sinks": ["tensorboard", "wandb", "mlflow"],
    "all sinks, 50 readers of the page": ["tensorboard", "wandb", "mlflow"],
    "no sinks, again": [],  # what two runs of the same differ by
}
BASE = "no sinks"
MONITORING = ("tensorboard", "wandb", "mlflow", "live page")  # threads


class Tracker(http.server.BaseHTTPRequestHandler):
    """Takes what MLflow's server takes, and does nothing with it: its own work would be on the cores that are measured."""
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        run = {"info": {"run_id": "0" * 32, "experiment_id": "0", "status": "RUNNING"}, "data": {}}
        body = json.dumps({"run": run, "experiment": {"experiment_id": "0"}, "metrics": []}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *args):
        pass


def start_tracker():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tracker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def processor_times(pid):
    """Seconds by thread: {(number, name): seconds}."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        try:
            name, fields = (task / "comm").read_text().strip(), (task / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended
        found[task.name, name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def start_readers(out, cores, count=50):
    """Once the page's address is said."""
    end = time.monotonic() + 60
    while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/", out.read_text())):
        if time.monotonic() > end:
            raise RuntimeError("the page was never served")
        time.sleep(0.02)
    command = [sys.executable, __file__, found.group(1), TOKEN, str(count)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                            preexec_fn=lambda: os.sched_setaffinity(0, cores))


class Side:
    """A run that trains while it has its turn, and is stopped at first."""

    def __init__(self, name, command, environment, cores, others, cwd, folder):
        self.name, self.readers, self.read, self.output = name, None, 0, folder / f"out-{time.monotonic_ns()}"
        self.metrics = self.output.with_suffix(".run") / "metrics.jsonl"
        page = "readers" in name
        words = [*command, *SETTINGS, f"monitor.sinks={json.dumps(SIDES[name])}", "--workdir", str(self.metrics.parent), *(["--board=0"] if page else [])]
        with open(self.output, "w") as file:
            self.child = subprocess.Popen(words, cwd=cwd, env=environment | {"TESSERA_BOARD_TOKEN": TOKEN}, stdin=subprocess.DEVNULL, stdout=file,
                                          stderr=file, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        try:
            if page:
                self.readers = start_readers(self.output, others)
            while not any(row["step"] > STEPS_LEFT_OUT for row in self.new_rows()):
                self.expect_alive()
                time.sleep(0.1)
            self.child.send_signal(signal.SIGSTOP)
        except BaseException:
            self.end()
            raise

    def expect_alive(self):
        if self.child.poll() is not None:
            raise RuntimeError(f"exit {self.child.returncode}: {(self.output.read_text().strip() or 'no output').splitlines()[-1][:120]}")

    def new_rows(self):
        """Whole lines that came since the last call."""
        if not self.metrics.exists():
            return []
        with open(self.metrics, "rb") as file:
            file.seek(self.read)
            text = file.read()
        text = text[:text.rfind(b"\n") + 1]
        self.read += len(text)
        return [json.loads(line) for line in text.splitlines()]

    def turn(self):
        """Seconds of a step, and the processor's seconds of all threads and of those that monitor."""
        before = processor_times(self.child.pid)
        self.new_rows()
        self.child.send_signal(signal.SIGCONT)
        time.sleep(TURN)
        self.child.send_signal(signal.SIGSTOP)
        self.expect_alive()
        times = [32 / row["img/sec"] for row in self.new_rows()[1:] if row.get("img/sec")]
        if not times:
            raise RuntimeError(f"{TURN:g} seconds are too few for two lines of metrics")
        used = {thread: seconds - before.get(thread, 0) for thread, seconds in processor_times(self.child.pid).items()}
        return {"step": statistics.mean(times), "cpu": sum(used.values()),
                "monitoring": sum(seconds for (_, name), seconds in used.items() if name in MONITORING)}

    def end(self):
        """What its readers were answered."""
        answers = 0
        if self.readers:
            self.readers.send_signal(signal.SIGTERM)
            answers = int(self.readers.communicate()[0].strip() or 0)
        self.child.kill()
        self.child.wait()
        return answers


def take_turns(command, environment, cores, others, cwd, folder, rounds):
    """{side: [the mean turn of each round]}, and what the readers were answered. Runs have `cores`, whoever reads has `others`."""
    results, answers = {name: [] for name in SIDES}, 0
    for number in range(rounds):
        sides = []
        try:
            for name in SIDES:
                sides.append(Side(name, command, environment, cores, others, cwd, folder))
            turns = {name: [] for name in SIDES}
            for turn in range(TURNS):
                for side in sides if (number + turn) % 2 == 0 else sides[::-1]:
                    turns[side.name].append(side.turn())
            for name, taken in turns.items():
                results[name].append({key: statistics.mean(turn[key] for turn in taken) for key in taken[0]})
        finally:
            for side in sides:
                answers += side.end()
    if answers < 50:
        raise RuntimeError(f"the readers had {answers} answers")
    return results, answers


def compare(rounds, name):
    """The median over rounds of how much longer than the base's a side's steps take, in per cent, and its standard error: that of a
    mean from medians of distances, so that single turns do not decide it, times sqrt(pi / 2)."""
    more = [100 * (a["step"] / b["step"] - 1) for a, b in zip(rounds[name], rounds[BASE])]
    middle = statistics.median(more)
    spread = 1.4826 * statistics.median(abs(one - middle) for one in more)
    return middle, 1.2533 * spread / len(more) ** 0.5


def share_of_monitoring(turns):
    """Of the processor's time, in per cent."""
    return 100 * sum(turn["monitoring"] for turn in turns) / sum(turn["cpu"] for turn in turns)


# ---- the readers ----
class Connection:
    """Requests one after the other over the same connection, as browsers send them."""

    def __init__(self, port, token):
        self.port, self.head, self.streams = port, f"Host: localhost:{port}\r\nAuthorization: Bearer {token}\r\n\r\n", None

    async def send(self, path):
        """The headers of the answer."""
        if not self.streams:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        writer.write(f"GET {path} HTTP/1.1\r\n{self.head}".encode())
        return await reader.readuntil(b"\r\n\r\n")

    async def ask(self, path):
        head = await self.send(path)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{path}: {head.decode()}")
        return await self.streams[0].readexactly(int(re.search(rb"(?i)content-length: (\d+)", head).group(1)))


async def read_page(port, token, count):
    events, requests = Connection(port, token), Connection(port, token)
    await events.send("/api/events")
    after, asked = -1, 0.0
    while line := await events.streams[0].readline():
        if line.strip() != b"event: change" or time.monotonic() - asked < 1:  # as board.js
            continue
        asked = time.monotonic()
        await requests.ask("/api/runs")
        metrics = json.loads(await requests.ask(f"/api/metrics?max=1500&after={after}"))["metrics"]
        after = max([after, *(points["step"][-1] for points in metrics.values())])
        await requests.ask("/api/log")
        count["answers"] += 3


async def be_readers(port, token, number):
    count, stop = {"answers": 0}, asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    tasks = [asyncio.create_task(read_page(port, token, count)) for _ in range(number)]
    await stop.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(count["answers"])


if __name__ == "__main__":
    asyncio.run(be_readers(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
