"""Pipelines that were fitted to the columns of a data frame: read as linear models and as trees, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

import radii
from radii.attacks.exact import Exact
from radii.data.columns import Columns
from radii.errors import InputError
from radii.feature_limits import FeatureLimits
from radii.models.estimators import OnColumns
from radii.models.linear.table_columns import of_columns
from radii.models.trees.estimators import of_estimator

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


FORESTS = {
    "columns": lambda: make_pipeline(
        split(StandardScaler(), OneHotEncoder()), RandomForestClassifier(2, max_depth=3, random_state=0)
    ),
    "imputed": lambda: make_pipeline(
        split(make_pipeline(SimpleImputer(), MinMaxScaler()), OneHotEncoder(drop="if_binary")),
        GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0),
    ),
    "passed": lambda: make_pipeline(
        make_column_transformer((OneHotEncoder(sparse_output=False), WORDS), remainder="passthrough"),
        HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5),
    ),
    "compared in float64": lambda: make_pipeline(
        split(StandardScaler(), OneHotEncoder(sparse_output=False)),
        HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FORESTS)
def test_trees_behind_columns_are_exact(case: str) -> None:
    """Scores are those of the pipeline at and beside every threshold, and the words may be swapped."""
    frame, y = people()
    model = FORESTS[case]().fit(frame, y)
    columns = Columns.of_frame(frame)
    features = columns.features(frame)
    asked = OnColumns(model, columns)
    trees = of_estimator(asked)
    rng, rows = np.random.default_rng(0), []
    for f, cut in zip(trees.feature, trees.threshold, strict=True):
        if f >= 0 and f not in columns.fixed:
            for value in (cut, np.nextafter(cut, np.float32(np.inf))):
                row = features[rng.integers(len(features))].copy()
                row[f] = value
                rows.append(row)
    both = np.concatenate([features, rows]).astype(np.float32)
    own = trees.scores(both)
    clear = np.abs(own[:, 1] - own[:, 0]) > trees.error
    assert (own.argmax(1) == (model.predict(columns.frame(both)) == "yes"))[clear].all()
    groups = tuple(places for places, words in zip(columns.places, columns.words, strict=True) if words)
    scale = [1.0 if f in columns.fixed else float(spread) for f, spread in enumerate(features.std(0))]
    ball = radii.Ball("linf", 1.0, None, scale=tuple(scale), limits=FeatureLimits(groups=groups))
    box, x = radii.BlackBox(asked), torch.from_numpy(features[:8])
    proved = radii.certify(asked, features[:8], "trees", ball).radius
    broken = Exact().radii(box, x, box(x).argmax(1), ball).radius
    met = broken.isfinite()
    assert met.any()
    torch.testing.assert_close(proved[met], broken[met], rtol=1e-4, atol=1e-5)


def test_trees_behind_scaled_arrays_are_read() -> None:
    frame, y = people()
    x = frame[NUMBERS].to_numpy()
    model = make_pipeline(RobustScaler(), DecisionTreeClassifier(max_depth=4, random_state=0)).fit(x, y)
    assert radii.certify(model, x[:5], "trees", "linf:100,nobox").radius.max() > 0
    mixed = make_pipeline(PCA(2), DecisionTreeClassifier(max_depth=2)).fit(x, y)
    with pytest.raises(InputError, match="mixes columns"):
        of_estimator(mixed)


@pytest.mark.parametrize("library", ["scikit-learn", "lightgbm"])
def test_numbers_that_are_compared_in_float64_behind_a_scaler(library: str) -> None:
    """Rounding what the scaler returns to float32 first would move thresholds by a float32 number."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)) * [1, 1e3, 1e-3] + [0, 1e4, 0]
    y = (((x - [0, 1e4, 0]) / [1, 1e3, 1e-3]).sum(1) > 0).astype(int)
    if library == "lightgbm":
        module = pytest.importorskip(library)
        last = module.LGBMClassifier(n_estimators=4, verbose=-1, n_jobs=1)
    else:
        last = HistGradientBoostingClassifier(max_iter=4)
    frame = pd.DataFrame(x, columns=list("abc"))  # a scaler computes the columns of a table in float64
    for scaler in (StandardScaler(), MinMaxScaler()):
        model, columns = make_pipeline(scaler, last).fit(frame, y), Columns.of_frame(frame)
        trees, rows = of_estimator(OnColumns(model, columns)), []
        for f, cut in zip(trees.feature, trees.threshold, strict=True):
            if f >= 0:
                for value in (np.nextafter(cut, np.float32(-np.inf)), cut, np.nextafter(cut, np.float32(np.inf))):
                    row = x[rng.integers(len(x))].astype(np.float32)
                    row[f] = value
                    rows.append(row)
        scores = trees.scores(np.array(rows))
        clear = np.abs(scores[:, 1] - scores[:, 0]) > trees.error
        assert (scores.argmax(1) == model.predict(columns.frame(np.array(rows))))[clear].all()
