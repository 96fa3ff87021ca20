"""Fitted estimators of any library, by what they offer: probabilities, scores, or the name of a class alone.

Columns of words come to an estimator as the words with which it was fitted; for radii they are groups of columns
``name=word`` of which one is 1, and no attack changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from radii.errors import InputError, reason
from radii.models.adapter import BlackBox
from radii.threat import Ball

if TYPE_CHECKING:
    from radii.data.columns import Columns

ASKED = ("predict_proba", "decision_function", "predict")


class OneMethod:
    """An estimator that is asked by one of its methods alone, as ``model.predict`` asks to.

    Args:
        method: its name.
        ask: what answers; a function of a data frame, too.
        owner: whose other attributes are those of the estimator, if there is one.
    """

    def __init__(self, method: str, ask: Callable[[Any], Any], owner: Any = None) -> None:
        self.owner, self.method = owner, method
        setattr(self, method, ask)

    def __getattr__(self, name: str) -> Any:
        if name in ASKED or name.startswith("__") or name in ("owner", "method"):
            raise AttributeError(name)
        return getattr(self.owner, name)


def of_method(model: Any, is_frame: bool) -> Any:
    """A method of an estimator as an estimator; a function of data frames, too, if ``is_frame``; else ``model``."""
    name, owner = getattr(model, "__name__", ""), getattr(model, "__self__", None)
    if name in ASKED and owner is not None:
        asked_anyway = next(method for method in ASKED if hasattr(owner, method)) == name
        return owner if asked_anyway else OneMethod(name, model, owner)
    known = any(hasattr(model, method) for method in ASKED)
    return OneMethod("predict", model) if is_frame and not known else model


def answering(model: Any, x: Tensor, count: int, named: Sequence[Any] = ()) -> BlackBox:
    """An estimator with ``predict`` alone as a model; what its answers are is seen on ``x``.

    Args:
        count: of the classes, at least; an estimator that names classes does not always say how many it knows.
        named: the classes, for an estimator that answers with their names and has no ``classes_``.
    """
    ask = _predict(model)
    try:
        answer = np.asarray(ask(x.detach().cpu().numpy()))
    except Exception as error:
        raise InputError(f"{kind(model)}.predict fails on inputs {tuple(x.shape)}: {reason(error)}.") from error
    if answer.ndim == 2 and answer.shape[1] > 1:
        proper = bool((answer >= 0).all() and (abs(answer.sum(1) - 1) < 1e-3).all())
        return _readable(BlackBox(ask, probabilities=proper), model)
    if answer.dtype.kind == "f" and not np.array_equal(answer, np.rint(answer)):
        inside = bool((answer >= 0).all() and (answer <= 1).all())
        return _readable(BlackBox(lambda pixels: np.asarray(ask(pixels)).reshape(len(pixels), 1), inside), model)
    words = list(named) if answer.dtype.kind in "OUS" and len(named) else range(max(count, 2))
    names = list(getattr(model, "classes_", words))
    box = BlackBox(lambda pixels: _one_hot(np.asarray(ask(pixels)).reshape(-1), names), probabilities=False)
    box.decisions = True
    return box


def _readable(box: BlackBox, model: Any) -> BlackBox:
    """``box`` with the booster behind it, whose trees can be read."""
    if library(model) == "lightgbm" and kind(model) == "Booster":
        box.estimator = model
    return box


def _predict(model: Any) -> Callable[[NDArray[np.float32]], Any]:
    """How ``predict`` is called: boosters of XGBoost want a matrix of their own, CatBoost says what it returns."""
    source = library(model)

    def flat(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        return pixels.reshape(len(pixels), -1)

    if source == "xgboost" and kind(model) == "Booster":
        import xgboost

        names = getattr(model, "feature_names", None)
        return lambda pixels: model.predict(xgboost.DMatrix(flat(pixels), feature_names=names))
    if source == "catboost":
        return lambda pixels: model.predict(flat(pixels), prediction_type="Probability")
    if source in ("sklearn", "lightgbm") or hasattr(model, "classes_") or hasattr(model, "n_features_in_"):
        return lambda pixels: model.predict(flat(pixels))
    return model.predict  # type: ignore[no-any-return]  # of images, perhaps


def _one_hot(said: NDArray[Any], names: Sequence[Any]) -> NDArray[np.float32]:
    """Scores [n, classes]: 1 for the class that was said."""
    place = {name: number for number, name in enumerate(names)}
    unknown = sorted({str(value) for value in said.tolist() if value not in place})
    if unknown:
        raise InputError(f"The model names the class {unknown[0]}, which is none of {', '.join(map(str, names))}.")
    scores = np.zeros((len(said), len(names)), np.float32)
    scores[np.arange(len(said)), [place[value] for value in said.tolist()]] = 1
    return scores


def class_names(model: Any) -> list[Any] | None:
    """What a model calls its classes: ``classes_`` of an estimator, the labels of a model of transformers; or None."""
    names = getattr(model, "classes_", None)
    if names is not None and np.ndim(names) == 1:
        return np.asarray(names).tolist()
    labels = getattr(getattr(model, "config", None), "id2label", None)
    if isinstance(labels, dict) and labels and not any(str(label).startswith("LABEL_") for label in labels.values()):
        return [labels[key] for key in sorted(labels)]
    return None


class OnColumns:
    """A fitted estimator that is asked by features and gets the columns that it was fitted to."""

    def __init__(self, estimator: Any, columns: Columns) -> None:
        self.estimator, self.columns = estimator, columns
        absent = [name for name in self._names or () if name not in columns.names]
        if absent:
            raise InputError(
                f"{kind(estimator)} was fitted with the column {absent[0]!r}, which the table does not have; its "
                f"columns are {', '.join(map(str, columns.names))}."
            )

    @property
    def plain(self) -> Any:
        """The estimator itself if the features are its columns in its order, so that its numbers can be read."""
        same = self._names is None or self._names == list(self.columns.names)
        return None if any(self.columns.words) or not same else self.estimator

    @property
    def _names(self) -> list[str] | None:
        names = getattr(self.estimator, "feature_names_in_", None)
        names = getattr(self.estimator, "feature_names", None) if names is None else names
        return None if names is None else list(names)

    def __getattr__(self, name: str) -> Any:
        if name in ("estimator", "columns") or name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self.estimator, name)
        if name not in ASKED:
            return value
        more = {"prediction_type": "Probability"} if library(self.estimator) == "catboost" and name == "predict" else {}
        return lambda features: value(self._wanted(self.columns.frame(features)), **more)

    def _wanted(self, frame: Any) -> Any:
        frame = frame if self._names is None else frame[self._names]
        if library(self.estimator) == "xgboost" and kind(self.estimator) == "Booster":
            import xgboost

            return xgboost.DMatrix(frame, enable_categorical=True)
        return frame


def kind(model: Any) -> str:
    """The name of the user's class."""
    own = model.estimator if isinstance(model, OnColumns) else model
    return type(own.owner if isinstance(own, OneMethod) and own.owner is not None else own).__name__


