"""Progress of workers on the parent's display, through a pipe.

Every worker process has a pipe of its own, because a worker that is killed in the
middle of a message must not block the others; machines of a cluster share a queue.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from radii import progress


class Pipe(Protocol):
    """What is used of a :class:`multiprocessing.connection.Connection`; an OSError says that the other end is gone."""

    def send(self, message: Any, /) -> None:
        """Give a message to the other end."""

    def poll(self, timeout: float = 0.0, /) -> bool:
        """Whether a message is there, waiting for it at most so many seconds."""

    def recv(self) -> Any:
        """The next message."""


class RemoteTask:
    """Reports to the parent at most ten times a second: a message may cost more than the step it reports."""

    def __init__(self, display: RemoteDisplay, key: str) -> None:
        self._display, self._key = display, key
        self._unsaid, self._last = 0.0, 0.0

    def advance(self, amount: float = 1, note: str = "") -> None:
        """As :class:`radii.progress.Task` says."""
        self._unsaid += amount
        now = time.monotonic()
        if now - self._last >= 0.1:
            self._display.send("advance", self._key, self._unsaid, note)
            self._unsaid, self._last = 0.0, now


class RemoteDisplay:
    """Sends the progress of a worker to the parent; satisfies :class:`radii.progress.Display`."""

    def __init__(self, pipe: Pipe, name: str = "") -> None:
        self._pipe, self._name = pipe, name or str(os.getpid())
        self._opened, self._lock = 0, threading.Lock()

    def send(self, *message: object) -> None:
        """Send a message; a parent that is gone is ignored."""
        with self._lock:
            try:
                self._pipe.send(message)
            except OSError:
                return

    @contextmanager
    def task(self, what: str, total: float | None, unit: str) -> Iterator[RemoteTask]:
        """As :class:`radii.progress.Display` says."""
        self._opened += 1
        key = f"{self._name}/{self._opened}"
        self.send("open", key, what, total, unit)
        try:
            yield RemoteTask(self, key)
        finally:
            self.send("close", key)

    def say(self, sentence: str) -> None:
        """As :class:`radii.progress.Display` says."""
        self.send("say", sentence)


class Relay:
    """Shows the messages of a pipe until it is closed."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe, self._shown_by, self._ended = pipe, progress.current(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Show what has arrived and stop."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        tasks: dict[str, tuple[ExitStack, progress.Task]] = {}
        try:
            while self._pipe.poll(0.1) or not self._ended.is_set():
                if self._pipe.poll():
                    self._show(self._pipe.recv(), tasks)
        except (EOFError, OSError):
            pass  # the worker died
        for closing, _ in tasks.values():  # bars that the worker did not close
            closing.close()

    def _show(self, message: Any, tasks: dict[str, tuple[ExitStack, progress.Task]]) -> None:
        match message:
            case ("open", key, what, total, unit) if self._shown_by is not None:
                closing = ExitStack()
                tasks[key] = closing, closing.enter_context(self._shown_by.task(what, total, unit))
            case ("advance", key, amount, note) if key in tasks:
                tasks[key][1].advance(amount, note)
            case ("close", key) if key in tasks:
                tasks.pop(key)[0].close()
            case ("say", sentence) if self._shown_by is not None:
                self._shown_by.say(sentence)
