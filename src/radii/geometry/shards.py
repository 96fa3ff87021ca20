"""References in shards on disk, searched by any executor and merged exactly.

A search over shards is the search over the whole: the k best of each shard,
merged by score and index (:meth:`radii.geometry.search.best.Best.merged`). Tasks
carry file names and row ranges, never arrays, so processes, Dask's
``client.get_executor()`` and Ray's pool serve alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from radii import progress
from radii.errors import InputError
from radii.geometry.search.best import Best
from radii.geometry.search.engine import Work, search
from radii.geometry.search.neighbors import Label, Neighbors, check, in_pixels
from radii.geometry.search.points import Points, labelled
from radii.threat import Norm


@dataclass(frozen=True)
class Shard:
    """Rows ``start``..``stop`` of inputs and labels in two ``.npy`` files, which stay on disk."""

    x: str
    y: str
    start: int
    stop: int

    def points(self) -> Points:
        """The rows, memory-mapped."""
        rows, labels = (np.load(path, mmap_mode="r", allow_pickle=False) for path in (self.x, self.y))
        return labelled(rows[self.start : self.stop], np.array(labels[self.start : self.stop]), name=self.x)


def shards(x: Path | str, y: Path | str, rows: int = 250_000) -> tuple[Shard, ...]:
    """The rows of two ``.npy`` files in shards of at most ``rows``."""
    if rows < 1:
        raise InputError(f"A shard must have at least one row, got {rows} instead.")
    for path in (x, y):
        if not Path(path).is_file():
            raise InputError(f"{path} is not a file; shards are rows of .npy files.")
    count = len(np.load(x, mmap_mode="r", allow_pickle=False))
    return tuple(Shard(str(x), str(y), start, min(start + rows, count)) for start in range(0, count, rows))


def search_shard(queries: Shard, references: Shard, norm: Norm, label: Label, k: int, workers: int | None) -> Best:
    """One task: the k best of one shard, numbered as in the whole file.

    Where both come from one file, a point is not its own neighbor.
    """
    own = queries.start - references.start if queries.x == references.x else None
    asked, points = queries.points(), references.points()
    check(asked, points, norm, label, k)
    return search(asked, points, norm, label, k, own, Work(workers)).shifted(references.start)


def nearest_in_shards(
    queries: Shard,
    references: Sequence[Shard],
    executor: Executor,
    *,
    norm: Norm = "linf",
    label: Label = "other",
    k: int = 1,
    workers: int | None = 1,
) -> Neighbors:
    """The k nearest neighbors of ``queries`` in all ``references``, one task per shard, merged as they finish.

    ``executor`` is any :class:`concurrent.futures.Executor`; each task uses ``workers`` threads.
    """
    if not references:
        raise InputError("At least one shard of references is needed, got none.")
    tasks = [executor.submit(search_shard, queries, shard, norm, label, k, workers) for shard in references]
    best = Best.empty(queries.stop - queries.start, k)
    with progress.task("shards", len(tasks), "shards") as task:
        for future in tasks:  # merging is associative and commutative: the order changes nothing
            best = best.merged(future.result())
            task.advance()
    return in_pixels(best, queries.points(), norm, label)
