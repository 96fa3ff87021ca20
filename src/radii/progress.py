"""Progress without a terminal: the library reports it, a display draws it.

Library code writes::

    with progress.task("attacking", total=len(x), unit="points") as task:
        task.advance(32, note="12 left")

Nothing is printed unless a display was installed with :func:`display`; the
command line installs a rich bar on stderr.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import IO, Protocol

REWRITE, SILENCE = 0.2, 10.0  # seconds between two lines of one task, written over or not


class Task(Protocol):
    """One piece of work on display."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """``amount`` more of the total is done; ``note`` is what to say beside the bar."""


class Display(Protocol):
    """Something that can show tasks."""

    def task(self, what: str, total: float | None, unit: str) -> AbstractContextManager[Task]:
        """Show ``what`` until the context ends."""


class _Silent:
    def advance(self, amount: float = 1, note: str = "") -> None:
        """Ignore the report: there is no display."""


_display: ContextVar[Display | None] = ContextVar("radii_display", default=None)


def current() -> Display | None:
    """The display of this context's tasks, or None."""
    return _display.get()


def install(shown_by: Display) -> None:
    """Show the tasks of this whole process on ``shown_by`` (worker processes do)."""
    _display.set(shown_by)


@contextmanager
def display(shown_by: Display | None) -> Iterator[None]:
    """Show the tasks of this context on ``shown_by``; None: nowhere."""
    token = _display.set(shown_by)
    try:
        yield
    finally:
        _display.reset(token)


class TextTask:
    """One piece of work as text: a line that is written over, or lines some seconds apart."""

    def __init__(self, what: str, total: float | None, unit: str, stream: IO[str], over: bool) -> None:
        self._what, self._total, self._unit, self._stream, self._over = what, total, unit, stream, over
        self._done, self._start = 0.0, time.monotonic()
        self._told, self._told_of = self._start, 0.0

    def advance(self, amount: float = 1, note: str = "") -> None:
        """``amount`` more is done; it is said if the last line is some seconds old."""
        self._done += amount
        if time.monotonic() - self._told >= (REWRITE if self._over else SILENCE):
            self.tell(note)

    def tell(self, note: str = "", end: bool = False) -> None:
        """Write the state now.

        Args:
            note: what to say beside it.
            end: the work is done, or given up.
        """
        if end and not self._over and self._told_of == self._done:
            return  # the last line says it
        self._told, self._told_of = time.monotonic(), self._done
        seconds, of = self._told - self._start, ""
        if self._total is not None:
            of = f" of {self._total:g}"
            left = seconds * (self._total / self._done - 1) if 0 < self._done < self._total else 0.0
            note = f"(about {left:.0f} s left) {note}" if left >= 1 and not end else note
        line = f"{self._what}: {self._done:g}{of} {self._unit}, {seconds:.0f} s {note}".rstrip()
        self._stream.write(f"\r{line:<78}" + ("\n" if end else "") if self._over else f"{line}\n")
        self._stream.flush()


class TextDisplay:
    """Progress as text on a stream; work that ends within a few seconds is not mentioned.

    Args:
        stream: stderr by default, whatever it is at the time.
        over: write over the line, as terminals and notebooks allow; plain lines otherwise. By default what fits.
    """

    def __init__(self, stream: IO[str] | None = None, over: bool | None = None) -> None:
        self._stream = stream or sys.stderr
        notebook = "ipykernel" in sys.modules
        self._over = (notebook or self._stream.isatty()) if over is None else over

    @contextmanager
    def task(self, what: str, total: float | None, unit: str) -> Iterator[TextTask]:
        """Say how far ``what`` is until the context ends."""
        shown = TextTask(what, total, unit, self._stream, self._over)
        born = shown._told
        try:
            yield shown
        finally:
            if shown._told > born:  # it was mentioned, so its end is, too
                shown.tell(end=True)


def shown() -> AbstractContextManager[None]:
    """Show progress in this context: in a notebook or a terminal one line that is written over, in a log plain lines.

    Example::

        with radii.progress.shown():
            scores = radii.evaluate(model, x, y, ball)
    """
    return display(TextDisplay())


@contextmanager
def task(what: str, total: float | None = None, unit: str = "") -> Iterator[Task]:
    """Announce the work ``what`` of ``total`` ``unit``s (None: unknown); yields the task on which to report."""
    shown_by = _display.get()
    if shown_by is None:
        yield _Silent()
        return
    with shown_by.task(what, total, unit) as shown:
        yield shown
