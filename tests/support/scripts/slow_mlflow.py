"""A proxy before MLflow's server that keeps the first request with points for a while: slow_mlflow.py SERVER SECONDS.

Who sent it may be gone by then: it is passed on all the same, as a busy server would come to it. Prints its address, then
`done` once that request is, and ends with stdin.
"""
import http.server
import json
import sys
import threading
import time
import urllib.error
import urllib.request


class Proxy(http.server.BaseHTTPRequestHandler):
    server_address = ""
    seconds = 0.0
    first = threading.Lock()  # taken by the first request with points

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
        kept = body and json.loads(body).get("metrics") and Proxy.first.acquire(blocking=False)
        if kept:
            time.sleep(Proxy.seconds)
        request = urllib.request.Request(Proxy.server_address + self.path, body, {"Content-Type": "application/json"}, method=self.command)
        try:
            reply = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            reply = error
        with reply:
            status, text = reply.status, reply.read()
        if kept:
            print("done", flush=True)
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except OSError:
            pass  # nobody waits for it

    do_GET = do_POST = pass_on

    def log_message(self, *args):
        pass


def main(server, seconds):
    Proxy.server_address, Proxy.seconds = server, float(seconds)
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{proxy.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
