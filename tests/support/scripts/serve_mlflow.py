"""MLflow's server, which cannot be reached while stdin says so: serve_mlflow.py FOLDER.

Prints its address once it answers. Then each line of stdin, `stop` or `start`, is done and answered with a line. The server itself
goes on, because it takes seconds to start: its clients speak to a port that is closed meanwhile, and whose connections are cut. It
ends with stdin, so that it never outlives whoever started it.
"""
import asyncio
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


class Port:
    """Passes bytes on between its clients and the server, while it is open."""

    def __init__(self, server):
        self.server, self.number, self.listener, self.writers = server, 0, None, set()

    async def open(self):
        self.listener = await asyncio.start_server(self.connect, "127.0.0.1", self.number)
        self.number = self.listener.sockets[0].getsockname()[1]

    def close(self):
        self.listener.close()
        for writer in self.writers:
            writer.transport.abort()

    async def connect(self, reader, writer):
        self.writers.add(writer)
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.server)
        self.writers.add(server_writer)
        if writer.is_closing():  # it was cut off meanwhile
            server_writer.transport.abort()
        await asyncio.gather(self.copy(reader, server_writer), self.copy(server_reader, writer))
        self.writers -= {writer, server_writer}

    @staticmethod
    async def copy(reader, writer):
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()


async def obey(port):
    await port.open()
    print(f"http://127.0.0.1:{port.number}", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        if line.strip() == "start":
            await port.open()
        else:
            port.close()
        print("done", flush=True)


def main(folder):
    port = free_port()
    server = start(folder, port)
    try:
        asyncio.run(obey(Port(port)))
    finally:
        stop(server)


if __name__ == "__main__":
    main(sys.argv[1])
