"""Estimators as people fit them: columns of words, words for classes, classes alone, boosters of other libraries."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import radii
from radii.attacks import decision_based
from radii.attacks.square import Square
from radii.data.columns import Columns
from radii.models.adapter import BlackBox, adapt, prepare
from radii.models.estimators import OnColumns, class_names, of_columns

pandas = pytest.importorskip("pandas")
GENERATOR = np.random.default_rng(0)
FRAME = pandas.DataFrame(
    {
        "income": GENERATOR.normal(5.0, 1.5, 200),
        "home": GENERATOR.choice(["own", "rent", "other"], 200),
        "age": GENERATOR.integers(18, 80, 200),
    }
)
CREDIT = np.where(FRAME.income + 0.03 * FRAME.age + 2.0 * (FRAME.home == "own") > 7.3, "good", "bad")


@pytest.fixture(scope="module")
def pipeline() -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = make_column_transformer((OneHotEncoder(), ["home"]), (StandardScaler(), ["income", "age"]))
    return make_pipeline(columns, LogisticRegression()).fit(FRAME, CREDIT)


def test_a_pipeline_gets_the_columns_it_was_fitted_to(pipeline: Any) -> None:
    own = prepare(pipeline, FRAME, CREDIT)
    assert (own.model(own.x).argmax(1) == own.y).double().mean() == pytest.approx(pipeline.score(FRAME, CREDIT))
    probabilities = torch.from_numpy(pipeline.predict_proba(FRAME)).log()
    assert torch.allclose(own.model(own.x), probabilities.float(), atol=1e-5)
    assert own.fixed == (1, 2, 3), "other, own, rent"
    table = pandas.DataFrame(FRAME).assign(credit=CREDIT)[:40]
    attacked = radii.attack(pipeline, table, "credit", "linf:0.5,nobox", name="noise")
    assert 0.1 < float(attacked.broken.float().mean()) < 0.9
    assert np.array_equal(attacked.x_adv[:, 1:4].numpy(), own.x[:40, 1:4].numpy()), "words stay"


def test_columns_there_and_back() -> None:
    columns = Columns.of_frame(FRAME)
    back = columns.frame(columns.features(FRAME))
    assert list(back.columns) == list(FRAME.columns)
    assert back.home.tolist() == FRAME.home.tolist()
    assert np.allclose(back.income, FRAME.income, rtol=1e-6)
    names = ("age", "home=other", "home=own", "home=rent", "income", "a=b")
    again = Columns.of_features(names, [(1, 2, 3)])
    assert again.names == ("age", "home", "income", "a=b")
    assert again.frame(np.array([[30.0, 0, 1, 0, 5.0, 2.0]], np.float32)).home.tolist() == ["own"]


def test_a_table_of_features_is_given_as_columns(pipeline: Any) -> None:
    names = ("income", "home=other", "home=own", "home=rent", "age")
    framed = of_columns(pipeline, names, [(1, 2, 3)])
    assert isinstance(framed, OnColumns)
    assert np.array_equal(framed.predict(Columns.of_frame(FRAME).features(FRAME)), pipeline.predict(FRAME))
    with pytest.raises(radii.InputError, match=r"fitted with the column 'home', which the table does not have"):
        of_columns(pipeline, ("income", "age"), [])


def test_words_are_numbered_as_the_model_does(caplog: pytest.LogCaptureFixture) -> None:
    class Turned:
        classes_ = np.array(["good", "bad"])

        def predict_proba(self, x: NDArray[Any]) -> NDArray[Any]:
            return np.stack([x[:, 0], 1 - x[:, 0]], 1)

    assert prepare(Turned(), np.array([[0.9], [0.2]]), ["good", "bad"]).y.tolist() == [0, 1]
    with pytest.raises(radii.InputError, match="'ugly' is no class of the model; its classes are good, bad"):
        prepare(Turned(), np.array([[0.9]]), ["ugly"])
    labels = prepare(torch.nn.Linear(2, 2), torch.rand(3, 2), np.array(["b", "a", "b"])).y
    assert labels.tolist() == [1, 0, 1]
    assert "alphabetical order: a is 0, b is 1" in caplog.text
    hub = torch.nn.Linear(2, 2)
    hub.config = type("Config", (), {"id2label": {0: "dog", 1: "cat"}})()  # type: ignore[assignment]
    assert prepare(hub, torch.rand(2, 2), ["cat", "dog"]).y.tolist() == [1, 0]
    assert class_names(torch.nn.Linear(2, 2)) is None

    class Signs:
        classes_ = np.array([-1, 1])

        def decision_function(self, x: NDArray[Any]) -> NDArray[Any]:
            return x[:, 0]

    assert prepare(Signs(), np.array([[0.9], [0.2]]), np.array([1, -1])).y.tolist() == [1, 0]


class OnlyClasses:
    """``predict`` alone: class names, of which it says nothing else."""

    def __init__(self, names: tuple[Any, ...] = ()) -> None:
        self.names = names
        if names:
            self.classes_ = np.array(names)

    def predict(self, x: NDArray[Any]) -> NDArray[Any]:
        flat = np.asarray(x).reshape(len(x), -1)
        number = (flat[:, 0] > 0.5).astype(int) + (flat[:, 1] > 0.5)
        return np.array(self.names)[number] if self.names else number


def test_classes_alone_are_attacked_by_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).uniform(0.1, 0.9, (40, 2))
    for names in ((), ("a", "b", "c"), (3, 5, 9)):
        y = OnlyClasses(names).predict(x)
        own = prepare(OnlyClasses(names), x, y)
        assert torch.equal(own.model(own.x).argmax(1), own.y)
    monkeypatch.setitem(decision_based.DECISIONS, "square", Square(queries=20))
    scores = radii.evaluate(OnlyClasses(names), x, y, "linf:0.1")
    assert scores.suite == "decisions"
    assert scores.clean.value == 1
    near = (abs(x - 0.5) < 0.1).any(1)
    assert scores.robust.unbroken.value == pytest.approx(1 - near.mean(), abs=0.051)
    assert any("It is weak" in note for note in scores.notes)


def test_boosters_of_other_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins that are called as XGBoost's Booster and CatBoost are: neither library is installed here."""

    class Matrix:
        def __init__(self, values: NDArray[Any], feature_names: Any = None) -> None:
            self.values, self.names = values, feature_names

    class Booster:
        feature_names = ("f0", "f1")

        def predict(self, data: Matrix) -> NDArray[Any]:
            assert data.names == self.feature_names
            return 1 / (1 + np.exp(-4 * (data.values[:, 0] - 0.5)))

    class CatBoost:
        def predict(self, x: NDArray[Any], prediction_type: str = "RawFormulaVal") -> NDArray[Any]:
            assert prediction_type == "Probability"
            return np.stack([1 - x[:, 0], x[:, 0]], 1)

    stand_in = ModuleType("xgboost")
    stand_in.DMatrix = Matrix  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "xgboost", stand_in)
    Booster.__module__, CatBoost.__module__ = "xgboost.core", "catboost.core"
    x = torch.rand(10, 2, generator=torch.Generator().manual_seed(0))
    for model in (Booster(), CatBoost()):
        box = adapt(model, x)
        assert isinstance(box, BlackBox)
        assert not box.decisions
        assert torch.equal(box(x).argmax(1), (x[:, 0] > 0.5).long())
