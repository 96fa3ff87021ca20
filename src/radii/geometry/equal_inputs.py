"""Label noise that can be proved from the data alone: equal inputs with different labels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from radii.geometry.search.points import labelled, rows_at_a_time


@dataclass(frozen=True)
class EqualInputs:
    """One input that occurs several times: where, and with which labels."""

    indices: tuple[int, ...]
    labels: tuple[int, ...]

    @property
    def contradictory(self) -> bool:
        """At most one of these labels is right, so no classifier is right on all of them."""
        return len(set(self.labels)) > 1


def equal_inputs(x: Any, y: Any, block: int = 4096) -> tuple[EqualInputs, ...]:
    """Groups of exactly equal rows of ``x`` [n, …] with labels ``y``; groups with several labels are label noise.

    Rows are compared by a 128-bit digest, at most ``block`` rows at a time; groups are in order of first occurrence.
    """
    points = labelled(x, y)
    places: dict[bytes, list[int]] = {}
    block = rows_at_a_time(points.dimensions, block)
    for start in range(0, len(points), block):
        rows = np.ascontiguousarray(points.rows[start : start + block])
        if rows.dtype != np.uint8:
            rows = rows + np.float32(0)  # -0.0 and 0.0 are one value
        for offset, row in enumerate(rows):
            places.setdefault(hashlib.blake2b(row.data, digest_size=16).digest(), []).append(start + offset)
    return tuple(
        EqualInputs(tuple(group), tuple(int(points.labels[i]) for i in group))
        for group in places.values()
        if len(group) > 1
    )


def contradictions(groups: tuple[EqualInputs, ...]) -> tuple[EqualInputs, ...]:
    """Those of ``groups`` whose labels differ."""
    return tuple(group for group in groups if group.contradictory)
