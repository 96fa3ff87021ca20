"""A page as Chromium shows it: what it drew, logged and asked the network for, and pictures of it.

Needs playwright (of the ``dev`` extra) and the machine's own Chromium; nothing
is downloaded. Used by the tests of the report and by ``docs/take_pictures.py``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
PATIENCE = 120_000  # milliseconds; a busy machine is slow
DRAWN = "document.documentElement.dataset.drawn !== undefined"


def missing() -> str:
    """Why no page can be shown; empty if it can."""
    if find_spec("playwright") is None:
        return "playwright is not installed: pip install -e '.[dev]'"
    if not any(shutil.which(name) for name in NAMES):
        return f"no Chromium on this machine; looked for {', '.join(NAMES)}"
    return ""


needs_chromium = pytest.mark.skipif(bool(missing()), reason=missing())


@dataclass
class Tab:
    """One page. ``requests`` and ``complaints`` gather what happened since it was opened."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(f"Uncaught {error}"))
        self.page.on("console", self._note)
        self.page.on("dialog", self._answer)

    def _note(self, message: Any) -> None:
        if message.type in {"error", "warning", "assert"}:
            self.complaints.append(message.text)

    def _answer(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.accept()

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression on the page; promises are awaited."""
        return self.page.evaluate(script)

    def wait(self, condition: str) -> None:
        """Until a JavaScript condition holds."""
        self.page.wait_for_function(condition, timeout=PATIENCE)


@dataclass
class Browser:
    """A running Chromium."""

    chromium: Any

    def open(
        self,
        path: Path | str,
        width: int = 1200,
        height: int = 900,
        *,
        dark: bool = False,
        scripts: bool = True,
        until: str = DRAWN,
    ) -> Tab:
        """A page of a file in a window of its own, when the condition ``until`` holds.

        Args:
            path: the file.
            width: of the window in CSS pixels; below 600 it is a phone's, with twice the pixels.
            height: of the window.
            dark: the reader prefers a dark page.
            scripts: whether scripts run.
            until: a JavaScript condition; empty waits for the load alone.
        """
        phone = width < 600
        context = self.chromium.new_context(
            viewport={"width": width, "height": height},
            device_scale_factor=2 if phone else 1,
            is_mobile=phone,
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
        )
        tab = Tab(context.new_page())
        tab.page.goto(Path(path).resolve().as_uri(), timeout=PATIENCE)
        if until:
            tab.wait(until)
        return tab


@contextmanager
def launched() -> Iterator[Browser]:
    """A fresh headless Chromium; it ends with the context."""
    from playwright.sync_api import sync_playwright

    binary = next(path for name in NAMES if (path := shutil.which(name)))
    with sync_playwright() as player:
        chromium = player.chromium.launch(executable_path=binary, args=ARGUMENTS)
        try:
            yield Browser(chromium)
        finally:
            chromium.close()
