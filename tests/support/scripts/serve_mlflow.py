"""MLflow's server on a free port, which goes down and up as stdin says: serve_mlflow.py FOLDER.

Prints its address once it answers. Then each line of stdin, `stop` or `start`, is done and answered with a line. It ends with
stdin, so that it never outlives whoever started it.
"""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(address):
    try:
        with urllib.request.urlopen(address + "/health", timeout=5) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


def start(folder, port):
    address = f"http://127.0.0.1:{port}"
    command = [pathlib.Path(sys.executable).with_name("mlflow"), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
               "--backend-store-uri", f"sqlite:///{folder}/mlflow.sqlite", "--artifacts-destination", f"{folder}/artifacts"]
    environment = dict(os.environ, HOME=folder, MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="1", MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false",
                       PATH=str(pathlib.Path(sys.executable).parent) + os.pathsep + os.environ["PATH"])
    with open(folder + "/server.log", "ab") as log:
        server = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                                  start_new_session=True)
    while not answers(address):
        if server.poll() is not None:
            sys.exit("mlflow server ended: " + open(folder + "/server.log").read())
        time.sleep(0.1)
    return server


def stop(server):
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def main(folder):
    port = free_port()
    server = start(folder, port)
    try:
        print(f"http://127.0.0.1:{port}", flush=True)
        for line in sys.stdin:
            stop(server)
            if line.strip() == "start":
                server = start(folder, port)
            print("done", flush=True)
    finally:
        stop(server)


if __name__ == "__main__":
    main(sys.argv[1])
