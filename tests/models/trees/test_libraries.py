"""Trees read from libraries give the libraries' own classes, at and beside every threshold, and exact radii."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier
from tests.models.trees.test_tree_files import xgboost

import radii
from radii.models.adapter import BlackBox
from radii.models.trees import read
from radii.models.trees.ensemble import at_most
from radii.models.trees.library_files import of_lightgbm
from radii.threat import Ball


def from_library(name: str, kind: str, **settings: Any) -> Any:
    return getattr(pytest.importorskip(name), kind)(**settings)


MODELS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "forest": lambda: RandomForestClassifier(10, random_state=0),
    "extra": lambda: ExtraTreesClassifier(10, max_depth=4, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=8, random_state=0),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=8),
    "xgboost": lambda: from_library("xgboost", "XGBClassifier", n_estimators=8, n_jobs=1),
    "xgboost forest": lambda: from_library("xgboost", "XGBRFClassifier", n_estimators=8, n_jobs=1),
    "lightgbm": lambda: from_library("lightgbm", "LGBMClassifier", n_estimators=8, verbose=-1, n_jobs=1),
    "catboost": lambda: from_library(
        "catboost", "CatBoostClassifier", iterations=8, depth=3, verbose=0, allow_writing_files=False, thread_count=1
    ),
}
DATA = {"two classes": load_breast_cancer, "three classes": load_iris}


@pytest.mark.parametrize("data", list(DATA))
@pytest.mark.parametrize("name", list(MODELS))
def test_scores_are_the_librarys_at_every_threshold(name: str, data: str) -> None:
    """Each row has one feature on a threshold, or on the next float32 number above it."""
    x, y = DATA[data](return_X_y=True)
    model = BlackBox(MODELS[name]().fit(x, y))
    search = read.tree_search(model, (x.shape[1],))
    rng, rows = np.random.default_rng(0), []
    for feature, cuts in enumerate(search.thresholds):
        for cut in cuts[:: max(1, len(cuts) // 6)]:
            for value in (np.nextafter(cut, np.float32(-np.inf)), cut, np.nextafter(cut, np.float32(np.inf))):
                row = x[rng.integers(len(x))].astype(np.float32)
                row[feature] = value
                rows.append(row)
    asked = np.array(rows)
    scores = search.ensemble.scores(asked)
    clear = np.diff(np.sort(scores, 1)[:, -2:], axis=1)[:, 0] > search.ensemble.error
    assert clear.mean() > 0.8
    assert (scores.argmax(1) == search.predict(asked))[clear].all()
    returned = model(torch.from_numpy(asked)).double().numpy()  # logarithms of probabilities
    wanted = np.log(np.maximum(scores, 1e-30)) if search.ensemble.slack == 0 else scores
    gap = (wanted - wanted[:, :1]) - (returned - returned[:, :1])
    assert np.abs(gap[(returned > -60).all(1) & (wanted > -60).all(1)]).max(initial=0.0) < 1e-3


@pytest.mark.parametrize("name", list(MODELS))
def test_proved_and_broken_radius_meet(name: str) -> None:
    x, y = load_iris(return_X_y=True)
    fitted, rows = MODELS[name]().fit(x, y), x[::10].astype(np.float32)
    for norm in ("linf", "l2", "l1"):
        scores = radii.evaluate(fitted, rows, y[::10], Ball(norm, 0.33, None, fixed=(1,)), alarms=False)
        proved, reached = scores.points.proved_radius, scores.points.changed_radius
        assert (reached - proved <= 1e-4 * reached + 1e-6).all()  # a point may lie on a threshold
        assert (proved <= reached).all()
        assert scores.certificate_method == "trees"
        broken = torch.from_numpy(scores.points.changed)
        assert (BlackBox(fitted)(scores.x_adv[broken]).argmax(1).numpy() != scores.points.prediction[broken]).all()
        assert not bool((scores.x_adv - torch.from_numpy(rows))[:, 1].any())


@pytest.mark.parametrize("name", ["tree", "forest", "histogram", "lightgbm", "xgboost"])
def test_thresholds_that_are_read_wrongly_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One float32 number more, as "<=" read for "<" would be."""
    x, y = load_iris(return_X_y=True)
    fitted, own = MODELS[name]().fit(x, y), read.of_estimator

    def shifted(estimator: Any) -> Any:
        ensemble = own(estimator)
        ensemble.compared[:] = np.nextafter(at_most(ensemble.compared), np.float32(np.inf))
        return ensemble

    monkeypatch.setattr(read, "of_estimator", shifted)
    with pytest.raises(radii.InputError, match="something else than was read"):
        radii.certify(fitted, x[::5].astype(np.float32), "trees", "linf:0.1,nobox")


