"""Worker processes of this machine: one torch thread each, as many at a time as memory allows.

Workers are spawned, so equal steps give equal bits whatever the number of
workers. Each worker is a pool of its own: if one is killed, only its step
fails. A worker ends when its parent has died; the next run continues from the
last checkpoint.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any

from radii import progress
from radii.process import isolated_helpers, keep_freed
from radii.runs.executors import _memory_limits as memory_limits
from radii.runs.executors._progress_relay import Relay, RemoteDisplay
from radii.runs.executors.dispatch import Failures, Observer, drain, unfinished
from radii.runs.step import Step, from_json
from radii.runs.store import Store


@dataclass(frozen=True)
class Processes:
    """Worker processes of this machine.

    Args:
        workers: how many; one per core by default.
        memory: bytes that they may need together; most of the free memory by default.
    """

    workers: int | None = None
    memory: int | None = None

    def width(self) -> int:
        """The number of workers."""
        return max(1, self.workers or os.cpu_count() or 1)

    def run(self, steps: Sequence[Step], store: Store, observer: Observer) -> Failures:
        """As :class:`radii.runs.executors.Executor` says."""
        todo = unfinished(steps, store)
        if not todo:
            return {}
        pool = _Pool(min(self.width(), len(todo)), memory_limits.MemoryLimit(self.memory), store)
        try:
            failures = drain(todo, store, pool, observer)
        except BaseException:  # Ctrl-C, or an error of this module: do not wait for the workers
            pool.kill()
            raise
        pool.close()
        return failures


@dataclass(frozen=True)
class _Worker:
    """One process behind a pool of one, and the thread that shows its progress."""

    pool: ProcessPoolExecutor
    relay: Relay

    @classmethod
    def new(cls) -> _Worker:
        context = mp.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        return cls(ProcessPoolExecutor(1, context, initializer=_start, initargs=(sender,)), Relay(receiver))

    def close(self) -> None:
        self.pool.shutdown()
        self.relay.close()

    def kill(self) -> None:
        for process in list((self.pool._processes or {}).values()):  # there is no public way before Python 3.14
            process.terminate()
        self.close()


class _Pool:
    """Up to ``count`` workers; satisfies :class:`radii.runs.executors.dispatch.Workers`."""

    def __init__(self, count: int, memory: memory_limits.MemoryLimit, store: Store) -> None:
        self._count, self._memory, self._store = count, memory, store
        self._idle: list[_Worker] = []
        self._busy: dict[Future[str], _Worker] = {}

    def have_room(self, step: Step) -> bool:
        return len(self._busy) < self._count and self._memory.allows(step)

    def submit(self, step: Step) -> Future[str]:
        worker = self._idle.pop() if self._idle else _Worker.new()
        self._memory.reserve(step)
        with isolated_helpers():
            future = worker.pool.submit(_work, step.to_json(), str(self._store.root), self._store.device)
        self._busy[future] = worker
        return future

    def collect(self, step: Step, future: Future[str]) -> None:
        worker = self._busy.pop(future)
        self._memory.release(step)
        if isinstance(future.exception(), BrokenProcessPool):
            worker.close()
            raise RuntimeError("its process was killed, perhaps for want of memory") from future.exception()
        self._idle.append(worker)
        future.result()

    def close(self) -> None:
        for worker in self._idle:
            worker.close()

    def kill(self) -> None:
        for worker in [*self._busy.values(), *self._idle]:
            worker.kill()


def _work(step_json: dict[str, Any], root: str, device: str) -> str:
    return Store(Path(root), device).ensure(from_json(step_json)).id


def _start(pipe: Connection) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    keep_freed()
    progress.install(RemoteDisplay(pipe))


def _end_with_parent() -> None:
    """Without this, the worker of a killed parent would wait for work forever."""
    parent = mp.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)
