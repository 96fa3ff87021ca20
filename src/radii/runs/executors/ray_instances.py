"""Instances of ``radii verify`` on a Ray cluster: a task takes the bytes of its files and answers with a row."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from radii.atomic import write_whole
from radii.certificates.complete.instances import Instance, failed_row, verified_row
from radii.errors import InputError, reason
from radii.runs.executors.ray_cluster import RETRIES, connected

Row = dict[str, str]


def verified_on_ray(
    folder: Path, entries: list[Instance], address: str | None = None, workers: int | None = None
) -> Iterator[Row]:
    """Verify instances on the cluster at ``address``, each by one core.

    A network with weights in external files is not sent; its row says so.

    Args:
        folder: where the instances' paths start, on this machine.
        entries: the instances.
        address: HOST:PORT of the cluster's head; None starts a cluster on this machine for the time of the call.
        workers: instances at the same time; default: as many as the cluster has cores.

    Yields:
        The rows of the table, as they become known.

    Raises:
        InputError: Ray is not installed, or the cluster cannot be joined.
    """
    if not entries:
        return
    with connected(address, workers or os.cpu_count() or 1) as ray:
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(_verified)
        running: dict[Any, Instance] = {}
        left = list(entries)
        most = workers or len(left)
        try:
            while left or running:
                while left and len(running) < most:
                    entry = left.pop(0)
                    try:
                        files = [(folder / name).read_bytes() for name in (entry.network, entry.query)]
                    except OSError as error:
                        yield failed_row(entry, f"{error.filename} cannot be read: {reason(error)}.")
                        continue
                    running[task.remote(entry, *files)] = entry
                done, _ = ray.wait(list(running), num_returns=1) if running else ([], [])
                for ref in done:
                    entry = running.pop(ref)
                    try:
                        yield ray.get(ref)
                    except ray.exceptions.RayError as error:  # the machine died too often: the others go on
                        yield failed_row(entry, f"its task failed on the cluster: {str(error).splitlines()[0]}")
        finally:
            for ref in running:
                ray.cancel(ref, force=True)


def _verified(entry: Instance, network: bytes, query: bytes) -> Row:
    """The task: files are written beside each other, verified, and the row gets their first names."""
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        names = [f"network{Path(entry.network).suffix}", f"property{''.join(Path(entry.query).suffixes[-2:])}"]
        for name, content in zip(names, (network, query), strict=True):
            write_whole(Path(place) / name, content, durable=False)
        try:
            row = verified_row(Path(place), replace(entry, network=names[0], query=names[1]))
        except InputError as refusal:
            return failed_row(entry, str(refusal))
    return {**row, "onnx": entry.network, "vnnlib": entry.query}
