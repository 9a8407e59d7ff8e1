"""What a real TensorBoard serves of a directory's projector and pictures, as JSON: serve_tensorboard.py DIRECTORY."""
import io
import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request

import numpy
import PIL.Image


def start(directory):
    """The server and its address, which it says when it answers."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", directory, "--load_fast", "false", "--host", "127.0.0.1", "--port", "0",
               "--reload_interval", "0"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return server, found.group(0)
    sys.exit("tensorboard ended")


def fetch(address, path, **query):
    url = f"{address}/data/plugin/{path}" + ("?" + urllib.parse.urlencode(query) if query else "")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url) as reply:
        return reply.read()


def loaded(address):
    """Waits until the runs are read, which goes on beside the answers."""
    while not json.loads(fetch(address, "images/tags")):
        pass


def size_of(picture):
    return list(PIL.Image.open(io.BytesIO(picture)).size)


def embeddings(address, run):
    found = {}
    for info in json.loads(fetch(address, "projector/info", run=run))["embeddings"]:
        name = info["tensorName"]
        values = numpy.frombuffer(fetch(address, "projector/tensor", run=run, name=name), dtype="<f4").reshape(info["tensorShape"])
        metadata = fetch(address, "projector/metadata", run=run, name=name).decode()
        sprite = PIL.Image.open(io.BytesIO(fetch(address, "projector/sprite_image", run=run, name=name)))
        found[name] = {"values": values.tolist(), "metadata": [line.split("\t") for line in metadata.splitlines()], "sprite": list(sprite.size),
                       "side": info["sprite"]["singleImageDim"]}
    return found


def pictures(address):
    found = {}
    for run, tags in json.loads(fetch(address, "images/tags")).items():
        for tag, info in tags.items():
            for sample in range(info["samples"]):
                for image in json.loads(fetch(address, "images/images", run=run, tag=tag, sample=sample)):
                    body = fetch(address, "images/individualImage?" + image["query"])
                    found.setdefault(run, {}).setdefault(tag, {}).setdefault(str(image["step"]), []).append(size_of(body))
    return found


def main(directory):
    server, address = start(directory)
    try:
        loaded(address)
        runs = json.loads(fetch(address, "projector/runs"))
        return {"projector": {run: embeddings(address, run) for run in runs}, "images": pictures(address)}
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
