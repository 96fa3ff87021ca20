"""Fitted linear estimators of scikit-learn as affine scores, behind scalers and projections of a pipeline.

Only exact classes are read: a subclass may compute something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from radii.errors import InputError, OtherKindError
from radii.models.feature_reach import Floats
from radii.models.linear.affine_scores import (
    SPAN32,
    SPAN64,
    UNIT32,
    UNIT64,
    WIDE32,
    WIDE64,
    AffineScores,
    growth,
    identity,
)

SLACK32, SLACK64 = 2.0**-16, 2.0**-40  # of logits behind a softmax or one sigmoid in float32 and in float64
SOFTMAX = ("LogisticRegression", "LogisticRegressionCV", "LinearDiscriminantAnalysis")
SIGMOIDS = ("SGDClassifier",)  # with several classes, if it has probabilities
SCORES = ("LinearSVC", "RidgeClassifier", "RidgeClassifierCV", "Perceptron", "PassiveAggressiveClassifier")
SEARCHES = ("GridSearchCV", "RandomizedSearchCV")
KNOWN = (*SOFTMAX, *SIGMOIDS, *SCORES)


def of_estimator(estimator: Any) -> AffineScores:
    """The scores of a fitted linear classifier, or of a pipeline that ends in one; others are refused by name."""
    if is_named(estimator, SEARCHES):
        return of_estimator(estimator.best_estimator_)
    if not is_named(estimator, ("Pipeline",)):
        return _finite(_classifier(estimator))
    *before, last = [step for _, step in estimator.steps]
    scores = of_estimator(last)
    for step in reversed(before):
        if step is not None and step != "passthrough":
            scores = scores.behind(of_transformer(step))
    return _finite(scores)


def is_named(estimator: Any, names: tuple[str, ...]) -> bool:
    """Whether ``estimator`` is of exactly one of these classes of scikit-learn."""
    kind = type(estimator)
    return kind.__name__ in names and kind.__module__.split(".")[0] == "sklearn"


def _classifier(estimator: Any) -> AffineScores:
    """W x + b of a linear classifier, with the margin that its probabilities need."""
    if not is_named(estimator, KNOWN):
        raise OtherKindError(f"The estimator {type(estimator).__name__} is not linear; {', '.join(KNOWN)} are.")
    if not hasattr(estimator, "coef_"):
        raise InputError(f"The estimator {type(estimator).__name__} is not fitted.")
    weight, bias = np.atleast_2d(_dense(estimator.coef_)), np.atleast_1d(np.asarray(estimator.intercept_))
    unit = UNIT64 if weight.dtype == bias.dtype == np.float64 else UNIT32
    weight = weight.astype(np.float64)
    bias = np.broadcast_to(bias.astype(np.float64), (len(weight),)).copy()
    scores = AffineScores(weight, bias, np.abs(weight), np.abs(bias), growth(weight.shape[1] + 4, unit))
    if len(getattr(estimator, "classes_", ())) not in (0, max(2, len(weight))) or _several_labels(estimator):
        raise InputError(f"The estimator {type(estimator).__name__} does not choose one of its classes by its scores.")
    if hasattr(estimator, "predict_proba"):
        scores = replace(scores, slack=SLACK64 if unit == UNIT64 else SLACK32)
        if is_named(estimator, SIGMOIDS):
            if estimator.loss != "log_loss" and len(weight) > 1:
                raise InputError(f"The probabilities of loss={estimator.loss!r} tie for several classes.")
            if len(weight) > 1:
                slack, span = (WIDE64, SPAN64) if unit == UNIT64 else (WIDE32, SPAN32)
                scores = replace(scores, link="sigmoids", slack=slack, span=span)
    return scores.as_two()


def _several_labels(estimator: Any) -> bool:
    """Whether a ridge classifier was fitted to several labels for each row."""
    return bool(getattr(getattr(estimator, "_label_binarizer", None), "y_type_", "").startswith("multilabel"))


def _dense(values: Any) -> Any:
    return values.toarray() if hasattr(values, "toarray") else np.asarray(values)


def of_transformer(step: Any) -> AffineScores:
    """What one step of a pipeline makes of its features."""
    for name, read in TRANSFORMERS.items():
        if is_named(step, (name,)):
            return read(step, int(step.n_features_in_))
    raise InputError(f"The step {type(step).__name__} is not affine; {', '.join(TRANSFORMERS)} are.")


def _scaled(center: Any, scale: Any, count: int) -> AffineScores:
    """(x - center) / scale, in float32."""
    middle = np.zeros(count) if center is None else np.asarray(center, dtype=np.float64)
    inverse = np.ones(count) if scale is None else 1 / np.asarray(scale, dtype=np.float64)
    weight, size = np.diag(inverse), np.diag(np.abs(inverse))
    return AffineScores(weight, -middle * inverse, size, np.abs(middle * inverse), growth(6, UNIT32))


def _min_max(step: Any) -> AffineScores:
    if step.clip:
        raise InputError("MinMaxScaler(clip=True) is not affine.")
    factor, offset = np.asarray(step.scale_, dtype=np.float64), np.asarray(step.min_, dtype=np.float64)
    return AffineScores(np.diag(factor), offset, np.diag(np.abs(factor)), np.abs(offset), growth(6, UNIT32))


def _max_abs(step: Any, count: int) -> AffineScores:
    if getattr(step, "clip", False):
        raise InputError("MaxAbsScaler(clip=True) is not affine.")
    return _scaled(None, step.scale_, count)


def _projected(step: Any, count: int) -> AffineScores:
    """C x - C mean, divided by the deviations if they are whitened; in float64 if the matrix C is."""
    unit = UNIT64 if step.components_.dtype == np.float64 else UNIT32
    weight = np.asarray(step.components_, dtype=np.float64)
    mean = np.zeros(count) if getattr(step, "mean_", None) is None else np.asarray(step.mean_, dtype=np.float64)
    if getattr(step, "whiten", False):
        deviation = np.sqrt(np.asarray(step.explained_variance_))
        weight = weight / np.maximum(deviation, np.finfo(deviation.dtype).eps).astype(np.float64)[:, None]
    size = np.abs(weight)
    return AffineScores(weight, -weight @ mean, size, size @ np.abs(mean), growth(2 * count + 8, unit))


def _chosen(step: Any, count: int) -> AffineScores:
    every = identity(count)
    kept = np.asarray(step.get_support())
    return replace(
        every,
        weight=every.weight[kept],
        bias=every.bias[kept],
        size=every.size[kept],
        bias_size=every.bias_size[kept],
        rounding=growth(2, UNIT32),
    )


TRANSFORMERS: dict[str, Callable[[Any, int], AffineScores]] = {
    "StandardScaler": lambda step, count: _scaled(
        step.mean_ if step.with_mean else None, step.scale_ if step.with_std else None, count
    ),
    "RobustScaler": lambda step, count: _scaled(
        step.center_ if step.with_centering else None, step.scale_ if step.with_scaling else None, count
    ),
    "MinMaxScaler": lambda step, _: _min_max(step),
    "MaxAbsScaler": _max_abs,
    "PCA": _projected,
    "TruncatedSVD": _projected,
    "VarianceThreshold": _chosen,
    "SelectKBest": _chosen,
}


def _finite(scores: AffineScores) -> AffineScores:
    """``scores``, if all their numbers are finite."""
    parts: tuple[Floats, ...] = (scores.weight, scores.bias, scores.size, scores.bias_size)
    if not all(np.isfinite(part).all() for part in parts):
        raise InputError("The estimator cannot be read: some of its weights are not finite numbers.")
    return scores
