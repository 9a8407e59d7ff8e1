"""Servers of S3 (moto) and of Google Cloud Storage on free ports, behind a proxy that fails on purpose: serve_buckets.py FOLDER.

Puts the files of FOLDER into the bucket `data` of both. Prints as JSON the environment in which a program finds the proxies and may
use them. Then each line of stdin is JSON and answered with one line:

- {"faults": [KIND, ...], "every": N, "of": ["reads", "writes", "lists"]} makes every Nth request of these sorts fail, each time in
  the next of these ways, and {"delay": SECONDS} makes every answer wait. Reads are GET and HEAD of an object, writes PUT, POST and
  DELETE. It is answered with the number of faults since the line before.
- {"copy": "s3" or "gs", "prefix": PREFIX, "to": FOLDER} writes the objects below PREFIX into FOLDER, and {"remove": …, "prefix": …}
  removes them, past the proxy; they are answered with the number of objects.
- {"serve": FOLDER} puts the files of FOLDER in the place of all objects of both, and is answered with how many it put there.

It ends with stdin, so that it never outlives whoever started it.
"""
import functools
import http.client
import json
import logging
import os
import pathlib
import queue
import socket
import struct
import sys
import threading
import time
import traceback
import urllib.request
from http import server

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true",
               "AWS_REGION": "us-east-1"}
os.environ.update(CREDENTIALS)

# Status, S3's code, and what Google says.
REFUSALS = {
    "internal error": (500, "InternalError", "backendError"),
    "bad gateway": (502, "BadGateway", "backendError"),
    "slow down": (503, "SlowDown", "backendError"),
    "service unavailable": (503, "ServiceUnavailable", "backendError"),
    "gateway timeout": (504, "GatewayTimeout", "backendError"),
    "too many requests": (429, "TooManyRequests", "rateLimitExceeded"),
    "request timeout": (408, "RequestTimeout", "requestTimeout"),
    "throttled": (400, "Throttling", "userRateLimitExceeded"),
    "expired": (400, "ExpiredToken", "authError"),
    "denied": (403, "AccessDenied", "forbidden"),
    "unknown key": (403, "InvalidAccessKeyId", "forbidden"),
    "wrong secret": (403, "SignatureDoesNotMatch", "forbidden"),
    "full": (403, "QuotaExceeded", "quotaExceeded"),
    "no space": (507, "InsufficientStorage", "insufficientStorage"),
    "elsewhere": (301, "PermanentRedirect", "movedPermanently"),
}


class Plan:
    """What is to fail, shared by the threads of a proxy."""

    def __init__(self):
        self.lock = threading.Lock()
        self.kinds, self.every, self.sorts, self.seen, self.made, self.delay = [], 1, [], 0, 0, 0.0

    def set(self, wanted):
        with self.lock:
            made, self.made, self.seen = self.made, 0, 0
            self.kinds, self.every = wanted.get("faults", []), wanted.get("every", 1)
            self.sorts, self.delay = wanted.get("of", ["reads"]), wanted.get("delay", 0.0)
            return made

    def next(self, sort):
        with self.lock:
            if sort not in self.sorts:
                return None
            self.seen += 1
            if not self.kinds or self.seen % self.every:
                return None
            self.made += 1
            return self.kinds[(self.made - 1) % len(self.kinds)]


