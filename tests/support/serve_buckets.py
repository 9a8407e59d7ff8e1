"""Servers of S3 (moto) and of Google Cloud Storage on free ports, behind a proxy that fails on purpose: serve_buckets.py FOLDER.

Puts the files of FOLDER into the bucket `data` of both. Prints {"s3": URL, "gs": URL}, the addresses of the proxies. Then each
line of stdin is JSON and answered with one line: {"faults": [KIND, ...], "every": N} makes every Nth GET or HEAD of an object
fail, each time in the next of these ways, or, with "writes": true, every Nth PUT, POST or DELETE; it is answered with the number of
faults since the line before. {"delay": SECONDS}
makes every answer wait. It ends with stdin, so that it never outlives whoever started it.
"""
import functools
import http.client
import json
import logging
import os
import pathlib
import socket
import struct
import sys
import threading
import time
import urllib.request
from http import server

os.environ.update(AWS_ACCESS_KEY_ID="testing", AWS_SECRET_ACCESS_KEY="testing", AWS_EC2_METADATA_DISABLED="true")

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
        self.kinds, self.every, self.writes, self.seen, self.made, self.delay = [], 1, False, 0, 0, 0.0

    def set(self, wanted):
        with self.lock:
            made, self.made, self.seen = self.made, 0, 0
            self.kinds, self.every = wanted.get("faults", []), wanted.get("every", 1)
            self.writes, self.delay = wanted.get("writes", False), wanted.get("delay", 0.0)
            return made

    def next(self):
        with self.lock:
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

    def answer(self):
        sent = self.sent()
        if self.plan.delay:
            time.sleep(self.plan.delay)
        reads = self.command in ("GET", "HEAD")
        concerned = not reads if self.plan.writes else reads and "list-type" not in self.path
        fault = self.plan.next() if concerned else None
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


def start_proxy(port, google=False):
    plan = Plan()
    proxy = QuietServer(("127.0.0.1", 0), functools.partial(Proxy, plan, port, google))
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    return plan, f"http://127.0.0.1:{proxy.server_port}"


def start_s3(files):
    import boto3
    from moto.server import ThreadedMotoServer
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    port = moto.get_host_and_port()[1]
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1")
    client.create_bucket(Bucket="data")
    for name, content in files.items():
        client.put_object(Bucket="data", Key=name, Body=content)
    return start_proxy(port)


def start_gcs(files):
    from gcp_storage_emulator import server as gcs
    # As it comes it answers one request at a time, and two clients block each other.
    gcs.server.HTTPServer = QuietServer
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    emulator = gcs.create_server("127.0.0.1", port, in_memory=True, default_bucket="data")
    threading.Thread(target=emulator.start, daemon=True).start()
    address = f"http://127.0.0.1:{port}"
    for name, content in files.items():
        url = f"{address}/upload/storage/v1/b/data/o?uploadType=media&name={urllib.request.quote(name, safe='')}"
        for attempt in range(100):
            try:
                urllib.request.urlopen(urllib.request.Request(url, content, {"Content-Type": "application/octet-stream"})).close()
                break
            except OSError:
                if attempt == 99:
                    raise
                time.sleep(0.05)
    return start_proxy(port, google=True)


def main():
    logging.disable(logging.CRITICAL)
    root = pathlib.Path(sys.argv[1])
    files = {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    s3, s3_address = start_s3(files)
    gcs, gcs_address = start_gcs(files)
    print(json.dumps({"s3": s3_address, "gs": gcs_address}), flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        print(s3.set(wanted) + gcs.set(wanted), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
