"""Models in the libraries' own files are what the libraries compute; damaged ones get a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

import radii
from radii.models.trees.library_files import read_tree_file

MADE = {  # a stump of XGBoost 3, as it writes it: x[1] < 0.5 says class 0
    "learner": {
        "learner_model_param": {"base_score": "[5E-1]", "num_class": "0", "num_feature": "2"},
        "objective": {"name": "binary:logistic"},
        "gradient_booster": {
            "name": "gbtree",
            "model": {
                "tree_info": [0],
                "trees": [
                    {
                        "left_children": [1, -1, -1], "right_children": [2, -1, -1], "split_indices": [1, 0, 0],
                        "split_conditions": [0.5, -1.0, 1.0], "split_type": [0, 0, 0],
                        "tree_param": {"size_leaf_vector": "1"},
                    }
                ],
            },
        },
    }
}  # fmt: skip

LIGHT = """objective=binary sigmoid:1
num_tree_per_iteration=1
max_feature_idx=1

Tree=0
num_leaves=2
num_cat=0
split_feature=1
threshold=0.5
decision_type=2
left_child=-1
right_child=-2
leaf_value=-1 1
is_linear=0

"""


def xgboost(base: str, classes: int) -> str:
    """The stump for every class, with the values -1, 1 times 1, 2, …; the scores before them are ``base``."""
    content = json.loads(json.dumps(MADE))
    learner = content["learner"]
    learner["learner_model_param"] |= {"base_score": base, "num_class": str(classes)}
    learner["objective"]["name"] = "multi:softprob" if classes else "binary:logistic"
    model = learner["gradient_booster"]["model"]
    model["tree_info"] = list(range(max(classes, 1)))
    stump = model["trees"][0]
    model["trees"] = [
        stump | {"split_conditions": [0.5, -1.0 * k, 1.0 * k]} for k in range(1, len(model["tree_info"]) + 1)
    ]
    return json.dumps(content)


def catboost(leaves: list[float], scale: float, bias: list[float]) -> str:
    """One tree: leaf 1 (x[0] > 0.5) + 2 (x[1] > 0.25)."""
    kinds = {"split_type": "FloatFeature"}
    splits = [{"border": 0.5, "float_feature_index": 0, **kinds}, {"border": 0.25, "float_feature_index": 1, **kinds}]
    features = [{"feature_index": k, "flat_feature_index": k} for k in range(2)]
    tree = {"splits": splits, "leaf_values": leaves}
    content = {"features_info": {"float_features": features}, "oblivious_trees": [tree]}
    return json.dumps(content | {"scale_and_bias": [scale, bias]})


ROWS = [[0.5, 0.25], [0.6, 0.25], [0.5, 0.5], [0.6, 0.6]]
LOGIT = float(np.log(0.2 / 0.8))


@pytest.mark.parametrize(
    ("name", "text", "scores"),
    [
        ("model.json", xgboost("[2E-1]", 0), [LOGIT - 1, LOGIT - 1, LOGIT + 1, LOGIT + 1]),
        ("model.json", xgboost("5E-1", 3), [[0.5 + s * k for k in (1, 2, 3)] for s in (-1, -1, 1, 1)]),
        ("model.json", xgboost("[1E-1,2E-1,4E-1]", 3), [[0.1 + s, 0.2 + 2 * s, 0.4 + 3 * s] for s in (-1, -1, 1, 1)]),
        ("model.json", catboost([1.0, 2.0, 3.0, 4.0], 2.0, [0.5]), [2.5, 4.5, 6.5, 8.5]),
        (
            "model.json",
            catboost([float(k) for k in range(12)], 1.0, [0.0, 10.0, 20.0]),
            [[3.0 * k, 3 * k + 11, 3 * k + 22] for k in range(4)],
        ),
        ("model.txt", LIGHT, [-1.0, -1.0, -1.0, 1.0]),
    ],
)
def test_made_files_have_the_scores_that_one_reads_off(
    name: str, text: str, scores: list[float], tmp_path: Path
) -> None:
    """On thresholds and above them: base scores, classes of trees, scale and bias, the order of leaves."""
    path = tmp_path / name
    path.write_text(text)
    assert read_tree_file(path).decision_function(np.array(ROWS, np.float32)) == pytest.approx(np.array(scores))


def test_a_stump_of_xgboost_has_the_radius_that_one_reads_off(tmp_path: Path) -> None:
    path = tmp_path / "stump.json"
    path.write_text(json.dumps(MADE))
    below = np.nextafter(np.float32(0.5), np.float32(0))
    x = np.array([[0.3, 0.2], [0.9, 0.75], [0.1, 0.5], [0.1, below]], np.float32)
    scores = radii.evaluate(read_tree_file(path), x, np.array([0, 1, 1, 0]), "linf:0.1", alarms=False)
    assert scores.points.prediction.tolist() == [0, 1, 1, 0]
    assert scores.points.changed_radius == pytest.approx([0.3, 0.25, 0, 0], abs=1e-6)
    assert scores.points.proved_radius == pytest.approx([0.3, 0.25, 0, 0], abs=1e-6)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_the_librarys_file_gives_the_librarys_classes(library: str, tmp_path: Path) -> None:
    x, y = load_iris(return_X_y=True)
    module = pytest.importorskip(library)
    if library == "xgboost":
        fitted, path = module.XGBClassifier(n_estimators=5, n_jobs=1).fit(x, y), tmp_path / "model.json"
        fitted.save_model(path)
    elif library == "lightgbm":
        fitted, path = module.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(x, y), tmp_path / "model.txt"
        fitted.booster_.save_model(path)
    else:
        settings = {"iterations": 5, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
        fitted, path = module.CatBoostClassifier(**settings).fit(x, y), tmp_path / "model.json"
        fitted.save_model(str(path), format="json")
    rows = x.astype(np.float32)
    read, proba = read_tree_file(path), fitted.predict_proba(rows)
    scores = read.decision_function(rows)
    scores = scores - scores.max(1, keepdims=True)
    mine = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert np.abs(mine - proba).max() < 1e-5


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("model.json", "{", "cannot be read"),
        ("model.json", "[]", "no JSON model of XGBoost or CatBoost"),
        ("model.json", '{"learner": {}}', "no JSON model of XGBoost"),
        ("model.json", '{"oblivious_trees": [], "features_info": {"float_features": []}}', "no JSON model of CatBoost"),
        ("model.txt", "a letter", "no text model of LightGBM"),
        ("model.json", json.dumps(MADE).replace("gbtree", "dart"), "'dart'"),
        ("model.json", json.dumps(MADE).replace("binary:logistic", "reg:squarederror"), "reg:squarederror"),
        ("model.json", json.dumps(MADE).replace('"split_type": [0', '"split_type": [1'), "categories"),
        ("model.json", json.dumps(MADE).replace('"num_feature": "2"', '"num_feature": "1"'), "feature 1 of 1"),
        ("model.json", json.dumps(MADE).replace("[2, -1, -1]", "[0, -1, -1]"), "circle"),
        ("model.json", json.dumps(MADE).replace("[2, -1, -1]", "[9, -1, -1]"), "node 9"),
        ("model.json", json.dumps(MADE).replace("1.0]", "NaN]"), "finite"),
        ("model.json", json.dumps(MADE).replace('leaf_vector": "1"', 'leaf_vector": "3"'), "several values"),
        ("model.json", catboost([1, 2, 3, 4], 1, [0]).replace("FloatFeature", "OneHotFeature"), "on categories"),
        ("model.json", catboost([1, 2, 3, 4], 1, [0]).replace("oblivious_trees", "trees"), "symmetric trees"),
        ("model.txt", LIGHT.replace("decision_type=2", "decision_type=6"), "zero_as_missing"),
        ("model.txt", LIGHT.replace("num_cat=0", "num_cat=1"), "categories or linear"),
        ("model.txt", LIGHT.replace("is_linear=0", "is_linear=1"), "categories or linear"),
        ("model.txt", "average_output\n" + LIGHT, "averages its trees"),
        ("model.txt", LIGHT.replace("binary", "regression"), "regression"),
    ],
)
def test_what_is_damaged_or_not_read_gets_a_sentence(name: str, text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(radii.InputError, match=said) as caught:
        read_tree_file(path)
    assert name in str(caught.value)
