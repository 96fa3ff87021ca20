"""The same workers for work that is not a step: the shards of an audit, the blocks of a search.

A pool is a :class:`concurrent.futures.Executor` over this process, processes or
a Ray cluster. Tasks are functions with names of files and numbers as arguments
(:func:`radii.geometry.shards.nearest_in_shards` makes such tasks); what they
read must be found where they run.
"""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Callable, Iterator
from concurrent.futures import Executor as Pool
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from radii.runs.executors import chosen
from radii.runs.executors.ray_cluster import RETRIES, Cluster, joined


@contextmanager
def pool(name: str, workers: int | None = None, address: str | None = None) -> Iterator[Pool]:
    """The pool of an executor by its name, as of ``radii study run --executor``."""
    executor = chosen(name, workers, address)
    if isinstance(executor, Cluster):
        with joined(address, executor.width()) as ray:
            yield _RayPool(ray)
    elif name == "here":
        with ThreadPoolExecutor(1) as one:
            yield one
    else:
        with ProcessPoolExecutor(executor.width(), mp.get_context("spawn")) as several:
            yield several


class _RayPool(Pool):
    """Every call a task of a Ray cluster; one that dies with its machine is given to another."""

    def __init__(self, ray: ModuleType) -> None:
        self._ray = ray

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As :meth:`concurrent.futures.Executor.submit`."""
        task = self._ray.remote(num_cpus=1, max_retries=RETRIES)(fn)
        future: Future[Any] = task.remote(*args, **kwargs).future()
        return future
