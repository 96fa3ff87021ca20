"""Exact answers of linear models and trees in balls with a scale for each feature and limits of what it can become."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import radii
from radii.feature_limits import FeatureLimits
from radii.threat import Ball, Norm

SCALE = (0.5, 4.0, 30.0)


def table(count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Columns of unlike units."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(count, 3)) * SCALE).astype(np.float32)
    return x, (x[:, 0] / 0.5 + x[:, 1] / 4 - x[:, 2] / 30 > 0.2).astype(np.int64)


def estimator(kind: str) -> LogisticRegression | DecisionTreeClassifier:
    return LogisticRegression() if kind == "linear" else DecisionTreeClassifier(max_depth=3, random_state=0)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("kind", ["linear", "trees"])
def test_a_scale_counts_as_columns_divided_by_it(kind: str, norm: Norm) -> None:
    x, y = table()
    model, divided = estimator(kind).fit(x, y), estimator(kind).fit(x / np.float32(SCALE), y)
    if kind == "linear":  # the same boundary in the other units
        divided.coef_, divided.intercept_ = model.coef_ * SCALE, model.intercept_
    scores = radii.evaluate(model, x[:30], y[:30], Ball(norm, 0.3, None, scale=SCALE), suite="black-box")
    plain = radii.evaluate(divided, x[:30] / np.float32(SCALE), y[:30], Ball(norm, 0.3, None), suite="black-box")
    assert scores.certificate_method == kind
    np.testing.assert_allclose(scores.points.proved_radius, plain.points.proved_radius, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scores.points.broken_radius, plain.points.broken_radius, rtol=1e-4, atol=1e-5)
    right = scores.points.correct
    assert (scores.points.proved_radius <= scores.points.broken_radius * (1 + 1e-6))[right].all()


@pytest.mark.parametrize("kind", ["linear", "trees"])
def test_a_feature_that_only_rises_is_moved_in_no_other_direction(kind: str) -> None:
    x, y = table()
    model = (LogisticRegression() if kind == "linear" else DecisionTreeClassifier(max_depth=3, random_state=0)).fit(
        x, y
    )
    free, held = (
        Ball("linf", 0.3, None, scale=SCALE),
        Ball("linf", 0.3, None, scale=SCALE, limits=FeatureLimits(rising=(0, 1))),
    )
    loose, tight = (radii.evaluate(model, x[:40], y[:40], ball, suite="black-box") for ball in (free, held))
    assert (tight.points.proved_radius >= loose.points.proved_radius * (1 - 1e-6)).all()
    assert (tight.points.proved_radius > loose.points.proved_radius + 0.01).any()
    met = np.isfinite(tight.points.broken_radius) & tight.points.correct
    np.testing.assert_allclose(tight.points.proved_radius[met], tight.points.broken_radius[met], rtol=1e-3, atol=1e-5)
    assert (tight.points.broken_radius > loose.points.broken_radius + 0.01).any()
    moved = tight.x_adv.flatten(1).numpy()[tight.points.broken] - x[:40][tight.points.broken]
    assert (moved[:, :2] >= 0).all()


@pytest.mark.parametrize("kind", ["linear", "trees"])
def test_no_error_between_whole_numbers_is_said_to_be_one(kind: str) -> None:
    x, y = table()
    x = np.round(x).astype(np.float32)
    model = (LogisticRegression() if kind == "linear" else DecisionTreeClassifier(max_depth=3, random_state=0)).fit(
        x, y
    )
    ball = Ball("linf", 1.0, None, limits=FeatureLimits(whole=(0, 1, 2)))
    scores = radii.evaluate(model, x[:40], y[:40], ball, suite="black-box")
    broken = scores.points.broken
    assert torch.equal(scores.x_adv.flatten(1)[broken], scores.x_adv.flatten(1)[broken].round())
    steps = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), -1).reshape(-1, 3)
    for row in range(40):  # all rows that are allowed
        can_break = bool((model.predict(x[row] + steps) != y[row]).any())
        if scores.points.correct[row]:
            assert not (can_break and scores.points.proved_radius[row] >= 1.0)
            assert can_break or not broken[row]


def test_a_scaler_whose_numbers_exceed_float32_proves_nothing() -> None:
    """x / 1e-37 is no float32 number from 34 on; behind it a coefficient of 1e-37 makes the score small again."""
    x, y = table()
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)
    pipeline[0].mean_, pipeline[0].scale_ = np.zeros(3), np.full(3, 1e-37)
    pipeline[1].coef_, pipeline[1].intercept_ = np.array([[1e-37, 0.0, 0.0]]), np.array([200.0])
    proof = radii.certify(pipeline, np.full((2, 3), 0.5), "linear", "linf:100,nobox")
    assert (proof.radius < 34).all()
