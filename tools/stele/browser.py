"""Drives a headless Chromium, for the tests and pictures of the report's page.

The browser speaks the Chrome DevTools Protocol through two pipes, its descriptors 3 and 4: JSON
with a zero byte after each message. The browser is offline.
"""
import base64
import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium")
SECONDS = 60  # an answer that takes longer counts as missing; the machine may be busy


class BrowserError(Exception):
    """The browser is missing, or does not react as it should."""


class Browser:
    """A browser with one page. `width` and `height` are in CSS pixels; a CSS pixel has `scale` pixels of the screen in each direction.
    `requests` has the URLs that the page has asked for; `problems` has the exceptions of the page's scripts, the errors in the browser's
    log, and the dialogs that the page has opened."""

    def __init__(self, width=1280, height=800, dark=False, scale=1):
        self.program = next(filter(None, map(shutil.which, NAMES)), None)
        if not self.program:
            raise BrowserError("no Chromium: scripts/setup browser")
        self.requests, self.problems, self._number, self._received = [], [], 0, b""
        self._open = contextlib.ExitStack()
        try:
            self._start()
            target = self._ask("Target.createTarget", session=None, url="about:blank")["targetId"]
            self._session = self._ask("Target.attachToTarget", session=None, targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self._ask(f"{domain}.enable")
            self._ask("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
            self.resize(width, height, scale)
            self.prefer("dark" if dark else "light")
        except BaseException:
            self._open.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._open.close()

    def _start(self):
        home = self._open.enter_context(tempfile.TemporaryDirectory(prefix="stele-browser-", ignore_cleanup_errors=True))
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for pair in (os.pipe(), os.pipe()) for end in self._moved(pair)]
        theirs, self._to, self._from, their_out = ends[0], ends[1], ends[2], ends[3]
        for end in (self._to, self._from):
            self._open.callback(os.close, end)

        def descriptors():
            os.dup2(theirs, 3)
            os.dup2(their_out, 4)

        process = subprocess.Popen(
            [self.program, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-extensions", "--disable-background-networking", "--hide-scrollbars", "--force-prefers-reduced-motion",
             f"--user-data-dir={home}"],
            env={**os.environ, "HOME": home}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=descriptors, start_new_session=True)
        os.close(theirs)
        os.close(their_out)
        self._open.callback(self._stop, process)

    def _moved(self, pair):
        """Yields the two ends of a pipe. The caller duplicates each end before it asks for the next one; then the yielded end is closed."""
        for end in pair:
            yield end
            os.close(end)

    @staticmethod
    def _stop(process):
        """Ends the browser and its child processes, which are in one session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _ask(self, method, session="", **parameters):
        """Sends a command and returns its result. Raises BrowserError if the command fails or there is no answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session or self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data):]
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _receive(self):
        """Returns the browser's next message. If it is an event, _note() records it."""
        end = time.monotonic() + SECONDS
        while b"\0" not in self._received:
            if not select.select([self._from], [], [], max(0, end - time.monotonic()))[0]:
                raise BrowserError(f"no answer in {SECONDS} seconds")
            data = os.read(self._from, 1 << 20)
            if not data:
                raise BrowserError("the browser has ended")
            self._received += data
        message, _, self._received = self._received.partition(b"\0")
        event = json.loads(message)
        self._note(event.get("method"), event.get("params", {}))
        return event

    def _note(self, method, what):
        if method == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = what["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and what["entry"]["level"] == "error":
            self.problems.append(what["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"dialog: {what['message']}")

    def open(self, path):
        """Opens a file and waits until it is loaded."""
        self._ask("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def resize(self, width, height, scale=1):
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 700)

    def prefer(self, scheme):
        """Sets prefers-color-scheme: light, dark."""
        self._ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def js(self, expression):
        """Returns the value of a JavaScript expression. If the value is a promise, waits and returns the value of the promise. Raises
        BrowserError if the expression throws."""
        result = self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(result["exceptionDetails"].get("exception", {}).get("description", "exception"))
        return result["result"].get("value")

    def wait(self, condition):
        """Waits until the JavaScript expression `condition` is true. Raises BrowserError if it is not true after SECONDS."""
        end = time.monotonic() + SECONDS
        while not self.js(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise BrowserError(f"never true: {condition}")
            time.sleep(0.02)

    def click(self, element):
        """Scrolls to an element and clicks in its middle. `element` is a JavaScript expression."""
        x, y = self.js(f"(() => {{ const e = {element}; e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();"
                       " return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def rest(self):
        """Moves the pointer to the corner of the page, so that it points at no element."""
        self._ask("Input.dispatchMouseEvent", type="mouseMoved", x=0, y=0)

    def type(self, text):
        """Types into the focused element."""
        self._ask("Input.insertText", text=text)

    def key(self, name):
        code = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}[name]
        for kind in ("keyDown", "keyUp"):
            self._ask("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def screenshot(self, path, whole=False):
        """Saves a PNG of the visible part of the page. If `whole` is true, saves a PNG of the whole page."""
        clip = {}
        if whole:
            size = self._ask("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
        data = base64.b64decode(self._ask("Page.captureScreenshot", format="png", **clip)["data"])
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
