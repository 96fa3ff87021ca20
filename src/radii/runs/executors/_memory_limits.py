"""How much memory steps need, and how much is free: steps that do not fit into memory together run in turn."""

from __future__ import annotations

import os
from pathlib import Path

from radii.data import sources
from radii.errors import InputError
from radii.runs.component_specs import DataSpec
from radii.runs.step import Step

PROCESS_BYTES = 500_000_000  # torch with its libraries, and a small network in training
DATA_COPIES = 10  # times the decoded bytes: float32 tensors of both splits, and intermediate variants
USABLE_SHARE = 0.8  # of the free memory
UNLIMITED = 1 << 40  # bytes; where the system does not say how much memory there is


def needed(step: Step) -> int:
    """Bytes that ``step`` is expected to need at its peak: the process, and its largest data several times over."""
    return PROCESS_BYTES + DATA_COPIES * max((_decoded(value) for value in _data(step)), default=0)


def _data(step: Step) -> list[DataSpec]:
    values = [getattr(step, name) for name in type(step).model_fields]
    return [value for value in values if isinstance(value, DataSpec)]


def _decoded(data: DataSpec) -> int:
    try:
        return sources.decoded_bytes(data.source)
    except InputError:  # it is not here (any more): the step will say so
        return 0


def available() -> int:
    """Bytes that new processes may take: free memory of the machine or of our control group, whichever is less."""
    return min(_machine(), _group())


def _machine() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return UNLIMITED


def _group(root: Path = Path("/sys/fs/cgroup")) -> int:
    try:
        limit = int((root / "memory.max").read_text())
        return max(0, limit - int((root / "memory.current").read_text()))
    except (OSError, ValueError):  # no group, no limit ("max"), or another kind of system
        return UNLIMITED


class MemoryLimit:
    """Memory for steps that run at the same time; the first always fits, so that a plan always makes progress.

    Args:
        limit: bytes; most of the free memory by default.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = int(USABLE_SHARE * available()) if limit is None else limit
        self._taken: dict[str, int] = {}

    def allows(self, step: Step) -> bool:
        """Whether ``step`` fits beside the running steps, by their expected needs and by what is free now."""
        if not self._taken:
            return True
        need = needed(step)
        return sum(self._taken.values()) + need <= self._limit and need <= available()

    def reserve(self, step: Step) -> None:
        """``step`` starts."""
        self._taken[step.run_id] = needed(step)

    def release(self, step: Step) -> None:
        """``step`` has ended."""
        self._taken.pop(step.run_id, None)
