"""Checks over the study ``data-scaling``: curves over the number of training points, paired by seed.

Seeds are the repetitions: a difference counts by the lower end of its
one-sided 95% interval over seeds (Student's t), a trend by Page's test, whose
ranks within each seed need no assumption about the curve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import page_trend_test, t

from radii_papers.claims._study_cells import NotMeasured, StudyCells, certified, entry, number

LIPSCHITZ, STANDARD = "1-Lipschitz", "standard"
Figures = dict[str, float]
Curves = NDArray[np.float64]  # [seeds, sizes]


def curves(cells: StudyCells, data: str, model: str, split: str, radius: float = 0.0) -> Curves:
    """Accuracies [seeds, sizes] by growing number of training points: certified, or clean of the standard network.

    Args:
        model: ``1-Lipschitz`` (certified accuracy) or ``standard`` (clean accuracy).
        split: ``train`` or ``test``.
        radius: L2 radius of the certified accuracy.
    """
    grid: dict[tuple[Any, Any], float] = {}
    for cell in cells.every({"data": data, "model": model}):
        value = (
            certified(cell.result, split, radius) if model == LIPSCHITZ else number(cell.result, (f"{split}_accuracy",))
        )
        grid[cell.place["seed"], cell.place["n"]] = value
    seeds, sizes = (sorted({key[axis] for key in grid}) for axis in (0, 1))
    if len(seeds) < 2 or len(grid) != len(seeds) * len(sizes):
        raise NotMeasured(f"every size of {data} with two seeds or more")
    return np.array([[grid[seed, size] for size in sizes] for seed in seeds])


def lower_end(values: Curves | Sequence[float]) -> float:
    """The lower end of the one-sided 95% interval of the mean of independent values."""
    sample = np.asarray(values, dtype=np.float64)
    spread = sample.std(ddof=1) / math.sqrt(len(sample))
    return float(sample.mean() - t.ppf(0.95, len(sample) - 1) * spread)


def growth(cells: StudyCells, *, radii: Mapping[str, float]) -> Figures:
    """Whether certified accuracy grows over the whole curve: confidence of the trend, and the whole gain.

    Args:
        radii: L2 radius by dataset, here and below.
    """
    figures = {}
    for data, radius in radii.items():
        line = curves(cells, data, LIPSCHITZ, "test", radius)
        trend = math.nan if np.isnan(line).any() else 1 - page_trend_test(line).pvalue
        figures[f"{data}: confidence of a rising trend"] = float(trend)
        figures[f"{data}: gain from the smallest to the largest size"] = float((line[:, -1] - line[:, 0]).mean())
    return figures


def gain_per_doubling(cells: StudyCells, names: Sequence[str], *, data: str, radius: float) -> Figures:
    """Points of certified accuracy per doubling; a quarter of the steps between sizes is left out at each end.

    Args:
        radius: L2 radius.
    """
    line = curves(cells, data, LIPSCHITZ, "test", radius).mean(0)
    sizes = sorted({float(cell.place["n"]) for cell in cells.every({"data": data, "model": LIPSCHITZ})})
    cut = (len(line) - 1) // 4
    first, last = cut, len(line) - 1 - cut
    return {names[0]: 100 * float(line[last] - line[first]) / math.log2(sizes[last] / sizes[first])}


def last_doublings(cells: StudyCells, *, radii: Mapping[str, float]) -> Figures:
    """Gain over the last two doublings: certified accuracy less clean accuracy of the standard network, lower end.

    Args:
        radii: L2 radius by dataset.
    """
    figures = {}
    for data, radius in radii.items():
        robust = curves(cells, data, LIPSCHITZ, "test", radius)
        clean = curves(cells, data, STANDARD, "test")
        sizes = sorted({float(cell.place["n"]) for cell in cells.every({"data": data, "model": LIPSCHITZ})})
        quarter = next((at for at, n in enumerate(sizes) if abs(n - sizes[-1] / 4) <= 1), None)
        if robust.shape != clean.shape or quarter is None:
            raise NotMeasured(f"all and a quarter of the points of {data} for both networks")
        figures[data] = lower_end((robust[:, -1] - robust[:, quarter]) - (clean[:, -1] - clean[:, quarter]))
    return figures


def gaps(cells: StudyCells, *, radii: Mapping[str, float]) -> Figures:
    """Train less test certified accuracy on the smallest subset, and its change to the largest, lower ends.

    Args:
        radii: L2 radius by dataset.
    """
    figures = {}
    for data, radius in radii.items():
        train, test = (curves(cells, data, LIPSCHITZ, split, radius) for split in ("train", "test"))
        gap = train - test
        figures[f"{data}: gap on the smallest subset"] = lower_end(gap[:, 0])
        figures[f"{data}: gap, smallest less largest"] = lower_end(gap[:, 0] - gap[:, -1])
        figures[f"{data}: certified on the largest subset"] = float(test[:, -1].mean())
    return figures


def standard_over_certified(cells: StudyCells, *, radii: Mapping[str, float]) -> Figures:
    """Clean accuracy of the standard network less certified accuracy: the least lower end over the sizes.

    Args:
        radii: L2 radius by dataset.
    """
    figures = {}
    for data, radius in radii.items():
        robust = curves(cells, data, LIPSCHITZ, "test", radius)
        excess = curves(cells, data, STANDARD, "test") - robust
        figures[data] = float(np.min([lower_end(column) for column in excess.T]))
        figures[f"{data}: certified on the largest subset"] = float(robust[:, -1].mean())
    return figures


def certificates(cells: StudyCells) -> Figures:
    """What every certificate must show: below clean accuracy, falling with the radius, Lipschitz bounds of 1."""
    over, rises, falls, bounds = [], [], [], []
    for cell in cells.every({"model": LIPSCHITZ}):
        # logits of the isometric network are 1-Lipschitz one by one; its last layer as a whole is not
        bounded = entry(cell.result, ("bound",)) is not None
        bounds.append(number(cell.result, ("bound", "features") if bounded else ("lipschitz",)))
        for split in ("train", "test"):
            line = [number(share, ("value",)) for share in entry(cell.result, (split, "certified"))]
            if len(line) < 2:
                raise NotMeasured("second radius")
            over.append(max(line) - number(cell.result, (split, "clean", "value")))
            rises.append(np.diff(line).max())
            falls.append(line[0] - line[-1])
    return {
        "certified over clean, at most": float(np.max(over)),
        "certified over clean, mean": float(np.mean(over)),
        "rise with the radius, at most": float(np.max(rises)),
        "fall from the first to the last radius, at least": float(np.min(falls)),
        "Lipschitz bound, at most": float(np.max(bounds)),
        "Lipschitz bound, at least": float(np.min(bounds)),
    }
