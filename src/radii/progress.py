"""Progress without a terminal: the library reports it, a display draws it.

Library code writes::

    with progress.task("attacking", total=len(x), unit="points") as task:
        task.advance(32, note="12 left")

Nothing is printed unless a display was installed with :func:`display`; the
command line installs a rich bar on stderr.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol


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


@contextmanager
def task(what: str, total: float | None = None, unit: str = "") -> Iterator[Task]:
    """Announce the work ``what`` of ``total`` ``unit``s (None: unknown); yields the task on which to report."""
    shown_by = _display.get()
    if shown_by is None:
        yield _Silent()
        return
    with shown_by.task(what, total, unit) as shown:
        yield shown
