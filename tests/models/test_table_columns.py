"""Pipelines that were fitted to the columns of a data frame: read as linear models, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

import radii
from radii.errors import InputError
from radii.models.estimators import Columns, OnColumns
from radii.models.linear.table_columns import of_columns

NUMBERS, WORDS = ["age", "income", "debt"], ["town", "job"]


def people() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)) * [10, 1000, 300] + [40, 5000, 0], columns=NUMBERS)
    frame = frame.astype(np.float32)
    frame.insert(1, "town", rng.choice(["b", "a", "c"], 120))
    frame["job"] = rng.choice(["x", "y"], 120)
    gain = frame["income"] / 1000 - frame["debt"] / 300 + (frame["town"] == "a") - (frame["job"] == "y")
    return frame, np.where(gain + rng.normal(size=120) / 2 > 5, "yes", "no")


def split(numbers: Any, words: Any) -> Any:
    return make_column_transformer((words, WORDS), (numbers, NUMBERS))


CASES = {
    "usual": lambda: make_pipeline(split(StandardScaler(), OneHotEncoder()), LogisticRegression()),
    "first left out": lambda: make_pipeline(split(MinMaxScaler(), OneHotEncoder(drop="first")), RidgeClassifier()),
    "imputed": lambda: make_pipeline(
        split(
            make_pipeline(SimpleImputer(), StandardScaler()),
            make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")),
        ),
        LogisticRegression(),
    ),
    "rest passed": lambda: make_pipeline(
        make_column_transformer((OneHotEncoder(sparse_output=False), WORDS), remainder="passthrough"),
        StandardScaler(), PCA(5), LogisticRegression(),
    ),
    "rest left out": lambda: make_pipeline(
        make_column_transformer((StandardScaler(), ["debt", "income"]), (OneHotEncoder(), [1])), LogisticRegression()
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_scores_are_those_of_the_pipeline(case: str) -> None:
    frame, y = people()
    model = CASES[case]().fit(frame, y)
    columns = Columns.of_frame(frame)
    features = columns.features(frame)
    scores = of_columns(OnColumns(model, columns))
    own = features @ (scores.weight[1] - scores.weight[0]) + scores.bias[1] - scores.bias[0]
    np.testing.assert_allclose(own, model.decision_function(frame), rtol=1e-4, atol=1e-4)
    found = radii.evaluate(model, frame[:30], y[:30], radii.Ball("linf", 200.0, None), suite="black-box")
    assert found.certificate_method == "linear"
    radius, broken = found.points.proved_radius, found.points.broken_radius
    met = np.isfinite(broken) & found.points.correct
    assert met.any()
    np.testing.assert_allclose(radius[met], broken[met], rtol=1e-2)
    assert (found.x_adv.numpy()[:, list(columns.fixed)] == features[:30, list(columns.fixed)]).all()


def test_words_that_become_numbers_are_refused() -> None:
    frame, y = people()
    model = CASES["usual"]().fit(frame, y)
    columns = Columns.of_frame(frame)
    with pytest.raises(InputError, match="stands for a word"):
        radii.certify(OnColumns(model, columns), columns.features(frame), "linear", "linf:0.1,nobox")


def test_numbers_alone_need_no_column_transformer() -> None:
    frame, y = people()
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame[NUMBERS], y)
    found = radii.evaluate(model, frame[NUMBERS][:20], y[:20], radii.Ball("l2", 200.0, None), suite="black-box")
    assert found.certificate_method == "linear"


@pytest.mark.parametrize(
    ("transformer", "said"),
    [
        (split(StandardScaler(), OrdinalEncoder()), "OrdinalEncoder is not affine"),
        (split(FunctionTransformer(np.cbrt), OneHotEncoder()), "FunctionTransformer is not affine"),
        (split(StandardScaler(), OneHotEncoder(max_categories=2)), "joins infrequent categories"),
        (
            make_column_transformer((OneHotEncoder(), WORDS), (StandardScaler(), NUMBERS)).set_params(
                transformer_weights={"onehotencoder": 2.0}
            ),
            "transformer_weights is not read",
        ),
    ],
)
def test_what_is_not_read_is_named(transformer: Any, said: str) -> None:
    frame, y = people()
    model = make_pipeline(transformer, LogisticRegression(max_iter=500)).fit(frame, y)
    with pytest.raises(InputError, match=said):
        of_columns(OnColumns(model, Columns.of_frame(frame)))
