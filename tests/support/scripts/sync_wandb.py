"""What `wandb sync` sends to W&B of an offline run, as JSON: sync_wandb.py RUN_DIRECTORY.

W&B's own program reads the run and speaks to a stand-in for its server on this machine, which takes down what it is told.
"""
import gzip
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading


class Told:
    """What the server was told: the run's fields, its files, and the streams as lines."""

    def __init__(self):
        self.lock = threading.Lock()
        self.run, self.files, self.streams = {}, {}, {}
        self.ends = {}

    def upsert(self, variables):
        self.run.update({key: value for key, value in variables.items() if value is not None})

    def stream(self, body):
        for name, chunk in body.get("files", {}).items():
            lines = self.streams.setdefault(name, [])
            offset = chunk["offset"]
            lines[offset:offset + len(chunk["content"])] = chunk["content"]
        self.ends.update({key: value for key, value in body.items() if key in ("complete", "exitcode", "preempting")})


def answer(told, request, base):
    """As W&B's GraphQL interface answers."""
    variables = request.get("variables") or {}
    operation = re.search(r"(?:query|mutation)\s+(\w+)", request["query"]).group(1)
    if operation == "UpsertBucket":
        told.upsert(variables)
        project = {"id": "p", "name": variables.get("project"), "entity": {"id": "e", "name": variables.get("entity") or "someone"}}
        bucket = {"id": "b", "name": variables.get("name"), "displayName": variables.get("displayName"), "description": "",
                  "config": variables.get("config"), "sweepName": None, "project": project, "historyLineCount": 0}
        return {"upsertBucket": {"bucket": bucket, "inserted": True}}
    if operation == "CreateRunFiles":
        files = [{"name": name, "uploadUrl": f"{base}/upload/{name}"} for name in variables["files"]]
        return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}
    if operation == "Viewer":
        return {"viewer": {"id": "u", "entity": "someone", "username": "someone", "flags": "{}", "teams": {"edges": []}}}
    if operation == "ServerFeaturesQuery":
        return {"serverInfo": {"features": []}}
    return {}


def handler(told):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def body(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

        def reply(self, value):
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.reply({})

        def do_PUT(self):
            body = self.body()
            with told.lock:
                told.files[self.path.removeprefix("/upload/")] = body
            self.reply({})

        def do_POST(self):
            body = json.loads(self.body())
            with told.lock:
                if self.path == "/graphql":
                    return self.reply({"data": answer(told, body, f"http://127.0.0.1:{self.server.server_address[1]}")})
                if self.path.endswith("/file_stream"):
                    told.stream(body)
            self.reply({})

    return Handler


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """wandb-core goes away with connections open."""


def files_of(told):
    """Texts as they are, pictures as rows of pixels."""
    import io

    import numpy
    import PIL.Image
    found = {}
    for name, body in told.files.items():
        if name.endswith(".png"):
            found[name] = numpy.asarray(PIL.Image.open(io.BytesIO(body))).tolist()
        else:
            found[name] = body.decode()
    return found


def main(directory):
    told = Told()
    server = Server(("127.0.0.1", 0), handler(told))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        environment = dict(os.environ, HOME=home, WANDB_DIR=home, WANDB_CACHE_DIR=home, WANDB_CONFIG_DIR=home,
                           WANDB_BASE_URL=f"http://127.0.0.1:{server.server_address[1]}", WANDB_API_KEY="0" * 40,
                           WANDB_ERROR_REPORTING="false", DO_NOT_TRACK="1", NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
        program = pathlib.Path(sys.executable).with_name("wandb")
        said = subprocess.run([program, "sync", "--include-synced", directory], env=environment, capture_output=True, text=True, check=True)
    with told.lock:
        history = [json.loads(line) for line in told.streams.get("wandb-history.jsonl", [])]
        summary = json.loads(told.streams.get("wandb-summary.json", ["{}"])[-1])
        return {"said": said.stderr + said.stdout, "run": told.run, "config": json.loads(told.run.get("config", "{}")), "history": history,
                "summary": summary, "output": told.streams.get("output.log", []), "ends": told.ends, "files": files_of(told)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
