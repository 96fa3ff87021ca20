"""Checks over the curves of Prach & Lampert 2025: overfitting, compute, extra data, trade-off, near points.

Where a study has several seeds, a difference counts by the lower end of its one-sided 95% interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from radii.studies.study import Measured
from radii_papers.claims._scaling_checks import lower_end
from radii_papers.claims._study_cells import NotMeasured, StudyCells, certified, entry, number

Figures = dict[str, float]
LIPSCHITZ = "1-Lipschitz"


def overfitting(cells: StudyCells, *, radius: float) -> Figures:
    """Train less test certified accuracy at a radius, and how well training points are fitted; least over the networks.

    Args:
        radius: L2 radius.
    """
    networks = cells.every({})
    train, test = ([certified(cell.result, split, radius) for cell in networks] for split in ("train", "test"))
    fitted = [certified(cell.result, "train", 0.125) for cell in networks]
    return {
        "train less test, least": _least(a - b for a, b in zip(train, test, strict=True)),
        "train, least": _least(train),
        "train at 1/8, least": _least(fitted),
    }


def _least(values: object) -> float:
    found = list(values)  # type: ignore[call-overload]
    return math.nan if any(map(math.isnan, found)) else min(found)


def by_length(cells: StudyCells, *, radius: float) -> Figures:
    """Gains of certified accuracy per doubling of the training's length, means over seeds.

    Args:
        radius: L2 radius.
    """
    line: dict[float, list[float]] = {}
    for cell in cells.every({"model": LIPSCHITZ}):
        line.setdefault(float(cell.place["steps"]), []).append(certified(cell.result, "test", radius))
    means = [sum(values) / len(values) for _, values in sorted(line.items())]
    if len(means) < 3:
        raise NotMeasured("three lengths of the training")
    gains = [b - a for a, b in pairwise(means)]
    return {
        "first gain less last gain": gains[0] - gains[-1],
        "gain in all": means[-1] - means[0],
        "certified at the greatest length": means[-1],
    }


def extra_points(cells: StudyCells, *, radii: Mapping[str, float]) -> Figures:
    """Gains by the most extra points over none, real and made ones, lower ends over seeds.

    Args:
        radii: L2 radius by dataset.
    """
    figures = {}
    for data, radius in radii.items():
        kinds = {str(cell.place["extra"]) for cell in cells.every({"data": data})} - {"none"}
        alone = _by_seed(cells.every({"data": data, "extra": "none"}), radius)
        figures[f"{data}: certified without"] = sum(alone.values()) / len(alone)
        for kind in kinds:
            own = cells.every({"data": data, "extra": kind})
            most = max(float(cell.place["points"]) for cell in own)
            joined = _by_seed([cell for cell in own if cell.place["points"] == most], radius)
            if joined.keys() != alone.keys() or len(alone) < 2:
                raise NotMeasured(f"two seeds of {data} with and without extra points")
            word = "real" if kind == "held back" else "made"
            figures[f"{data}: gain by {word} points"] = lower_end([joined[seed] - alone[seed] for seed in alone])
    return figures


def _by_seed(cells: Sequence[Measured], radius: float) -> dict[object, float]:
    return {cell.place["seed"]: certified(cell.result, "test", radius) for cell in cells}


def trade_off(cells: StudyCells, names: Sequence[str], *, values: Mapping[str, float], radius: float) -> Figures:
    """Clean and certified accuracy by t of the self-normalizing loss.

    Args:
        names: ``clean, T`` or ``certified, T`` with T a key of ``values``.
        radius: L2 radius.
    """
    figures = {}
    for name in names:
        what, _, at = name.partition(", ")
        result = cells.at({"t": values[at]})
        clean = number(entry(result, ("test",)), ("clean", "value"))
        figures[name] = clean if what == "clean" else certified(result, "test", radius)
    return figures


def near_and_far(cells: StudyCells, *, metric: str) -> Figures:
    """Certified accuracy of the fifth of test points nearest to training points less that of the farthest.

    Args:
        metric: ``angle`` or ``l2``.
    """
    figures = {}
    for cell in cells.every({"metric": metric}):
        groups = entry(cell.result, ("groups",))
        ends = [number(groups[at], ("certified",)) for at in (0, -1)]
        figures[f"{cell.place['data']}: near less far"] = ends[0] - ends[1]
        figures[f"{cell.place['data']}: farther less nearer distance"] = number(groups[-1], ("mean",)) - number(
            groups[0], ("mean",)
        )
    return figures
