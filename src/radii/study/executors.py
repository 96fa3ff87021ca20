"""Executors: many steps, each computed once, inputs before what needs them.

A task is a step as JSON and its answer is a run id; no tensors travel. Worker
processes are spawned, use one torch thread each (equal bits whatever their
number) and report progress back to the parent's display.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

from radii import progress
from radii.errors import InputError
from radii.study.step import Step
from radii.study.steps import from_json
from radii.study.store import Run, Store

Submit = Callable[[Step], "Future[str]"]


class FailedStepsError(RuntimeError):
    """Some steps failed; everything that did not depend on them is committed."""

    def __init__(self, failures: dict[str, BaseException]) -> None:
        self.failures = failures
        super().__init__("; ".join(f"{run_id}: {error}" for run_id, error in failures.items()))


def plan(steps: Sequence[Step]) -> list[Step]:
    """All steps and their inputs, each once, inputs first."""
    ordered: dict[str, Step] = {}

    def add(step: Step) -> None:
        for needed in step.inputs():
            add(needed)
        ordered.setdefault(step.run_id, step)

    for step in steps:
        add(step)
    return list(ordered.values())


def run_here(steps: Sequence[Step], store: Store) -> list[Run]:
    """Every step, one after another, in this process."""
    return [store.ensure(step) for step in steps]


def run_processes(steps: Sequence[Step], store: Store, workers: int | None = None) -> list[Run]:
    """Every step, side by side in ``workers`` processes (one per core by default)."""
    ordered = plan(steps)
    todo = [step for step in ordered if not store.is_done(step)]
    if todo:
        count = max(1, min(workers or os.cpu_count() or 1, len(todo)))
        context = mp.get_context("spawn")
        with context.Manager() as manager:
            messages = manager.Queue()
            with (
                _relayed(messages),
                ProcessPoolExecutor(count, context, initializer=_start_worker, initargs=(messages,)) as pool,
            ):
                try:
                    _drain(todo, store, lambda step: pool.submit(_work, step.to_json(), str(store.root), store.device))
                except (KeyboardInterrupt, SystemExit):
                    pool.shutdown(wait=False, cancel_futures=True)
                    for child in mp.active_children():
                        if child.name.startswith("SpawnProcess"):  # a worker; the manager ends with its context
                            child.terminate()
                    raise
    return [Run(store.folder(step)) for step in steps]


def _drain(todo: list[Step], store: Store, submit: Submit) -> None:
    """Submit each step when its inputs are committed; failures do not stop the rest."""
    waiting = list(todo)
    running: dict[Future[str], Step] = {}
    failures: dict[str, BaseException] = {}
    while waiting or running:
        for step in list(waiting):
            needed = step.inputs()
            if any(other.run_id in failures for other in needed):
                failures[step.run_id] = InputError("an input of this step failed")
                waiting.remove(step)
            elif all(store.is_done(other) for other in needed):
                running[submit(step)] = step
                waiting.remove(step)
        if not running:
            continue
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            step = running.pop(future)
            error = future.exception()
            if error is not None:
                failures[step.run_id] = error
    if failures:
        raise _first_mistake(failures)


def _first_mistake(failures: dict[str, BaseException]) -> BaseException:
    """A single user's mistake is told as such; otherwise all failures are listed."""
    real = [error for error in failures.values() if "an input of this step" not in str(error)]
    return real[0] if len(real) == 1 and isinstance(real[0], InputError) else FailedStepsError(failures)


def _work(step_json: dict[str, Any], root: str, device: str) -> str:
    return Store(Path(root), device).ensure(from_json(step_json)).id


def _start_worker(messages: Queue[Any]) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends us
    torch.set_num_threads(1)
    progress.install(_RemoteDisplay(messages))


class _RemoteTask:
    """Tells the parent at most ten times a second: a message costs a round trip, a step may cost less."""

    def __init__(self, messages: Queue[Any], key: str) -> None:
        self._messages, self._key = messages, key
        self._unsaid, self._last = 0.0, 0.0

    def advance(self, amount: float = 1, note: str = "") -> None:
        self._unsaid += amount
        now = time.monotonic()
        if now - self._last >= 0.1:
            self._messages.put(("advance", self._key, self._unsaid, note))
            self._unsaid, self._last = 0.0, now


class _RemoteDisplay:
    """Sends what happens in a worker to the parent."""

    def __init__(self, messages: Queue[Any]) -> None:
        self._messages, self._opened = messages, 0

    @contextmanager
    def task(self, what: str, total: float | None, unit: str) -> Iterator[_RemoteTask]:
        self._opened += 1
        key = f"{os.getpid()}/{self._opened}"
        self._messages.put(("open", key, what, total, unit))
        try:
            yield _RemoteTask(self._messages, key)
        finally:
            self._messages.put(("close", key))


@contextmanager
def _relayed(messages: Queue[Any]) -> Iterator[None]:
    """Show the workers' tasks on this process's display until the context ends."""
    shown_by = progress.current()

    def relay() -> None:
        tasks: dict[str, progress.Task] = {}
        closing: dict[str, ExitStack] = {}
        while (message := messages.get()) is not None:
            match message:
                case ("open", key, what, total, unit) if shown_by is not None:
                    closing[key] = ExitStack()
                    tasks[key] = closing[key].enter_context(shown_by.task(what, total, unit))
                case ("advance", key, amount, note) if key in tasks:
                    tasks[key].advance(amount, note)
                case ("close", key) if key in tasks:
                    tasks.pop(key)
                    closing.pop(key).close()
        for stack in closing.values():  # a worker that died did not say goodbye
            stack.close()

    thread = threading.Thread(target=relay, daemon=True)
    thread.start()
    try:
        yield
    finally:
        messages.put(None)
        thread.join()
