"""Models of XGBoost (JSON), LightGBM (text) and CatBoost (JSON) as they write them; nothing in them is run.

A file of theirs becomes a classifier that radii runs itself: no library is needed.

What is refused, by name: categories, linear leaves, other objectives than classification, and inputs of which the
library treats some values as missing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError, reason
from radii.models.trees.ensemble import NONE, UNIT32, UNIT64, OneTree, TreeEnsemble, joined, less_than

SLACK32, SLACK64 = 2.0**-16, 2.0**-40  # of scores behind a softmax or a logistic function
ZERO = float(np.float32(1e-35))  # LightGBM's kZeroThreshold
XGBOOST = ("binary:logistic", "binary:logitraw", "multi:softprob", "multi:softmax", "binary:hinge")


def of_xgboost(content: Any) -> TreeEnsemble:
    """The trees of a model of XGBoost: float32 values compared by <, summed in float32."""
    try:
        learner = content["learner"]
        booster, objective = learner["gradient_booster"], learner["objective"]["name"]
        shape = learner["learner_model_param"]
        if booster["name"] != "gbtree":
            raise InputError(f"A booster {booster['name']!r} of XGBoost is not read, 'gbtree' is.")
        if objective not in XGBOOST[:4]:
            raise InputError(f"The objective {objective!r} of XGBoost is not read; {', '.join(XGBOOST[:4])} are.")
        several, model = max(1, int(shape["num_class"])), booster["model"]
        classes = max(2, several)
        written = [float(word) for word in str(shape["base_score"]).strip("[]").split(",")]
        trees = [
            _xgboost_tree(tree, classes, int(place) if several > 1 else 1)
            for tree, place in zip(model["trees"], model["tree_info"], strict=True)
        ]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"This is no JSON model of XGBoost: {reason(error)}.") from error
    start = np.array(written if len(written) > 1 else written * several, dtype=np.float32).astype(np.float64)
    if objective == "binary:logistic":
        start = np.log(start / (1 - start))
    base = np.array([0.0, start[0]]) if several == 1 else start
    return joined(trees, base, int(shape["num_feature"]), UNIT32, SLACK32)


def _xgboost_tree(tree: Any, classes: int, place: int) -> OneTree:
    if any(tree["split_type"]) or tree.get("categories_nodes"):
        raise InputError("Trees of XGBoost with categories are not read.")
    if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise InputError("Trees of XGBoost with several values in a leaf are not read.")
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    written = np.array(tree["split_conditions"], dtype=np.float64).astype(np.float32)
    value = np.zeros((len(left), classes))
    value[left < 0, place] = written[left < 0]
    feature = np.where(left < 0, NONE, np.array(tree["split_indices"]))
    return OneTree(feature, less_than(written).astype(np.float64), left, right, value)


def of_lightgbm(text: str) -> TreeEnsemble:
    """The trees of a model of LightGBM: float64 values compared by <=, summed in float64."""
    head, *blocks = text.split("\nTree=")
    fields = dict(line.split("=", 1) for line in head.splitlines() if "=" in line)
    try:
        objective, several = fields["objective"].split()[0], int(fields["num_tree_per_iteration"])
        features = int(fields["max_feature_idx"]) + 1
        if objective not in ("binary", "multiclass"):
            raise InputError(f"The objective {objective!r} of LightGBM is not read; binary and multiclass are.")
        trees = [
            _lightgbm_tree(block, max(2, several), number % several if several > 1 else 1)
            for number, block in enumerate(blocks)
        ]
    except (KeyError, ValueError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"This is no text model of LightGBM: {reason(error)}.") from error
    if "average_output" in head.splitlines():
        raise InputError("A model of LightGBM that averages its trees (boosting='rf') is not read.")
    return joined(trees, np.zeros(max(2, several)), features, UNIT64, SLACK64)


def _lightgbm_tree(block: str, classes: int, place: int) -> OneTree:
    lines = block.split("\n\n")[0].splitlines()[1:]
    fields = dict(line.split("=", 1) for line in lines if "=" in line)
    leaves, inner = int(fields["num_leaves"]), int(fields["num_leaves"]) - 1
    if int(fields.get("num_cat", 0)) or int(fields.get("is_linear", 0)):
        raise InputError("Trees of LightGBM with categories or linear leaves are not read.")

    def numbers(name: str, kind: Any) -> NDArray[Any]:
        return np.array(fields[name].split(), dtype=kind) if inner else np.zeros(0, kind)

    missing = (numbers("decision_type", np.int64) >> 2) & 3
    if (missing == 1).any():
        raise InputError("Trees of LightGBM that treat 0 as missing (zero_as_missing) are not read.")
    left, right = (
        np.where(own < 0, inner + ~own, own) for own in (numbers("left_child", int), numbers("right_child", int))
    )
    value = np.zeros((inner + leaves, classes))
    value[inner:, place] = np.array(fields["leaf_value"].split(), dtype=np.float64)
    pad = np.zeros(leaves, np.int64)
    return OneTree(
        np.concatenate([numbers("split_feature", np.int64), pad + NONE]),
        np.concatenate([_zeros_alike(numbers("threshold", np.float64)), pad.astype(np.float64)]),
        np.concatenate([left, pad]).astype(np.int64),
        np.concatenate([right, pad]).astype(np.int64),
        value,
    )


def _zeros_alike(threshold: NDArray[np.float64]) -> NDArray[np.float64]:
    """The thresholds as they act: LightGBM reads every number of at most ZERO in size as 0."""
    tiny = np.abs(threshold) <= ZERO
    return np.where(tiny, np.where(threshold >= 0, ZERO, np.nextafter(-ZERO, -np.inf)), threshold)


def of_catboost(content: Any) -> TreeEnsemble:
    """The trees of a model of CatBoost: float32 values compared by >, summed in float64; usually oblivious."""
    try:
        described = content["features_info"]
        if described.get("categorical_features") or described.get("text_features"):
            raise InputError("Models of CatBoost with categories or texts are not read.")
        floats = sorted(described["float_features"], key=lambda own: own["feature_index"])
        numbers = [int(own["flat_feature_index"]) for own in floats]
        factor, start = content["scale_and_bias"]
        start = np.atleast_1d(np.asarray(start, dtype=np.float64))
        if "oblivious_trees" not in content:
            raise InputError("Models of CatBoost are read with symmetric trees (grow_policy='SymmetricTree') only.")
        several = len(content["oblivious_trees"][0]["leaf_values"]) >> len(
            content["oblivious_trees"][0]["splits"] or []
        )
        trees = [_oblivious(tree, numbers, several, float(factor)) for tree in content["oblivious_trees"]]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"This is no JSON model of CatBoost: {reason(error)}.") from error
    base = np.array([0.0, start[0]]) if several == 1 else np.broadcast_to(start, (several,)).copy()
    return joined(trees, base, max(numbers, default=0) + 1, UNIT64, SLACK64)


def _oblivious(tree: Any, numbers: list[int], several: int, factor: float) -> OneTree:
    """A tree that asks one question at each depth: split i sets bit i of the leaf's number."""
    splits = tree["splits"] or []
    depth = len(splits)
    if any(split["split_type"] != "FloatFeature" for split in splits):
        raise InputError("Splits of CatBoost on categories are not read.")
    inner, leaves = 2**depth - 1, 2**depth
    feature, threshold = np.full(inner + leaves, NONE), np.zeros(inner + leaves)
    left, right = np.zeros(inner + leaves, np.int64), np.zeros(inner + leaves, np.int64)
    for level in range(depth):
        split = splits[depth - 1 - level]  # the last split is asked at the root, so leaves stand in their order
        own = slice(2**level - 1, 2 ** (level + 1) - 1)
        feature[own] = numbers[int(split["float_feature_index"])]
        threshold[own] = np.float32(split["border"])
        below = np.arange(2**level - 1, 2 ** (level + 1) - 1)
        left[own], right[own] = 2 * below + 1, 2 * below + 2
    written = factor * np.asarray(tree["leaf_values"], dtype=np.float64).reshape(leaves, several)
    value = np.zeros((inner + leaves, max(2, several)))
    value[inner:, 1:] = written if several == 1 else value[inner:, 1:]
    if several > 1:
        value[inner:] = written
    return OneTree(feature, threshold, left, right, value)


@dataclass(frozen=True)
class TreeClassifier:
    """The scores of ``ensemble``, summed in float64, as an estimator of scikit-learn gives them."""

    ensemble: TreeEnsemble

    def decision_function(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """The scores [n, classes] of rows [n, d]; for two classes, how much class 1 exceeds class 0: [n]."""
        rows = np.asarray(x, dtype=np.float32).reshape(len(x), -1)
        if rows.shape[1] < self.ensemble.features:
            raise ValueError(f"the trees read {self.ensemble.features} features")
        scores = self.ensemble.scores(rows)
        return scores if self.ensemble.classes > 2 else scores[:, 1] - scores[:, 0]


def read_tree_file(path: Path) -> TreeClassifier:
    """The classifier in a JSON model of XGBoost or CatBoost, or in a text model of LightGBM; nothing in it is run."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".txt":
            return TreeClassifier(of_lightgbm(text))
        content = json.loads(text)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as a model of trees: {reason(error)}.") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if not isinstance(content, dict) or not {"learner", "oblivious_trees", "trees"} & content.keys():
        raise InputError(f"{path} is no JSON model of XGBoost or CatBoost.")
    try:
        return TreeClassifier(of_xgboost(content) if "learner" in content else of_catboost(content))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