@pytest.mark.parametrize("threshold", ["0", "1e-40", "-1e-36", "-1.0000000180025095e-35", "-1e-34"])
def test_lightgbm_takes_tiny_numbers_for_zero(threshold: str) -> None:
    module, rng = pytest.importorskip("lightgbm"), np.random.default_rng(0)
    x = rng.normal(size=(200, 1))
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1, "num_leaves": 2}
    written = module.train(settings, module.Dataset(x, (x[:, 0] > 0.1).astype(int)), 1).model_to_string()
    text = re.sub(r"tree_sizes=.*\n", "", re.sub(r"threshold=.*", f"threshold={threshold}", written))
    zero = np.float32(1e-35)
    sizes = np.array([0, 1e-45, 1e-36, np.nextafter(zero, np.float32(0)), zero, np.nextafter(zero, np.float32(1)), 1])
    rows = np.concatenate([sizes, -sizes]).astype(np.float32)[:, None]
    wanted = module.Booster(model_str=text).predict(rows, raw_score=True)
    assert of_lightgbm(text).scores(rows)[:, 1] == pytest.approx(wanted)


def test_values_that_a_library_treats_apart_are_refused() -> None:
    x, y = load_iris(return_X_y=True)
    for library, kind, settings in (
        ("lightgbm", "LGBMClassifier", {"pred_early_stop": True, "verbose": -1}),
        ("xgboost", "XGBClassifier", {"missing": 0.2}),  # after the library that is always there
    ):
        fitted = from_library(library, kind, n_estimators=2, n_jobs=1, **settings).fit(x, y)
        with pytest.raises(radii.InputError, match=r"missing=0\.2|pred_early_stop"):
            radii.certify(fitted, x[:2].astype(np.float32), "trees", "linf:0.1,nobox")


def test_trees_behind_an_early_stop_are_not_read() -> None:
    """A classifier of XGBoost as its library shows it: three trees, of which the second was the best."""

    class Booster:
        def __init__(self, count: int) -> None:
            self.count = count

        def __getitem__(self, part: slice) -> Booster:
            return Booster(len(range(self.count)[part]))

        def save_raw(self, kind: str) -> bytes:
            content = json.loads(xgboost("[5E-1]", 0))
            model = content["learner"]["gradient_booster"]["model"]
            model["trees"], model["tree_info"] = model["trees"] * self.count, [0] * self.count
            return json.dumps(content).encode() if kind == "json" else b""

    class XGBClassifier:
        best_iteration, missing = 1, float("nan")

        def get_booster(self) -> Booster:
            return Booster(3)

    XGBClassifier.__module__ = "xgboost.sklearn"
    assert read.of_estimator(XGBClassifier()).scores(np.array([[0.0, 1.0]], np.float32)).tolist() == [[0.0, 2.0]]


def test_random_rows_inside_the_radius_keep_their_class() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    fitted, rng = RandomForestClassifier(20, max_depth=5, random_state=0).fit(x, y), np.random.default_rng(0)
    rows = x[::40].astype(np.float32)
    proof = radii.certify(fitted, rows, "trees", "linf:1,nobox")
    for _ in range(40):
        step = rng.uniform(-1, 1, rows.shape) * proof.radius.numpy()[:, None] * 0.999
        answers = fitted.predict_proba(rows + step).argmax(1)  # float64 rows, too
        assert (answers == proof.prediction.numpy()).all()


def test_what_cannot_be_read_is_refused_by_name() -> None:
    x, y = load_iris(return_X_y=True)
    rows = x[:2].astype(np.float32)
    with pytest.raises(radii.InputError, match="AdaBoostClassifier is no tree ensemble"):
        radii.certify(AdaBoostClassifier(n_estimators=3).fit(x, y), rows, "trees", "linf:0.1,nobox")
    with pytest.raises(radii.InputError, match="no tree ensemble"):
        radii.certify(torch.nn.Linear(4, 3), rows, "trees", "linf:0.1,nobox")
    whole = x.round().astype(int)
    categorical = HistGradientBoostingClassifier(max_iter=2, categorical_features=[1]).fit(whole, y)
    with pytest.raises(radii.InputError, match="categorical features"):
        radii.certify(categorical, rows.round(), "trees", "linf:0.1,nobox")
