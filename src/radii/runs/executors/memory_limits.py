"""How much memory steps need, and how much there is: workers that do not fit beside each other take turns."""

from __future__ import annotations

import os
from pathlib import Path

from radii.data import sources
from radii.errors import InputError
from radii.runs.inputs import DataSpec
from radii.runs.step import Step

PROCESS = 500_000_000  # torch and what it brings, and a small network at work
COPIES = 10  # of the decoded bytes: float32 tensors of both splits, and variants on their way
SHARE = 0.8  # of what is free may be planned with
UNKNOWN = 1 << 40  # nothing tells how much there is: then memory limits nothing


def needed(step: Step) -> int:
    """Bytes that ``step`` is expected to need at its peak: the process, and its largest data several times over."""
    return PROCESS + COPIES * max((_decoded(value) for value in _data(step)), default=0)


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
        return UNKNOWN


def _group(root: Path = Path("/sys/fs/cgroup")) -> int:
    try:
        limit = int((root / "memory.max").read_text())
        return max(0, limit - int((root / "memory.current").read_text()))
    except (OSError, ValueError):  # no group, no limit ("max"), or another kind of system
        return UNKNOWN


class Room:
    """Memory for steps that run side by side; the first always fits, so that a plan always goes on."""

    def __init__(self, room: int | None = None) -> None:
        self._room = int(SHARE * available()) if room is None else room
        self._taken: dict[str, int] = {}

    def has(self, step: Step) -> bool:
        """Whether ``step`` fits beside what runs, by plan and by what is free now."""
        if not self._taken:
            return True
        need = needed(step)
        return sum(self._taken.values()) + need <= self._room and need <= available()

    def take(self, step: Step) -> None:
        """``step`` begins."""
        self._taken[step.run_id] = needed(step)

    def give_back(self, step: Step) -> None:
        """``step`` ended."""
        self._taken.pop(step.run_id, None)
