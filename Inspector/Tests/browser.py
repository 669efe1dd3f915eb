"""A headless Chromium that a test drives, by the DevTools protocol over two pipes (https://chromedevtools.github.io/devtools-protocol/)."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

DEADLINE = 60.0


class BrowserError(Exception):
    pass


class Browser:
    """One page in one browser. What the page logs as an error, and each request to another address, is kept in `complaints`."""

    def __init__(self, width=1440, height=1000):
        program = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
        if not program:
            raise BrowserError("Chromium is missing: 'apt-get install chromium' on Debian.")
        self.folder = tempfile.mkdtemp(prefix="inspector-browser-")
        to_read, self.writer = os.pipe()
        self.reader, to_write = os.pipe()

        def move():
            # Chromium reads commands from descriptor 3, and writes answers to 4. Copies first, because 3 or 4 may be one of the ends.
            first, second = os.dup(to_read), os.dup(to_write)
            high = os.dup2(first, 103), os.dup2(second, 104)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        arguments = [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
            "--disable-background-networking", "--disable-component-update", "--no-first-run", "--hide-scrollbars",
            f"--user-data-dir={self.folder}", f"--window-size={width},{height}", "about:blank",
        ]  # fmt: skip
        self.process = subprocess.Popen(
            arguments, preexec_fn=move, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self.number = 0
        self.rest = b""
        self.complaints = []
        self.origin = None
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def receive(self, deadline):
        while b"\0" not in self.rest:
            if not select.select([self.reader], [], [], max(0, deadline - time.monotonic()))[0]:
                raise BrowserError("the browser does not answer")
            data = os.read(self.reader, 1 << 20)
            if not data:
                raise BrowserError("the browser has ended")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(text)
        self.note(message)
        return message

    def note(self, message):
        method, values = message.get("method"), message.get("params", {})
        if method == "Log.entryAdded" and values["entry"]["level"] == "error":
            self.complaints.append(values["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(values["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "assert"):
            self.complaints.append(json.dumps(values["args"]))
        elif method == "Network.requestWillBeSent" and self.origin:
            url = values["request"]["url"]
            if not url.startswith((self.origin, "data:")):
                self.complaints.append(f"a request to {url}")

    def call(self, method, **values):
        self.number += 1
        message = {"id": self.number, "method": method, "params": values}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + DEADLINE
        while True:
            answer = self.receive(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, url):
        self.origin = "/".join(url.split("/")[:3]) + "/"
        self.call("Page.navigate", url=url)

    def evaluate(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def evaluate_when_loaded(self, script):
        """None while the elements that the script looks for are not there."""
        return self.evaluate(f"(() => {{ try {{ return {script}; }} catch {{ return null; }} }})()")

    def wait(self, what, script):
        deadline = time.monotonic() + DEADLINE
        while not (value := self.evaluate_when_loaded(script)):
            if time.monotonic() > deadline:
                raise BrowserError(f"after {DEADLINE:.0f} s: {what}; the page says: {self.evaluate('document.body?.innerText')}; {self.complaints}")
            time.sleep(0.02)
        return value

    def press(self, key, shift=False):
        codes = {"ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Escape": 27, "Tab": 9, "Enter": 13}
        values = {"key": key, "modifiers": 8 if shift else 0, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **values, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **values)

    def prefer(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(20)
        except (BrowserError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.writer)
        os.close(self.reader)
        shutil.rmtree(self.folder, ignore_errors=True)
