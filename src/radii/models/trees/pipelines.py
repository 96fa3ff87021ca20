"""Trees behind scalers and one-hot encoders of scikit-learn, as trees on the features themselves.

A scaler is a rising function of one feature, as floating-point numbers compute it. So a threshold behind it is a
threshold before it: the largest float32 number that the scaler itself, asked by bisection, leaves below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.data.columns import Columns
from radii.errors import InputError
from radii.models.estimators import OnColumns
from radii.models.linear.affine_scores import AffineScores
from radii.models.linear.table_columns import features_behind
from radii.models.trees.ensemble import TreeEnsemble

IN_FLOAT64 = ("HistGradientBoostingClassifier", "LGBMClassifier")  # others round to float32 before they compare
LARGEST = 0x7F7FFFFF  # the largest finite float32 number, by its place among them

Reader = Callable[[Any], TreeEnsemble]


def of_pipeline(asked: Any, read: Reader) -> TreeEnsemble:
    """The trees at the end of a pipeline, fitted to arrays or to columns of a table."""
    on_columns = isinstance(asked, OnColumns)
    estimator = asked.estimator if on_columns else asked
    steps = [step for _, step in estimator.steps] if type(estimator).__name__ == "Pipeline" else [estimator]
    count = int(estimator.n_features_in_)
    columns = asked.columns if on_columns else _numbers(count)
    names = getattr(estimator, "feature_names_in_", columns.names) if on_columns else columns.names
    trees, front = read(steps[-1]), features_behind(steps[:-1], columns, names)
    source = _sources(front)
    plain = (front.weight.sum(1) == 1) & (front.bias == 0) & (front.size.sum(1) == 1) & (front.bias_size == 0)
    kind = np.float64 if type(steps[-1]).__name__ in IN_FLOAT64 else np.float32
    inner = trees.feature >= 0
    compared, feature = trees.compared.copy(), trees.feature.copy()
    moved = np.flatnonzero(inner & ~plain[np.where(inner, trees.feature, 0)])

    def below(values: NDArray[np.float32]) -> NDArray[np.bool_]:
        rows = _rows(columns, len(values))
        rows[np.arange(len(values)), source[trees.feature[moved]]] = values
        with np.errstate(over="ignore"):
            out = estimator[:-1].transform(asked.columns.frame(rows)[list(names)] if on_columns else rows)
            out = np.asarray(out.todense() if hasattr(out, "todense") else out)
            own: Any = out[np.arange(len(values)), trees.feature[moved]].astype(kind)
        return np.asarray(own <= trees.compared[moved])

    compared[moved] = _largest(below, len(moved))
    feature[inner] = source[trees.feature[inner]]
    return replace(trees, feature=feature.astype(trees.feature.dtype), compared=compared, features=len(front.weight.T))


def _numbers(count: int) -> Columns:
    """Columns of numbers without names."""
    return Columns(tuple(range(count)), tuple((k,) for k in range(count)), ((),) * count)  # type: ignore[arg-type]


def _sources(front: AffineScores) -> NDArray[np.int64]:
    """The one feature from which each number is made, rising with it."""
    used = front.weight != 0
    if (used.sum(1) != 1).any() or (front.weight < 0).any():
        raise InputError("The trees are behind a step that mixes columns, leaves one empty or turns one around.")
    return used.argmax(1)


def _rows(columns: Columns, count: int) -> NDArray[np.float32]:
    """Rows of zeros, with the first word of each column of words."""
    rows = np.zeros((count, sum(len(places) for places in columns.places)), np.float32)
    rows[:, [places[0] for places, words in zip(columns.places, columns.words, strict=True) if words]] = 1
    return rows


def _largest(below: Callable[[NDArray[np.float32]], NDArray[np.bool_]], count: int) -> NDArray[np.float32]:
    """For each of ``count`` thresholds the largest float32 number of which ``below`` is true: [count]."""
    low, high = np.full(count, -LARGEST), np.full(count, LARGEST + 1)
    if count and not below(_float32(low)).all():
        raise InputError("The trees have a threshold below every number that the step before them makes.")
    while (high - low > 1).any():
        middle = (low + high) // 2
        under = below(_float32(middle))
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return _float32(low)


def _float32(place: NDArray[np.int64]) -> NDArray[np.float32]:
    """The float32 number at each place, counted from 0 upward and downward."""
    return np.where(place < 0, -1, 1).astype(np.float32) * np.abs(place).astype(np.int32).view(np.float32)
