"""What headless Chromium makes of pages: browse.py REQUEST, a JSON object, gives a JSON list.

REQUEST = {"visits": [{"url": …, "width": 1100, "height": 900, "dark": false, "steps": [STEP, …]}, …]}
STEP    = {"wait": EXPRESSION}    until the page's script gives something true, 60 s at most
          {"run": EXPRESSION}     its value, awaited where it is a promise, is one of the visit's "values"
          {"shot": FILE}          a picture of what the window shows
Each visit of the answer: {"values": […], "errors": [what the page's console called an error, or a request to elsewhere]}.

It speaks the DevTools protocol (https://chromedevtools.github.io/devtools-protocol/) over two pipes, as --remote-debugging-pipe says. The
browser finds no name but this machine's: a page that needs another host is told so in "errors".
"""
import base64
import json
import os
import subprocess
import sys
import tempfile
import time

BROWSER = "chromium-headless-shell"


class Browser:
    def __init__(self, profile):
        to_browser, from_us = os.pipe()
        to_us, from_browser = os.pipe()

        def take_pipes():  # descriptors 3 and 4 of the child
            high = [os.dup(to_browser), os.dup(from_browser)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        flags = ["--headless", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run", f"--user-data-dir={profile}",
                 "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost", "--no-proxy-server"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")
        self.log = open(os.path.join(profile, "log"), "wb")
        self.child = subprocess.Popen([BROWSER, *flags, "about:blank"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log,
                                      close_fds=False, preexec_fn=take_pipes)
        os.close(to_browser)
        os.close(from_browser)
        self.to, self.of, self.rest, self.last, self.events = from_us, to_us, b"", 0, []

    def close(self):
        self.child.kill()
        self.child.wait()
        self.log.close()

    def message(self):
        while b"\0" not in self.rest:
            piece = os.read(self.of, 1 << 20)
            if not piece:
                sys.exit("the browser ended: " + open(self.log.name, errors="replace").read()[-2000:])
            self.rest += piece
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.last += 1
        request = {"id": self.last, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        rest = json.dumps(request).encode() + b"\0"
        while rest:
            rest = rest[os.write(self.to, rest):]
        while True:
            answer = self.message()
            if answer.get("id") == self.last:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)


class Page:
    def __init__(self, browser, visit):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        width = visit.get("width", 1100)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=visit.get("height", 900), deviceScaleFactor=1, mobile=width < 600)
        scheme = "dark" if visit.get("dark") else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=visit["url"])

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            sys.exit(f"{expression}: {details.get('exception', {}).get('description', details['text'])}")
        return answer["result"].get("value")

    def wait(self, expression):
        end = time.monotonic() + 60
        # A page that is being left has no script for a moment.
        while not self.evaluate(f"(() => {{ try {{ return Boolean({expression}); }} catch (error) {{ return false; }} }})()"):
            if time.monotonic() > end:
                text = self.evaluate("document.body ? document.body.innerText.slice(0, 2000) : ''")
                sys.exit(f"never came: {expression}\n{text}")
            time.sleep(0.05)

    def shot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def errors(self):
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, values = event["method"], event.get("params", {})
            if method == "Runtime.exceptionThrown":
                details = values["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif method == "Log.entryAdded" and values["entry"]["level"] == "error":
                found.append(f"{values['entry']['text']} {values['entry'].get('url', '')}".strip())
            elif method == "Network.requestWillBeSent":
                address = values["request"]["url"]
                if not address.startswith(("http://127.0.0.1", "http://localhost", "data:", "blob:", "about:", "file:")):
                    found.append(f"asked for {address}")
        return found


def visit(browser, wanted):
    page = Page(browser, wanted)
    values = []
    for step in wanted["steps"]:
        if "wait" in step:
            page.wait(step["wait"])
        elif "run" in step:
            values.append(page.evaluate(step["run"]))
        else:
            page.shot(step["shot"])
    return {"values": values, "errors": page.errors()}


def visit_all(visits):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            return [visit(browser, one) for one in visits]
        finally:
            browser.close()


if __name__ == "__main__":
    print(json.dumps(visit_all(json.loads(sys.argv[1])["visits"])))
