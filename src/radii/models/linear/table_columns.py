"""What a pipeline that was fitted to the columns of a table makes of radii's features, as affine functions.

A column of numbers is one feature. A column of words is a group of features of which one is 1; a one-hot encoder of
scikit-learn gives the same features again, in its own order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from radii.data.columns import Columns
from radii.errors import InputError
from radii.models.estimators import OnColumns
from radii.models.linear.affine_scores import AffineScores, identity
from radii.models.linear.estimators import is_named, of_estimator, of_transformer


def of_columns(asked: OnColumns) -> AffineScores:
    """The scores of a linear classifier, or a pipeline that ends in one, that was fitted to columns."""
    estimator = asked.estimator
    if is_named(estimator, ("GridSearchCV", "RandomizedSearchCV")):
        return of_columns(OnColumns(estimator.best_estimator_, asked.columns))
    names = getattr(estimator, "feature_names_in_", None)
    names = asked.columns.names if names is None else names
    if not is_named(estimator, ("Pipeline",)):
        return of_estimator(estimator).behind(features_behind([], asked.columns, names))
    *before, last = [step for _, step in estimator.steps]
    return of_estimator(last).behind(features_behind(before, asked.columns, names))


def features_behind(steps: list[Any], columns: Columns, names: Any) -> AffineScores:
    """What ``steps`` make of the features behind ``columns``, of which they take ``names``; affine, one by one."""
    return _Steps(steps).of(_Part.of(columns, names)).numbers()


@dataclass(frozen=True)
class _Part:
    """Columns of words, or affine functions of the features.

    Args:
        count: of all features.
        words: the features of each column of words with their words; empty where ``values`` are given.
        values: affine functions of the features.
        names: of the columns; empty behind a transformer.
    """

    count: int
    columns: tuple[tuple[tuple[int, ...], tuple[Any, ...]], ...] = ()
    values: AffineScores | None = None
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, columns: Columns, names: Any) -> _Part:
        """The columns ``names``, in this order."""
        known = {name: (columns.places[k], columns.words[k]) for k, name in enumerate(columns.names)}
        if any(name not in known for name in names):
            raise InputError("The estimator cannot be read: it was fitted to columns of other names.")
        count = sum(len(places) for places in columns.places)
        return cls(count, tuple(known[name] for name in names), names=tuple(names))

    def chosen(self, wanted: Any) -> _Part:
        """Some of the columns, by name, number or mask, as a column transformer names them."""
        if isinstance(wanted, slice) or np.asarray(wanted).dtype == bool:
            places = np.arange(len(self.columns))[wanted].tolist()
        else:
            places = [self.names.index(one) if isinstance(one, str) else int(one) for one in np.atleast_1d(wanted)]
        return replace(self, columns=tuple(self.columns[k] for k in places), names=tuple(self.names[k] for k in places))

    def numbers(self) -> AffineScores:
        """The columns as affine functions; words have none."""
        if self.values is not None:
            return self.values
        if any(words for _, words in self.columns):
            raise InputError("The estimator cannot be read: it takes words by another way than a OneHotEncoder.")
        return _features(self.count, [places[0] for places, _ in self.columns])


@dataclass(frozen=True)
class _Steps:
    """Transformers, one after another."""

    steps: list[Any]

    def of(self, part: _Part) -> _Part:
        """What they make of ``part``."""
        for step in self.steps:
            if step is None or step == "passthrough":
                continue
            part = _after(step, part)
        return part


def _after(step: Any, part: _Part) -> _Part:
    """What one transformer makes of ``part``."""
    if is_named(step, ("FunctionTransformer",)) and step.func is None:  # how scikit-learn writes "passthrough"
        return part
    if is_named(step, ("Pipeline",)):
        return _Steps([one for _, one in step.steps]).of(part)
    if is_named(step, ("ColumnTransformer",)) and part.values is None:
        parts = [
            _after_name(step, name, own, part.chosen(wanted)).numbers()
            for name, own, wanted in step.transformers_
            if not (isinstance(own, str) and own == "drop") and np.size(wanted)
        ]
        return replace(part, columns=(), names=(), values=_stacked(parts))
    if is_named(step, ("OneHotEncoder",)) and part.values is None:
        return replace(part, columns=(), names=(), values=_encoded(step, part))
    if is_named(step, ("SimpleImputer",)):
        return _imputed(step, part)
    return replace(part, columns=(), names=(), values=of_transformer(step).behind(part.numbers()))


def _after_name(step: Any, name: str, own: Any, part: _Part) -> _Part:
    if (step.transformer_weights or {}).get(name, 1) != 1:
        raise InputError("The step ColumnTransformer with transformer_weights is not read.")
    return _Steps([own]).of(part)


def _imputed(step: Any, part: _Part) -> _Part:
    """The same values: no input of radii is missing."""
    missing, known = step.missing_values, np.asarray(step.statistics_)
    dropped = known.dtype.kind == "f" and bool(np.isnan(known).any())
    if step.add_indicator or dropped or not (isinstance(missing, float) and np.isnan(missing)):
        raise InputError("The step SimpleImputer adds, drops or replaces more than missing values.")
    return part


def _encoded(step: Any, part: _Part) -> AffineScores:
    """The features of words in the order of a one-hot encoder."""
    if any(own is not None for own in getattr(step, "infrequent_categories_", [])):
        raise InputError("The step OneHotEncoder joins infrequent categories, which is not read.")
    dropped = step.drop_idx_ if step.drop_idx_ is not None else [None] * len(part.columns)
    chosen = []
    for (places, words), known, left_out, name in zip(part.columns, step.categories_, dropped, part.names, strict=True):
        if not words:
            raise InputError(
                f"The step OneHotEncoder takes the column {name!r} as words, and the table has numbers or true and "
                "false there: write words, such as yes and no, before the model is fitted."
            )
        if not set(words) <= set(known.tolist()):
            raise InputError("The step OneHotEncoder knows other categories than the table has.")
        own = dict(zip(words, places, strict=True))
        chosen += [own.get(word, -1) for k, word in enumerate(known.tolist()) if k != left_out]
    return _features(part.count, chosen)


def _features(count: int, places: list[int]) -> AffineScores:
    """The features at ``places`` of ``count``; -1: the number 0."""
    every = identity(count)
    rows = [np.zeros(count) if place < 0 else every.weight[place] for place in places]
    weight = np.array(rows).reshape(-1, count)
    return AffineScores(weight, np.zeros(len(places)), weight, np.zeros(len(places)), 0.0)


def _stacked(parts: list[AffineScores]) -> AffineScores:
    """All functions of ``parts``, one part behind the other."""
    if not parts:
        raise InputError("The step ColumnTransformer leaves no column.")
    weight, bias, size, bias_size = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("weight", "bias", "size", "bias_size")
    )
    peaks = [part.peak for part in parts if part.peak is not None]
    return AffineScores(
        weight, bias, size, bias_size, max(part.rounding for part in parts),
        peak=np.max(peaks, axis=0) if peaks else None, peak_bias=max(part.peak_bias for part in parts),
    )  # fmt: skip
