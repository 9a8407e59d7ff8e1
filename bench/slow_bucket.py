"""A server of S3 for measurements: slow_bucket.py FOLDER [--delay SECONDS] [--port N]. No credentials; any bucket's name.

Serves the files of FOLDER from memory: GET with ranges, HEAD and ListObjectsV2. Each answer waits for --delay, as one from another
building does, and costs this machine nearly nothing meanwhile; so what is measured is how well a client hides that. It prints its
address, and at the end (SIGTERM) how many requests it answered.
"""
import argparse
import asyncio
import pathlib
import signal
import urllib.parse
from xml.sax.saxutils import escape

PAGE = 1000


def listing(files, query):
    prefix = query.get("prefix", [""])[0]
    after = query.get("continuation-token", query.get("start-after", [""]))[0]
    delimiter = query.get("delimiter", [""])[0]
    found, folders = [], {}
    for name in sorted(files):
        if not name.startswith(prefix) or name <= after:
            continue
        rest = name[len(prefix):]
        if delimiter and delimiter in rest:
            folders[prefix + rest.split(delimiter)[0] + delimiter] = True
            continue
        found.append(name)
        if len(found) == PAGE:
            break
    more = len(found) == PAGE
    parts = ["<?xml version='1.0' encoding='UTF-8'?><ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>",
             f"<IsTruncated>{str(more).lower()}</IsTruncated><KeyCount>{len(found)}</KeyCount>"]
    if more:
        parts.append(f"<NextContinuationToken>{escape(found[-1])}</NextContinuationToken>")
    for name in found:
        parts.append(f"<Contents><Key>{escape(name)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                     f"<ETag>\"{len(files[name]):x}\"</ETag><Size>{len(files[name])}</Size></Contents>")
    for folder in folders:
        parts.append(f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>")
    parts.append("</ListBucketResult>")
    return "".join(parts).encode()


class Connection(asyncio.Protocol):
    answered = 0

    def __init__(self, files, delay):
        self.files, self.delay, self.buffer = files, delay, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head, self.buffer = self.buffer[:end].decode("latin-1"), self.buffer[end + 4:]
            asyncio.get_running_loop().call_later(self.delay, self.transport.write, self.answer(head))

    def answer(self, head):
        Connection.answered += 1
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        url = urllib.parse.urlsplit(target)
        query = urllib.parse.parse_qs(url.query, keep_blank_values=True)
        if "list-type" in query:
            body, extra, status = listing(self.files, query), "Content-Type: application/xml\r\n", "200 OK"
        else:
            key = urllib.parse.unquote(url.path).lstrip("/").partition("/")[2]
            whole = self.files.get(key)
            if whole is None:
                return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
            body, status = whole, "200 OK"
            extra = f"ETag: \"{len(whole):x}\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nAccept-Ranges: bytes\r\n"
            if "range" in headers:
                low, high = headers["range"].removeprefix("bytes=").split("-")
                low, high = int(low), min(int(high or len(whole) - 1), len(whole) - 1)
                body, status = whole[low:high + 1], "206 Partial Content"
                extra += f"Content-Range: bytes {low}-{high}/{len(whole)}\r\n"
        answer = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode("latin-1")
        return answer if method == "HEAD" else answer + body


async def serve(arguments):
    root = pathlib.Path(arguments.folder)
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(files, arguments.delay), "127.0.0.1", arguments.port, backlog=1024)
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await stopped.wait()
    print(f"{Connection.answered} requests", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--delay", type=float, default=0.02)
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
