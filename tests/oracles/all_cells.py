"""Small tree ensembles by brute force: every row of cells is asked."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from radii.models.feature_reach import Reach
from radii.models.trees.ensemble import UNIT64, OneTree, TreeEnsemble, joined


def random_tree(rng: np.random.Generator, features: int, classes: int, depth: int, only: int | None) -> OneTree:
    """A tree with thresholds 0.1 to 0.9, and leaves of quarters (which tie) or normal numbers; ``only``: one class."""
    rows: list[list[float]] = []
    values: list[NDArray[np.float64]] = []
    quarters = rng.random() < 0.5

    def grow(level: int) -> int:
        number = len(rows)
        rows.append([-1, 0, 0, 0])
        values.append(np.zeros(classes))
        if level < depth and rng.random() < 0.85:
            feature, threshold = rng.integers(features), rng.integers(1, 10) / 10
            rows[number] = [feature, threshold, grow(level + 1), grow(level + 1)]
        else:
            value = rng.integers(-2, 3, classes) / 4 if quarters else rng.normal(size=classes)
            values[number] = value if only is None else np.where(np.arange(classes) == only, value, 0)
        return number

    grow(0)
    nodes = np.array(rows)
    feature, left, right = (nodes[:, place].astype(np.int64) for place in (0, 2, 3))
    return OneTree(feature, nodes[:, 1].astype(np.float32), left, right, np.array(values))


def random_ensemble(rng: np.random.Generator) -> TreeEnsemble:
    """One to eight trees of depth up to 4 on up to four features, of two or three classes."""
    features, classes = int(rng.integers(1, 5)), int(rng.integers(2, 4))
    shared, base = rng.random() < 0.5, rng.normal(size=classes) * rng.integers(0, 2)
    trees = [
        random_tree(rng, features, classes, int(rng.integers(1, 5)), None if shared else number % classes)
        for number in range(int(rng.integers(1, 9)))
    ]
    return joined(trees, base, features, UNIT64, 0.0)


def nearest_other_class(ensemble: TreeEnsemble, reach: Reach, label: int) -> float:
    """The distance of the nearest allowed row of another class; infinite if there is none."""
    x = reach.center[0].astype(np.float32)
    inner, axes = ensemble.feature >= 0, []
    for f in range(ensemble.features):
        cuts = np.unique(ensemble.threshold[inner & (ensemble.feature == f)])
        ends = [x[f], *cuts[cuts < x[f]], *np.nextafter(cuts, np.float32(np.inf))[cuts >= x[f]]]
        axes.append([end for end in ends if reach.low[0, f] <= end <= reach.high[0, f]])
    rows = np.array(list(itertools.product(*axes)), np.float32)
    other = ensemble.scores(rows).argmax(1) != label
    steps = np.abs(rows.astype(float) - x.astype(float))[other] / reach.scale
    if not len(steps):
        return float(np.inf)
    lengths = {"linf": steps.max(1), "l1": steps.sum(1), "l2": np.sqrt((steps**2).sum(1))}
    return float(lengths[reach.norm].min())
