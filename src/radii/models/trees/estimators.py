"""Fitted tree ensembles of scikit-learn, XGBoost, LightGBM and CatBoost in the one form; others are refused by name.

Only exact classes are read: a subclass may compute something else.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError, OtherKindError
from radii.models.trees.ensemble import NONE, UNIT64, OneTree, TreeEnsemble, joined
from radii.models.trees.library_files import of_catboost, of_lightgbm, of_xgboost

SLACK64 = 2.0**-40  # of scores behind a softmax or a logistic function in float64


def of_estimator(estimator: Any) -> TreeEnsemble:
    """The trees of a fitted classifier."""
    kind = type(estimator)
    name = f"{kind.__module__.split('.')[0]}.{kind.__name__}"
    if name in ("sklearn.GridSearchCV", "sklearn.RandomizedSearchCV"):
        return of_estimator(estimator.best_estimator_)
    if name in ("sklearn.Pipeline", "radii.OnColumns"):
        from radii.models.trees.pipelines import of_pipeline

        return of_pipeline(estimator, of_estimator)
    if name not in READERS:
        known = ", ".join(known.split(".")[1] for known in READERS)
        raise OtherKindError(f"The estimator {kind.__name__} is no tree ensemble that can be read; {known} are.")
    return READERS[name](estimator)


def _sklearn_tree(tree: Any, value: NDArray[np.float64]) -> OneTree:
    """One tree of scikit-learn, which compares float32 values with thresholds in float64 by <=."""
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
    feature = np.where(left < 0, NONE, np.asarray(tree.feature))
    return OneTree(feature, np.asarray(tree.threshold), left, right, value)


def _forest(estimator: Any) -> TreeEnsemble:
    """The mean of the trees' probabilities, or those of one tree."""
    single = not hasattr(estimator, "estimators_")
    trees = [estimator] if single else list(estimator.estimators_)
    if not isinstance(estimator.n_classes_, int | np.integer):
        raise InputError(f"{type(estimator).__name__} was fitted to several labels for each row.")
    parts = []
    for one in trees:
        counts = np.asarray(one.tree_.value)[:, 0, :]
        shares = counts / np.maximum(counts.sum(1, keepdims=True), 1e-300)
        parts.append(_sklearn_tree(one.tree_, shares / len(trees)))
    return joined(parts, np.zeros(int(estimator.n_classes_)), int(estimator.n_features_in_), UNIT64, 0.0)


def _gradient_boosting(estimator: Any) -> TreeEnsemble:
    """The raw score of the prior, and the trees' values times the learning rate."""
    features, classes = int(estimator.n_features_in_), max(2, int(estimator.n_classes_))
    if estimator.loss != "log_loss":
        raise InputError(f"GradientBoostingClassifier(loss={estimator.loss!r}) is not read, loss='log_loss' is.")
    if estimator.init not in (None, "zero"):
        raise InputError("GradientBoostingClassifier with an init estimator is not read.")
    start = np.atleast_1d(np.asarray(estimator._raw_predict_init(np.zeros((1, features), np.float32)))[0])
    parts = []
    for stage in estimator.estimators_:
        for place, one in enumerate(stage):
            value = np.zeros((one.tree_.node_count, classes))
            value[:, 1 if len(stage) == 1 else place] = estimator.learning_rate * one.tree_.value[:, 0, 0]
            parts.append(_sklearn_tree(one.tree_, value))
    base = np.array([0.0, start[0]]) if len(start) == 1 else start
    return joined(parts, base, features, UNIT64, SLACK64)


def _histogram_boosting(estimator: Any) -> TreeEnsemble:
    """The baseline and the leaves of every tree; values are compared in float64 by <=."""
    if getattr(estimator, "is_categorical_", None) is not None and np.any(estimator.is_categorical_):
        raise InputError("HistGradientBoostingClassifier with categorical features is not read.")
    start, classes = np.asarray(estimator._baseline_prediction).ravel(), max(2, len(estimator.classes_))
    parts = []
    for stage in estimator._predictors:
        for place, one in enumerate(stage):
            nodes = one.nodes
            leaf = nodes["is_leaf"].astype(bool)
            value = np.zeros((len(nodes), classes))
            value[:, 1 if len(stage) == 1 else place] = np.where(leaf, nodes["value"], 0.0)
            parts.append(
                OneTree(
                    np.where(leaf, NONE, nodes["feature_idx"].astype(np.int64)),
                    nodes["num_threshold"].astype(np.float64),
                    nodes["left"].astype(np.int64),
                    nodes["right"].astype(np.int64),
                    value,
                )
            )
    base = np.array([0.0, start[0]]) if len(start) == 1 else start
    return joined(parts, base, int(estimator.n_features_in_), UNIT64, SLACK64)


def _xgboost(estimator: Any) -> TreeEnsemble:
    if not np.isnan(estimator.missing):
        raise InputError(f"XGBoost with missing={estimator.missing} is not read: that value goes its own way.")
    booster = estimator.get_booster()
    if (best := getattr(estimator, "best_iteration", None)) is not None:  # after an early stop, the rest is not used
        booster = booster[: best + 1]
    return of_xgboost(json.loads(booster.save_raw("json")))


def _lightgbm(estimator: Any) -> TreeEnsemble:
    if estimator.get_params().get("pred_early_stop"):
        raise InputError("LightGBM with pred_early_stop is not read: it leaves out trees of clear rows.")
    return of_lightgbm(estimator.booster_.model_to_string())


def _lightgbm_booster(booster: Any) -> TreeEnsemble:
    if booster.params.get("pred_early_stop"):
        raise InputError("LightGBM with pred_early_stop is not read: it leaves out trees of clear rows.")
    return of_lightgbm(booster.model_to_string())


def _catboost(estimator: Any) -> TreeEnsemble:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        estimator.save_model(str(path), format="json")
        return of_catboost(json.loads(path.read_text(encoding="utf-8")))


READERS: dict[str, Callable[[Any], TreeEnsemble]] = {
    "sklearn.DecisionTreeClassifier": _forest,
    "sklearn.ExtraTreeClassifier": _forest,
    "sklearn.RandomForestClassifier": _forest,
    "sklearn.ExtraTreesClassifier": _forest,
    "sklearn.GradientBoostingClassifier": _gradient_boosting,
    "sklearn.HistGradientBoostingClassifier": _histogram_boosting,
    "xgboost.XGBClassifier": _xgboost,
    "xgboost.XGBRFClassifier": _xgboost,
    "lightgbm.LGBMClassifier": _lightgbm,
    "lightgbm.Booster": _lightgbm_booster,
    "catboost.CatBoostClassifier": _catboost,
    "radii.TreeClassifier": lambda classifier: classifier.ensemble,
}
