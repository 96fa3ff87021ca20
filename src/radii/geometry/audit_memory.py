"""The memory of an audit, planned from the size of the data: data once, plus the largest working set of any phase.

Every phase works on blocks of bounded size, so the working set grows with the number of points only where a line
below says so. Decoded images are mapped from disk: the system may drop them, but they count in the process's peak.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from radii.geometry import dimension, spectrum
from radii.geometry.search import engine
from radii.geometry.search.points import rows_at_a_time
from radii.geometry.search.pruned import TILE

PROCESS = 500_000_000  # Python, torch, numba and their libraries
BLOCK, SAMPLE = 1 << 26, 1 << 27  # coordinates of one block of queries, and of the rows from which a search is planned


@dataclass(frozen=True)
class AuditSize:
    """The size of a dataset.

    Args:
        train: training points.
        test: test points.
        dimensions: coordinates of a point.
        itemsize: bytes of a coordinate: 1 for pixels, 4 for features.
    """

    train: int
    test: int
    dimensions: int
    itemsize: int = 1

    @property
    def data(self) -> int:
        """Bytes of both splits."""
        return (self.train + self.test) * self.dimensions * self.itemsize


def working_bytes(size: AuditSize, workers: int | None = None) -> dict[str, int]:
    """Bytes that each phase of an audit needs beside the data.

    Args:
        size: of the data.
        workers: threads; default: all cores.
    """
    n, d, item = size.train, size.dimensions, size.itemsize
    rows = rows_at_a_time(d, engine.BLOCK, BLOCK)
    threads = min(workers or os.cpu_count() or 1, -(-max(n, size.test) // rows))
    block, sample = rows * d * item, min(SAMPLE, 2048 * d)
    search = 2 * sample * item + sample + threads * (2 * block + 100_000_000) + 300 * n
    drawn = min(5000, n, max(dimension.FEWEST, int(dimension.MOST_PRODUCTS / (n * d))))
    if d <= spectrum.MOST_COORDINATES:
        principal = 4 * 8 * d * d
    elif n <= spectrum.MOST_POINTS and n * n * d <= spectrum.MOST_PRODUCTS:
        principal = 3 * 8 * n * n
    else:
        principal = 5 * 4 * d * (spectrum.LEADING + spectrum.OVERSAMPLED)
    return {
        "neighbors": search,
        "neighbor curve": search + int(0.6 * n) * d * item,
        "intrinsic dimension": search + drawn * d * item,
        "inter-class distance": 4 * 512 * size.test * 4 + 6 * 8 * 512 * TILE,
        "spectrum": principal + 6 * 4 * BLOCK // 4,
    }


def planned_bytes(size: AuditSize, workers: int | None = None) -> int:
    """Bytes of the whole process at its peak; ``size`` and ``workers`` as in :func:`working_bytes`."""
    return PROCESS + size.data + max(working_bytes(size, workers).values())
