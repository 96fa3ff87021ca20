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
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import IO, Any, Protocol

REWRITE, SILENCE = 0.2, 10.0  # seconds between two lines of one task, written over or not


class Task(Protocol):
    """One piece of work on display."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """``amount`` more of the total is done; ``note`` is what to say beside the bar."""


class Display(Protocol):
    """Something that can show tasks."""

    def task(self, what: str, total: float | None, unit: str) -> AbstractContextManager[Task]:
        """Show ``what`` until the context ends."""

    def say(self, sentence: str) -> None:
        """Show a sentence that stays."""


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


class _TextTask:
    """One piece of work as text: a line that is written over, or lines some seconds apart."""

    def __init__(self, what: str, total: float | None, unit: str, stream: IO[str], over: bool) -> None:
        self._what, self._total, self._unit, self._stream, self._over = what, total, unit, stream, over
        self._done, self._start = 0.0, time.monotonic()
        self._told, self._note = self._start, ""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """``amount`` more is done; it is said if the last line is some seconds old."""
        self._done, self._note = self._done + amount, note or self._note
        if time.monotonic() - self._told >= (REWRITE if self._over else SILENCE):
            self.tell(note)

    def tell(self, note: str = "", end: str = "") -> None:
        """Write the state now.

        Args:
            end: how the work ended: ``done`` or ``stopped``.
        """
        self._told = time.monotonic()
        seconds, of = self._told - self._start, ""
        if self._total is not None:
            of = f" of {self._total:g}"
            left = seconds * (self._total / self._done - 1) if 0 < self._done < self._total else 0.0
            note = f"(about {left:.0f} s left) {note}" if left >= 1 and not end else note
        line = f"{self._what}: {self._done:g}{of} {self._unit}, {seconds:.0f} s {note}".rstrip()
        if end:
            line = f"{self._what}: {end} in {seconds:.0f} s" + (f", {self._note}" if self._note else "")
        self._stream.write(f"\r{line:<78}" + ("\n" if end else "") if self._over else f"{line}\n")
        self._stream.flush()


class TextDisplay:
    """Progress as text on a stream; work that ends within a few seconds is not mentioned.

    Args:
        stream: stderr by default, whatever it is at the time.
        over: write over the line, as terminals allow; plain lines otherwise. By default what fits.
    """

    def __init__(self, stream: IO[str] | None = None, over: bool | None = None) -> None:
        self._stream = stream or sys.stderr
        self._over = self._stream.isatty() if over is None else over

    @contextmanager
    def task(self, what: str, total: float | None, unit: str) -> Iterator[_TextTask]:
        """Say how far ``what`` is until the context ends."""
        shown = _TextTask(what, total, unit, self._stream, self._over)
        born, end = shown._told, "stopped"
        try:
            yield shown
            end = "done"
        finally:
            if shown._told > born:  # it was mentioned, so its end is, too
                shown.tell(end=end)

    def say(self, sentence: str) -> None:
        """Write the sentence as a line of its own."""
        self._stream.write(f"\r{sentence:<78}\n" if self._over else f"{sentence}\n")
        self._stream.flush()


class NotebookDisplay:
    """Progress below a cell of a notebook: one line for all work, which renews itself.

    Args:
        show: shows a text where the text of an earlier call stood; by default as IPython does.
    """

    def __init__(self, show: Callable[[str], None] | None = None) -> None:
        self._show = show or _renewed_text()
        self._open: list[_NotebookTask] = []
        self._told, self._begun = -REWRITE, time.monotonic()

    @contextmanager
    def task(self, what: str, total: float | None, unit: str) -> Iterator[_NotebookTask]:
        """Show ``what`` until the context ends; work inside other work stands behind it."""
        own = _NotebookTask(what, total, unit, self._tell)
        self._open.append(own)
        self._tell()
        try:
            yield own
        finally:
            self._open.remove(own)
            if not self._open:
                words = f"{what}: {own.done:g}{own.of} {unit}".rstrip()
                self._show(f"{words}, {time.monotonic() - self._begun:.0f} s, done")

    def say(self, sentence: str) -> None:
        """Write the sentence below the cell; it stays."""
        print(sentence)

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._told >= REWRITE:
            self._told = now
            self._show(" · ".join(each.text() for each in self._open))


class _NotebookTask:
    """One piece of work in the line of a notebook."""

    def __init__(self, what: str, total: float | None, unit: str, tell: Callable[[], None]) -> None:
        self.what, self.unit, self._total, self._tell = what, unit, total, tell
        self.done, self._note, self._start = 0.0, "", time.monotonic()

    def advance(self, amount: float = 1, note: str = "") -> None:
        """``amount`` more is done; the line is renewed if it is some time old."""
        self.done, self._note = self.done + amount, note
        self._tell()

    @property
    def of(self) -> str:
        """The total as words."""
        return "" if self._total is None else f" of {self._total:g}"

    def text(self) -> str:
        """The state in words, with the time left where it is known."""
        seconds, left = time.monotonic() - self._start, ""
        if self._total is not None and 0 < self.done < self._total and seconds >= 1:
            left = f", about {seconds * (self._total / self.done - 1):.0f} s left"
        return (
            f"{self.what}: {self.done:g}{self.of} {self.unit}".rstrip() + left + (f", {self._note}" * bool(self._note))
        )


def _renewed_text() -> Callable[[str], None]:
    """Shows a text below the cell, each time in the same place."""
    from IPython.display import display as show_below

    handle: Any = None

    def show(text: str) -> None:
        nonlocal handle
        content = {"text/plain": text}
        if handle is None:
            handle = show_below(content, raw=True, display_id=True)
        else:
            handle.update(content, raw=True)

    return show


def shown() -> AbstractContextManager[None]:
    """Show progress in this context: in a notebook or a terminal one line that is written over, in a log plain lines.

    Example::

        with radii.progress.shown():
            scores = radii.evaluate(model, x, y, ball)
    """
    return display(NotebookDisplay() if "ipykernel" in sys.modules else TextDisplay())


def say(sentence: str) -> bool:
    """Show a sentence that matters before the work is done; whether there is a display that does."""
    shown_by = _display.get()
    if shown_by is not None:
        shown_by.say(sentence)
    return shown_by is not None


@contextmanager
def task(what: str, total: float | None = None, unit: str = "") -> Iterator[Task]:
    """Announce the work ``what`` of ``total`` ``unit``s (None: unknown); yields the task on which to report."""
    shown_by = _display.get()
    if shown_by is None:
        yield _Silent()
        return
    with shown_by.task(what, total, unit) as shown:
        yield shown
