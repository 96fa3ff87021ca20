"""How the pages of the catalog read their cells: a share at a radius, means over seeds, groups by place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from radii.studies.study import Measured, mean


def share_at(result: Mapping[str, Any], radius: float, split: str = "test", key: str = "certified") -> float | None:
    """The accuracy that the step ``certify`` found at a radius; None where it was not measured.

    Args:
        result: of the step.
        radius: one of its radii, up to rounding.
        split: ``train`` or ``test``.
        key: ``certified``, or ``estimated`` of smoothing.
    """
    radii = [round(float(value), 6) for value in result["radii"]]
    shares = result.get(split, {}).get(key)
    if shares is None or round(radius, 6) not in radii:
        return None
    return float(shares[radii.index(round(radius, 6))]["value"])


def mean_at(cells: Sequence[Measured], radius: float, split: str = "test", key: str = "certified") -> float | None:
    """The mean of :func:`share_at` at ``radius``, ``split`` and ``key`` over ``cells``; None without any."""
    shares = [share_at(cell.result, radius, split, key) for cell in cells]
    return mean([share for share in shares if share is not None])


def mean_of(cells: Sequence[Measured], *path: str) -> float | None:
    """The mean over cells of the number at ``path`` in their results; None without cells that have it."""
    values = []
    for cell in cells:
        value: Any = cell.result
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, int | float):
            values.append(float(value))
    return mean(values)


def grouped(cells: Sequence[Measured], *keys: str) -> dict[tuple[Any, ...], list[Measured]]:
    """Cells by the values of some of their coordinates, in the order in which these come.

    Args:
        cells: the cells.
        *keys: names of coordinates.
    """
    groups: dict[tuple[Any, ...], list[Measured]] = {}
    for cell in cells:
        groups.setdefault(tuple(cell.place[key] for key in keys), []).append(cell)
    return groups
