"""The growing report on loopback: a browser sees what is finished, and in the end the same page as the file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from radii.errors import InputError
from radii.report.assessment import page
from radii.report.html import Prose, Report, Section, render
from radii.runs.store import Store
from radii.studies.assess import AssessmentPlan
from radii.tables import Table, listing

EVERY = 3  # seconds between two looks of the browser
REFRESH = f'<meta http-equiv="refresh" content="{EVERY}">'


class LiveReport:
    """What the server shows at the moment."""

    def __init__(self, plan: AssessmentPlan, store: Store) -> None:
        self._plan, self._store = plan, store
        self._final: str | None = None
        self._known: tuple[int, str] = (-1, "")
        self._lock = threading.Lock()
        self.fetched = threading.Event()  # the final page has been sent

    def finish(self, text: str) -> None:
        """From now on the page is ``text``, and it is not asked for again."""
        self._final = text

    def text(self) -> str:
        """The page as it is now."""
        if self._final is not None:
            self.fetched.set()
            return self._final
        with self._lock:  # a second browser waits instead of drawing the same charts
            done = sum(self._store.is_done(step) for step in self._plan.steps)
            if done != self._known[0]:
                self._known = done, render(self._report(done)).replace("<title>", f"{REFRESH}<title>", 1)
        return self._known[1]

    def _report(self, done: int) -> Report:
        """The sections that exist, below the table of steps."""
        total = len(self._plan.steps)
        progress = Section(f"{done} of {total} steps are done", (self._steps(),))
        try:
            grown = page(self._plan.assessment(self._store))
        except InputError:  # too early for figures
            waiting = Prose("Figures come with the audit and the first evaluation. This page renews itself.")
            return Report(f"Assessing {self._plan.source}", (progress, Section("", (waiting,))))
        return replace(grown, sections=(progress, *grown.sections))

    def _steps(self) -> Table:
        lines = [(step.describe(), "done" if self._store.is_done(step) else "to do") for step in self._plan.steps]
        return listing("Steps", ("step", "state"), lines)


@contextmanager
def served(live: LiveReport, port: int = 0) -> Iterator[str]:
    """Serve the page on 127.0.0.1 in this context; yields its address.

    Args:
        port: 0 takes a free one.
    """

    class Handler(BaseHTTPRequestHandler):
        """One page, whatever is asked for."""

        def do_GET(self) -> None:
            """Send the page; only to names of this machine, so that no other site can read it by a trick of names."""
            host = (self.headers.get("Host") or "").rpartition(":")[0]
            known = host in ("127.0.0.1", "localhost")
            body = (live.text() if known else escape(f"unknown host {host}")).encode()
            self.send_response(200 if known else 403)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