def library(model: Any) -> str:
    """The package of the user's class."""
    return type(model).__module__.partition(".")[0]


def check_words(estimator: Any, ball: Ball) -> None:
    """Refuse a ball in which the features of a word become anything but one 1."""
    if not isinstance(estimator, OnColumns):
        return
    held = {*ball.fixed, *(feature for group in ball.limits.groups for feature in group)}
    free = [feature for feature in estimator.columns.fixed if feature not in held]
    if free:
        raise InputError(
            f"Feature {free[0]} stands for a word, and {ball} lets it become any number: make it fixed, or name "
            "its group in FeatureLimits(groups=…)."
        )


def of_columns(
    model: Any, names: Sequence[str], groups: Sequence[Sequence[int]], rows: NDArray[np.float32] | None = None
) -> Any:
    """``model`` for features of these names, if it was fitted to a table with the columns behind them; else as it is.

    Args:
        names: of the features.
        groups: the features of each column of words.
        rows: some features [n, d]; a model of one's own that fails on them and has a table with words gets its columns.
    """
    wanted = getattr(model, "feature_names_in_", None)
    method = next((name for name in ASKED if hasattr(model, name)), "")
    takes_words = wanted is None and groups and method and rows is not None and _fails(getattr(model, method), rows)
    if not names or not (wanted is not None or takes_words):
        return model
    from radii.data.columns import Columns  # loaded where it is asked for

    columns = Columns.of_features(names, groups)
    if wanted is not None and len(wanted) == len(names) and not {*wanted} <= {*columns.names}:
        return model  # fitted to other names of the same features
    return OnColumns(model, columns)


def _fails(ask: Callable[[NDArray[np.float32]], Any], rows: NDArray[np.float32]) -> bool:
    try:
        ask(rows)
    except Exception:  # of any kind: it is the user's own code
        return True
    return False
