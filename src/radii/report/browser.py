"""A page as Chromium shows it: what it drew, logged and asked the network for, and pictures of it.

Chromium is driven over its debugging pipe (``--remote-debugging-pipe``: JSON
messages ended by a zero byte on file descriptors 3 and 4), so that neither a
driver nor a port nor a websocket is needed. Used by the tests of the report
and by ``docs/take_pictures.py``.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from radii.errors import InputError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 120.0  # seconds for one answer; a busy machine is slow


def find() -> str | None:
    """The Chromium of this machine, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab. ``requests`` and ``complaints`` gather what happened since it was opened."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write, self._buffer, self._last = read, write, b"", 0
        self._session = ""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command of the DevTools protocol and wait for its answer."""
        number = self._send(method, parameters)
        while (answer := self._receive()).get("id") != number:
            self._note(answer)
        if "error" in answer:
            raise RuntimeError(f"Chromium refused {method}: {answer['error']['message']}")
        return answer["result"]

    def _send(self, method: str, parameters: dict[str, Any]) -> int:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        return self._last

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], PATIENCE)[0]:
                raise TimeoutError(f"Chromium did not answer within {PATIENCE:.0f} s.")
            arrived = os.read(self._read, 1 << 20)
            if not arrived:
                raise RuntimeError("Chromium ended before it answered.")
            self._buffer += arrived
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        method, body = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(body["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(body["exceptionDetails"].get("text", "exception"))
        elif method == "Log.entryAdded":
            self.complaints.append(body["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and body["type"] in {"error", "warning", "assert"}:
            self.complaints.append(" ".join(str(part.get("value", part.get("description"))) for part in body["args"]))
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {body['message']}")
            self._send("Page.handleJavaScriptDialog", {"accept": True})

    def look(self, width: int, height: int, dark: bool = False) -> None:
        """The size of the window in CSS pixels, and the reader's preferred theme."""
        mobile = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if mobile else 1,
            mobile=mobile,
        )
        wanted = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="", features=[wanted])

    def open(self, path: Path) -> None:
        """Load a file and wait until it is complete."""
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression on the page; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"The page's script failed: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until a JavaScript condition holds."""
        until = time.monotonic() + PATIENCE
        while not self.run(condition):
            if time.monotonic() > until:
                raise TimeoutError(f"The page never came to {condition}; it said {self.complaints}.")
            time.sleep(0.05)

    def picture(self, path: Path) -> None:
        """A PNG of what is in the window."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def chromium() -> Iterator[Page]:
    """A fresh headless Chromium with an empty profile; it ends with the context."""
    binary = find()
    if binary is None:
        raise InputError(f"No Chromium on this machine; looked for {', '.join(NAMES)}.")
    their_input, our_output = os.pipe()
    our_input, their_output = os.pipe()

    def descriptors() -> None:
        aside = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (their_input, their_output)]  # they may be 3 or 4
        for end, number in zip(aside, (3, 4), strict=True):
            os.dup2(end, number)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [binary, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(3, 4),
            preexec_fn=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_input)
        os.close(their_output)
        try:
            page = Page(our_input, our_output)
            yield page
            page._session = ""
            page.call("Browser.close")
        finally:
            for end in (our_input, our_output):
                os.close(end)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def screenshot(
    html: Path | str, png: Path | str, width: int = 1280, height: int = 900, dark: bool = False, at: str = ""
) -> Path:
    """A picture of a report once its charts are drawn; ``at`` is a CSS selector to scroll to."""
    with chromium() as page:
        page.look(width, height, dark)
        page.open(Path(html))
        page.wait("document.documentElement.dataset.drawn !== undefined")
        if at:
            page.run(f"document.querySelector({json.dumps(at)}).scrollIntoView({{behavior: 'instant'}})")
        page.picture(Path(png))
    return Path(png)
