"""What seeing a run costs it: the digits with all sinks, and with the page and its readers, against the same without any.

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
TOKEN = "readers-of-the-benchmark"
SETTINGS = ["total=20 epochs", "checkpoint.every=100 %", "monitor.profile=none", "--no-report"]
SIDES = {
    "no sinks": [],
    "all sinks": ["tensorboard", "wandb", "mlflow"],
    "all sinks, 50 readers of the page": ["tensorboard", "wandb", "mlflow"],
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


def share_of_monitoring(times):
    monitoring = sum(seconds for (_, name), seconds in times.items() if name in MONITORING)
    return monitoring / sum(times.values())


def step_times(workdir):
    """Seconds of a step, of each line of metrics.jsonl after the first."""
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [32 / row["img/sec"] for row in rows if row["step"] > STEPS_LEFT_OUT and row.get("img/sec")]


def start_readers(out, count=50):
    """Once the page's address is said."""
    end = time.monotonic() + 60
    while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/", out.read_text())):
        if time.monotonic() > end:
            raise RuntimeError("the page was never served")
        time.sleep(0.02)
    command = ["nice", "-n", "19", sys.executable, __file__, found.group(1), TOKEN, str(count)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def train(command, environment, cores, cwd, folder, side):
    """A run: its mean and median seconds of a step, its processor time and the share of it that is monitoring's; or None and why not."""
    page = "readers" in side
    workdir, out = folder / f"run-{time.monotonic_ns()}", folder / "out"
    words = [*command, *SETTINGS, f"monitor.sinks={json.dumps(SIDES[side])}", "--workdir", str(workdir), *(["--board=0"] if page else [])]
    readers = None
    with open(out, "w") as file:
        child = subprocess.Popen(words, cwd=cwd, env=environment | {"TESSERA_BOARD_TOKEN": TOKEN}, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                 preexec_fn=lambda: os.sched_setaffinity(0, cores))
        try:
            if page:
                readers = start_readers(out)
            threads = {}
            while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                threads.update(processor_times(child.pid))
                time.sleep(0.1)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        finally:
            if child.returncode is None:
                child.kill()
                child.wait()
            answers = 0
            if readers:
                readers.send_signal(signal.SIGTERM)
                answers = int(readers.communicate()[0].strip() or 0)
    if child.returncode:
        return None, f"exit {child.returncode}: {(out.read_text().strip() or 'no output').splitlines()[-1][:120]}"
    if page and answers < 50:
        return None, f"the readers had {answers} answers"
    times = step_times(workdir)
    return {"mean": statistics.mean(times), "median": statistics.median(times), "cpu": usage.ru_utime + usage.ru_stime, "answers": answers,
            "monitoring": share_of_monitoring(threads)}, ""


def compare(rounds, name, value):
    """The median over rounds of how much more than the base a side takes, in per cent, and the standard error of their mean."""
    more = [100 * (a[value] / b[value] - 1) for a, b in zip(rounds[name], rounds[BASE])]
    return statistics.median(more), statistics.stdev(more) / len(more) ** 0.5 if len(more) > 1 else float("nan")


# ---- the readers ----
async def ask(port, token, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode())
    text = await reader.read()
    writer.close()
    return text


async def read_page(port, token, count):
    head = f"GET /api/events HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode())
    after, asked = -1, 0.0
    while line := await reader.readline():
        if line.strip() != b"event: change" or time.monotonic() - asked < 1:  # as board.js
            continue
        asked = time.monotonic()
        count["answers"] += (await ask(port, token, "/api/runs")).startswith(b"HTTP/1.1 200")
        text = (await ask(port, token, f"/api/metrics?max=1500&after={after}")).split(b"\r\n\r\n", 1)[1]
        metrics = json.loads(text)["metrics"]
        count["answers"] += 1
        after = max([after, *(points["step"][-1] for points in metrics.values())])
        await ask(port, token, "/api/log")
        count["answers"] += 1


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