class Proxy(server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, plan, port, google, *rest):
        self.plan, self.port, self.google = plan, port, google
        super().__init__(*rest)

    def log_message(self, *_):
        pass

    def refuse(self, status, code, reason):
        if self.google:
            status = 401 if reason == "authError" else status
            error = {"code": status, "message": f"as planned: {reason}", "errors": [{"reason": reason}]}
            body = json.dumps({"error": error}).encode()
        else:
            body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as planned</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if self.google else "application/xml")
        self.send_header("Content-Length", str(len(body)))
        if status == 503:
            self.send_header("Retry-After", "0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def reset(self):
        # Closing at once with what is unread sends RST.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def sent(self):
        """The body; of one in chunks what they hold."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def sort(self):
        if self.command not in ("GET", "HEAD"):
            return "writes"
        lists = self.path.split("?")[0].endswith("/o") if self.google else "list-type" in self.path
        return "lists" if lists else "reads"

    def answer(self):
        sent = self.sent()
        if self.plan.delay:
            time.sleep(self.plan.delay)
        fault = self.plan.next(self.sort())
        if fault in REFUSALS:
            return self.refuse(*REFUSALS[fault])
        if fault == "reset":
            return self.reset()
        if fault == "close":
            self.close_connection = True
            return None
        if fault == "garbage":
            self.wfile.write(b"\x00\x01 this is no HTTP\r\n\r\n")
            self.close_connection = True
            return None
        if fault == "corrupt" and sent:  # the first byte of a file of ours is never this one
            at = sent.find(b"\r\n") + 2 if "aws-chunked" in self.headers.get("Content-Encoding", "") else 0
            sent = sent[:at] + b"\xff" + sent[at + 1:]
        upstream = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "transfer-encoding"}
        upstream.request(self.command, self.path, sent, headers | {"Content-Length": str(len(sent))})
        reply = upstream.getresponse()
        body = reply.read()
        upstream.close()
        if fault == "reset after":
            return self.reset()
        return self.forward(reply, body, fault)

    def forward(self, reply, body, fault):
        self.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "server", "date", "content-length"):
                self.send_header(name, value)
        whole = int(reply.getheader("Content-Length") or len(body)) if self.command == "HEAD" else len(body)
        shown = {"long length": whole + 100, "short length": whole // 2}.get(fault if self.command == "GET" else None, whole)
        self.send_header("Content-Length", str(shown))
        self.end_headers()
        if self.command == "HEAD":
            return None
        half = len(body) // 2
        if fault in ("truncated", "long length", "reset in body"):
            self.wfile.write(body if fault == "long length" else body[:half])
            self.wfile.flush()
            self.close_connection = True
            return self.reset() if fault == "reset in body" else None
        if fault == "drip":
            for i in range(0, len(body), max(1, len(body) // 5)):
                self.wfile.write(body[i:i + max(1, len(body) // 5)])
                self.wfile.flush()
                time.sleep(0.02)
            return None
        if fault == "late":
            time.sleep(0.3)
        self.wfile.write(body[:shown] if fault == "short length" else body)
        return None

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer


class QuietServer(server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass  # who reads broke off, or the fault was one


class AnnouncedServer(QuietServer):
    """Tells its port, which the system chose."""
    ports = queue.SimpleQueue()

    def __init__(self, *rest):
        super().__init__(*rest)
        AnnouncedServer.ports.put(self.server_port)


def start_proxy(port, google=False):
    plan = Plan()
    proxy = QuietServer(("127.0.0.1", 0), functools.partial(Proxy, plan, port, google))
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    return plan, f"http://127.0.0.1:{proxy.server_port}"


class S3Objects:
    def __init__(self, client):
        self.client = client

    def names(self, prefix):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="data", Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def read(self, name):
        return self.client.get_object(Bucket="data", Key=name)["Body"].read()

    def write(self, name, content):
        self.client.put_object(Bucket="data", Key=name, Body=content)

    def remove(self, name):
        self.client.delete_object(Bucket="data", Key=name)


class GcsObjects:
    def __init__(self, address):
        self.address, self.upload = f"{address}/storage/v1/b/data/o", f"{address}/upload/storage/v1/b/data/o?uploadType=media"

    def ask(self, method, rest):
        with urllib.request.urlopen(urllib.request.Request(self.address + rest, method=method)) as reply:
            return reply.read()

    def names(self, prefix):
        return [entry["name"] for entry in json.loads(self.ask("GET", "?prefix=" + urllib.request.quote(prefix, safe=""))).get("items", [])]

    def read(self, name):
        return self.ask("GET", f"/{urllib.request.quote(name, safe='')}?alt=media")

    def write(self, name, content):
        url = f"{self.upload}&name={urllib.request.quote(name, safe='')}"
        urllib.request.urlopen(urllib.request.Request(url, content, {"Content-Type": "application/octet-stream"})).close()

    def remove(self, name):
        self.ask("DELETE", "/" + urllib.request.quote(name, safe=""))


class Server:
    """One of the two, with the plan of its proxy."""

    def __init__(self, proxy, objects):
        (self.plan, self.address), self.objects = proxy, objects

    def copy(self, prefix, folder):
        names = [name for name in self.objects.names(prefix) if not name.endswith("/")]  # Arrow's S3 marks some folders
        for name in names:
            path = pathlib.Path(folder, name.removeprefix(prefix))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.objects.read(name))
        return len(names)

    def remove(self, prefix):
        names = self.objects.names(prefix)
        for name in names:
            self.objects.remove(name)
        return len(names)

    def serve(self, folder):
        self.remove("")
        files = [path for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()]
        for path in files:
            self.objects.write(str(path.relative_to(folder)), path.read_bytes())
        return len(files)


def start_s3():
    import boto3
    from moto.moto_server.werkzeug_app import create_backend_app
    from werkzeug.serving import make_server
    # Of S3 alone. moto's own server looks for the service of every request, through the folders of all that it has.
    moto = make_server("127.0.0.1", 0, create_backend_app("s3"), threaded=True)
    threading.Thread(target=moto.serve_forever, daemon=True).start()
    port = moto.server_port
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1")
    client.create_bucket(Bucket="data")
    return Server(start_proxy(port), S3Objects(client))


def start_gcs():
    from gcp_storage_emulator import server as gcs
    # As it comes it answers one request at a time, and two clients block each other.
    gcs.server.HTTPServer = AnnouncedServer
    emulator = gcs.create_server("127.0.0.1", 0, in_memory=True, default_bucket="data")
    threading.Thread(target=emulator.start, daemon=True).start()
    port = AnnouncedServer.ports.get()
    address = f"http://127.0.0.1:{port}"
    return Server(start_proxy(port, google=True), GcsObjects(address))


def obey(wanted, servers):
    if "copy" in wanted:
        return servers[wanted["copy"]].copy(wanted["prefix"], wanted["to"])
    if "remove" in wanted:
        return servers[wanted["remove"]].remove(wanted["prefix"])
    if "serve" in wanted:
        return sum(one.serve(wanted["serve"]) for one in servers.values())
    return sum(one.plan.set(wanted) for one in servers.values())


def main():
    logging.disable(logging.CRITICAL)
    servers = {"s3": start_s3(), "gs": start_gcs()}
    for one in servers.values():
        one.serve(sys.argv[1])
    addresses = {"AWS_ENDPOINT_URL": servers["s3"].address, "STORAGE_EMULATOR_HOST": servers["gs"].address}
    print(json.dumps(CREDENTIALS | addresses), flush=True)
    for line in sys.stdin:
        print(obey(json.loads(line), servers), flush=True)
    os._exit(0)


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # with the servers' threads
