"""Executors: many steps, each computed once, inputs before what needs them.

A task is a step as JSON and its answer is a run id. ``here`` computes in this
process, ``processes`` in worker processes of this machine, ``ray`` on a cluster.
"""

from __future__ import annotations

from radii.errors import InputError, unknown_name
from radii.runs.executors.dispatch import Executor, FailedStepsError, Failures, Here, Watcher, run_here
from radii.runs.executors.processes import Processes, run_processes
from radii.runs.step import plan

__all__ = [
    "NAMES",
    "Executor",
    "FailedStepsError",
    "Failures",
    "Here",
    "Processes",
    "Watcher",
    "chosen",
    "plan",
    "run_here",
    "run_processes",
]

NAMES = ("processes", "here", "ray", "ray:local")


def chosen(name: str, workers: int | None = None, address: str | None = None) -> Executor:
    """The executor that a user names; ``address`` is that of the head of a Ray cluster, HOST:PORT."""
    if name not in NAMES:
        raise unknown_name("executor", name, NAMES)
    if (name == "ray") != (address is not None):
        raise InputError(
            "An address goes with --executor ray, which joins the cluster there: --executor ray --address HOST:PORT; "
            "--executor ray:local starts one on this machine."
        )
    if name == "here":
        return Here()
    if name == "processes":
        return Processes(workers)
    from radii.runs.executors.ray_cluster import Cluster

    return Cluster(address, workers)
