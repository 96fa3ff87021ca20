"""The trees of a model, with the search in them, computed once for each model."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary, ref

import numpy as np
import torch
from numpy.typing import NDArray

from radii.errors import InputError
from radii.models.adapter import BlackBox
from radii.models.classifier import predict
from radii.models.feature_reach import Reach
from radii.models.trees.estimators import of_estimator
from radii.models.trees.search import TreeSearch

ROUNDS = 5  # of 40 rows each
_KNOWN: WeakKeyDictionary[BlackBox, TreeSearch] = WeakKeyDictionary()


def tree_search(model: BlackBox, input_shape: tuple[int, ...]) -> TreeSearch:
    """The search in the trees of ``model`` on inputs of ``input_shape``; other models are refused with the reason."""
    if model.fitted is None:
        raise InputError("The model is a function, whose trees cannot be read.")
    if model not in _KNOWN:
        ensemble, count = of_estimator(model.fitted), int(np.prod(input_shape))
        if ensemble.features > count:
            raise InputError(f"The trees read {ensemble.features} features, and the inputs have {count}.")
        asked = ref(model)  # the table must not keep the model alive
        _KNOWN[model] = TreeSearch(replace(ensemble, features=count), lambda rows: _classes(asked(), rows, input_shape))
    return _KNOWN[model]


def _classes(model: BlackBox | None, rows: NDArray[np.float32], input_shape: tuple[int, ...]) -> NDArray[np.int64]:
    assert model is not None, "the search is used while the model exists"
    return predict(model, torch.from_numpy(rows).view(-1, *input_shape)).numpy()


def check_reading(search: TreeSearch, reach: Reach) -> None:
    """Refuse trees whose scores give another class than the model, at the inputs and at the thresholds themselves.

    Features that cannot move, and those of categories, stay: a word is no other number than 0 and 1.
    """
    own, x = search.ensemble, reach.center.astype(np.float32)
    moving: NDArray[np.bool_] = np.any(reach.low < reach.high, axis=0)
    moving[reach.grouped] = False
    rows = np.concatenate([x[:64], *_at_thresholds(search, x, moving)])
    scores = own.scores(rows)
    best = scores.argmax(1)
    second = np.partition(scores, -2, axis=1)[:, -2]
    clear = scores.max(1) - second > own.error
    said = search.predict(rows)
    if (wrong := np.flatnonzero(clear & (said != best))).size:
        raise InputError(
            f"The trees that were read give class {best[wrong[0]]} where the model says {said[wrong[0]]}: "
            "the library computes something else than was read."
        )


def _at_thresholds(search: TreeSearch, x: NDArray[np.float32], moving: NDArray[np.bool_]) -> list[NDArray[np.float32]]:
    """Rows of ``x`` with features of ``moving`` set to thresholds and to the next float32 number, by a fixed seed."""
    rng, parts = np.random.default_rng(0), []
    for _ in range(ROUNDS):
        rows = x[rng.integers(0, len(x), 40)].copy()
        for f, cuts in enumerate(search.thresholds):
            moved = (rng.random(len(rows)) < 0.5) & moving[f]
            if len(cuts) and moved.any():
                chosen = cuts[rng.integers(0, len(cuts), int(moved.sum()))]
                up = np.nextafter(chosen, np.float32(np.inf))
                rows[moved, f] = np.where(rng.random(len(chosen)) < 0.5, chosen, up)
        parts.append(rows)
    return parts
