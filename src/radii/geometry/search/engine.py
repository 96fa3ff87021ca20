"""A search over all queries: small ones at once, large ones in blocks on threads.

With a folder, a killed search continues with the blocks that it had not finished.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from radii import progress
from radii.errors import InputError
from radii.files import write_whole
from radii.geometry.search.k_best import Best, search_all
from radii.geometry.search.points import Points, fixed, rows_at_a_time
from radii.randomness import numpy_stream
from radii.threat import Norm

BRUTE_FORCE_BELOW = 5e8  # coordinate differences; preparing a faster search takes longer than these
BLOCK = 2048  # queries between two saves, at most
CLASSES = {"other": " of another class", "same": " of the same class", "any": ""}
LABEL_CODE = {"other": 0, "same": 1, "any": 2}

Prepared = Callable[[Points, NDArray[np.int64], int], Best]


@dataclass(frozen=True)
class Work:
    """How a search is carried out; it never changes the result.

    Args:
        workers: threads; default: all cores that this process may use.
        folder: where finished blocks are stored, so that the same search continues
            after a kill; the caller deletes it. None: nothing is stored.
    """

    workers: int | None = None
    folder: Path | None = None

    def part(self, name: str) -> Work:
        """The same for one of several searches: its own folder inside this one."""
        return self if self.folder is None else Work(self.workers, self.folder / name)


def search(
    queries: Points, references: Points, norm: Norm, label: str, k: int, own: int | None, work: Work | None = None
) -> Best:
    """The k best references of each query.

    Args:
        norm: ``linf``, ``l2`` or ``l1``.
        label: ``other``, ``same`` or ``any``, see :func:`radii.geometry.search.neighbors.nearest`.
        own: query i is the reference ``own + i``, which is not its neighbor; None if no query is a reference.
    """
    work = work or Work()
    pairs = len(queries) * len(references)
    if work.folder is None and pairs * queries.dimensions <= BRUTE_FORCE_BELOW:
        return search_all(queries, references, norm, label, k, own)
    prepared = _Lazy(queries, references, norm, label)
    numbers = np.full(len(queries), -1) if own is None else np.arange(own, own + len(queries))
    size = rows_at_a_time(queries.dimensions, BLOCK, 1 << 26)
    store = None if work.folder is None else _Store.open(work.folder, queries, references, (norm, label, k, own, size))

    def block(number: int) -> Best:
        part = slice(number * size, (number + 1) * size)
        if store is not None and store.has(number):
            return store.load(number)
        best = prepared()(queries.take(part), numbers[part], k)
        if store is not None:
            store.save(number, best)
        return best

    blocks = -(-len(queries) // size)
    with (
        _one_blas_thread(),
        ThreadPoolExecutor(_cores(work.workers)) as threads,
        progress.task(f"{norm} neighbors{CLASSES[label]}", len(queries), "points") as task,
    ):
        results = _in_order(threads, block, blocks, task)
    return Best(np.concatenate([b.score for b in results]), np.concatenate([b.index for b in results]))


def _in_order(threads: Executor, block: Callable[[int], Best], count: int, task: progress.Task) -> list[Best]:
    """All blocks, computed on the threads, in order; a failure or Ctrl-C cancels those that have not begun."""
    futures = [threads.submit(copy_context().run, block, number) for number in range(count)]
    try:
        results = []
        for future in futures:
            results.append(future.result())
            task.advance(len(results[-1].score))
        return results
    except BaseException:
        for future in futures:
            future.cancel()
        raise


class _Lazy:
    """The prepared references, computed by the first block that needs them; a finished search needs none."""

    def __init__(self, queries: Points, references: Points, norm: Norm, label: str) -> None:
        from threading import Lock

        self._prepare = lambda: _prepare(queries, references, norm, LABEL_CODE[label])
        self._prepared: Prepared | None = None
        self._lock = Lock()

    def __call__(self) -> Prepared:
        with self._lock:
            if self._prepared is None:
                self._prepared = self._prepare()
            return self._prepared


def _prepare(queries: Points, references: Points, norm: Norm, want: int) -> Prepared:
    from radii.geometry.search import _l2_l1 as l2_l1
    from radii.geometry.search import _linf as linf

    references = Points(fixed(np.ascontiguousarray(references.rows)), fixed(references.labels))
    rng = numpy_stream(0, "neighbors")  # samples guide the search; its result does not depend on them
    if norm == "linf":
        return linf.prepare(references, queries, want, rng)
    if norm == "l1":
        return l2_l1.prepare_l1(references, want)
    long_rows = references.dimensions >= max(len(references), l2_l1.COORDINATES)
    return l2_l1.prepare_products(references, want) if long_rows else l2_l1.prepare_l2(references, want, rng)


def _cores(workers: int | None) -> int:
    if workers is not None and workers < 1:
        raise InputError(f"The number of workers must be at least 1, got {workers} instead.")
    if workers is not None:
        return workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _one_blas_thread():  # type: ignore[no-untyped-def]
    """Blocks already fill the cores; BLAS threads inside them would only compete."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(1, "blas")


@dataclass(frozen=True)
class _Store:
    """Finished blocks as files: ``meaning.json`` says of which search, each block is written whole or not at all."""

    folder: Path

    @classmethod
    def open(cls, folder: Path, queries: Points, references: Points, settings: tuple[object, ...]) -> _Store:
        meaning = json.dumps({"queries": digest(queries), "references": digest(references), "settings": settings})
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / "meaning.json"
        if note.exists() and note.read_text(encoding="utf-8") != meaning:
            raise InputError(f"{folder} holds another search; give an empty folder or delete this one.")
        write_whole(note, meaning.encode())
        return cls(folder)

    def path(self, number: int) -> Path:
        return self.folder / f"block-{number:06d}.npy"

    def has(self, number: int) -> bool:
        return self.path(number).exists()

    def load(self, number: int) -> Best:
        stored = np.load(self.path(number), allow_pickle=False)
        return Best(stored["score"].copy(), stored["index"].copy())

    def save(self, number: int, best: Best) -> None:
        from io import BytesIO

        table = np.empty(best.score.shape, [("score", "<f8"), ("index", "<i8")])
        table["score"], table["index"] = best.score, best.index
        content = BytesIO()
        np.save(content, table)
        write_whole(self.path(number), content.getvalue())


def digest(points: Points, rows: int = 4096) -> str:
    """sha256 of the shape, type and labels of ``points`` and of about ``rows`` evenly spread rows."""
    state = hashlib.sha256(repr((points.rows.shape, points.rows.dtype.str)).encode())
    state.update(np.ascontiguousarray(points.labels).data)
    for row in points.rows[:: max(1, len(points) // rows)]:
        state.update(np.ascontiguousarray(row).data)
    return state.hexdigest()
