"""A tree ensemble in a file of its library, as a classifier that radii runs itself: no library is needed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError, reason
from radii.models.trees.ensemble import TreeEnsemble
from radii.models.trees.library_files import of_catboost, of_lightgbm, of_xgboost


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
