"""Data frames as people have them: what reaches the estimator, what is proved, and what is said of faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import radii
from radii.models.adapter import prepare

pandas = pytest.importorskip("pandas")
RANDOM = np.random.default_rng(0)
NUMBERS = pandas.DataFrame({"amount": RANDOM.normal(1000, 300, 60), "rate": RANDOM.uniform(0, 0.2, 60)})
ANSWER = np.where(NUMBERS.rate + NUMBERS.amount / 10000 > 0.2, "bad", "good")


def logistic() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression()).fit(NUMBERS, ANSWER)


def test_columns_of_numbers_are_proved_as_arrays_are(caplog: pytest.LogCaptureFixture) -> None:
    scores = radii.evaluate(logistic(), NUMBERS[:20], ANSWER[:20], "linf:0.1sd", alarms=False)
    assert scores.certificate_method == "linear"
    assert scores.robust.proved.correct == scores.robust.unbroken.correct > 0
    assert scores.ball.scale == pytest.approx(NUMBERS[:20].std(ddof=0).tolist(), rel=1e-4)
    assert "linf:0.1sd counts the standard deviations of these 20 inputs" in caplog.text


def test_columns_in_another_order_are_not_read_as_if_they_were_in_the_model_s() -> None:
    from radii.data.columns import Columns
    from radii.models.estimators import OnColumns

    model = logistic()
    assert OnColumns(model, Columns.of_frame(NUMBERS)).plain is model
    assert OnColumns(model, Columns.of_frame(NUMBERS[["rate", "amount"]])).plain is None


def test_categories_of_pandas_stay_categories() -> None:
    from radii.data.columns import Columns

    frame = pandas.DataFrame({"job": pandas.Categorical(["cook", "nurse"] * 3, ["clerk", "cook", "nurse"])})
    columns = Columns.of_frame(frame)
    again = columns.frame(columns.features(frame))
    assert again.job.dtype == frame.job.dtype
    assert again.job.tolist() == frame.job.tolist()


def test_a_booster_gets_a_matrix_of_its_own() -> None:
    xgboost = pytest.importorskip("xgboost")
    label = (ANSWER == "bad").astype(int)
    booster = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(NUMBERS, label=label), 5)
    own = prepare(booster, NUMBERS, label)
    assert (own.model(own.x).argmax(1).numpy() == label).mean() > 0.8


@pytest.mark.parametrize(
    ("frame", "y", "says"),
    [
        (NUMBERS.assign(rate=np.where(np.arange(60) == 3, np.nan, 0.1)), ANSWER, "'rate' has no number in row 3"),
        (NUMBERS[["rate"]], ANSWER, "was fitted with the column 'amount', which the table does not have"),
        (NUMBERS.assign(credit=ANSWER), "credt", "Did you mean 'credit'"),
        (NUMBERS, ANSWER, "linf:0.1sd, a tenth of each column's standard deviation"),
    ],
)
def test_a_fault_of_a_frame_is_named(frame: Any, y: Any, says: str) -> None:
    with pytest.raises(radii.InputError, match=says):
        radii.evaluate(logistic(), frame, y, "linf:0.1")


def test_standard_deviations_are_no_unit_of_images() -> None:
    network = torch.nn.Flatten()
    with pytest.raises(radii.InputError, match="the inputs are images: write linf:8/255"):
        radii.evaluate(network, np.random.rand(4, 1, 2, 2).astype(np.float32), [0, 1, 2, 3], "linf:0.1sd")
