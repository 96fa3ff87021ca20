"""Executors: many steps, each computed once, inputs before the steps that need them.

A task is a step as JSON and its answer is a run id. ``inline`` computes in this
process, ``processes`` in worker processes of this machine, ``ray`` on a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.errors import InputError, unknown_name
from radii.runs.executors._processes import Processes
from radii.runs.executors.dispatch import Executor, FailedStepsError, Failures, Inline, Observer, raise_failures
from radii.runs.step import Step
from radii.runs.store import Run, Store

__all__ = [
    "NAMES",
    "Executor",
    "FailedStepsError",
    "Failures",
    "Inline",
    "Observer",
    "Processes",
    "executor_named",
    "raise_failures",
    "run_steps",
]

NAMES = ("processes", "inline", "ray", "ray:local")


def executor_named(name: str, workers: int | None = None, address: str | None = None) -> Executor:
    """The executor that a user names.

    Args:
        workers: steps at the same time, one per core by default; 0 of ``processes`` computes in this process.
        address: HOST:PORT of the head of a Ray cluster; only for ``ray``.
    """
    if name not in NAMES:
        raise unknown_name("executor", name, NAMES)
    if (name == "ray") != (address is not None):
        raise InputError(
            "An address goes with --executor ray, which joins the cluster there: --executor ray --address HOST:PORT; "
            "--executor ray:local starts one on this machine."
        )
    if name == "inline" or (name == "processes" and workers == 0):
        return Inline()
    if name == "processes":
        return Processes(workers)
    from radii.runs.executors._ray_cluster import Cluster

    return Cluster(address, workers or None)


def run_steps(steps: Sequence[Step], store: Store, workers: int | None = None) -> list[Run]:
    """Compute steps and their inputs on this machine.

    Args:
        steps: the steps; what the store has is not computed again.
        workers: worker processes, one per core by default; 0 computes in this process.
    """
    raise_failures(executor_named("processes", workers).run(steps, store, Observer()))
    return [Run(store.folder(step)) for step in steps]
