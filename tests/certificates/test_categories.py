"""Categories that may change, and whole numbers: exact radii against brute force over every choice."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import radii
from radii.attacks.apgd import APGD
from radii.attacks.exact import Exact
from radii.attacks.minimum_norm import MinimumNorm
from radii.attacks.square import Square
from radii.errors import InputError
from radii.feature_limits import FeatureLimits
from radii.models.linear.halfspace import least_moves
from radii.randomness import stream
from radii.threat import Ball, Norm

NORMS: tuple[Norm, ...] = ("l1", "l2", "linf")
GROUPS = ((2, 3), (4, 5, 6), (7, 8, 9, 10))
SCALE = (0.5, 2.0, 1.5, 1.5, 0.8, 0.8, 0.8, 4.0, 4.0, 4.0, 4.0)


def table(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers and three categories."""
    rng = np.random.default_rng(0)
    words = [np.eye(len(group))[rng.integers(0, len(group), count)] for group in GROUPS]
    x = np.concatenate([rng.integers(-4, 5, (count, 1)), rng.normal(size=(count, 1)), *words], 1).astype(np.float32)
    weight = rng.normal(size=(x.shape[1], 3))
    return x, (x @ weight + rng.gumbel(size=(count, 3)) / 2).argmax(1)


def norm_of(step: np.ndarray, norm: Norm) -> np.ndarray:
    return np.linalg.norm(step / SCALE, {"l1": 1, "l2": 2, "linf": np.inf}[norm], axis=1)


def choices() -> np.ndarray:
    """Every choice of categories."""
    rows = [np.concatenate(one) for one in itertools.product(*(np.eye(len(group)) for group in GROUPS))]
    return np.concatenate([np.zeros((len(rows), 2)), np.array(rows)], 1)


@pytest.mark.parametrize("norm", NORMS)
def test_a_linear_model(norm: Norm) -> None:
    x, y = table(200)
    model = LogisticRegression(C=100, max_iter=500).fit(x, y)
    ball = Ball(norm, 3.0, None, scale=SCALE, limits=FeatureLimits(groups=GROUPS, falling=(1,)))
    x, prediction = x[:25], model.predict(x[:25])
    scores = radii.evaluate(model, x, prediction, ball, suite="black-box")
    for row, label in enumerate(prediction[:12]):
        least = np.inf
        for there in choices():
            start = np.where(np.arange(11) < 2, x[row], there)
            for rival in {0, 1, 2} - {label}:
                slope = (model.coef_[label] - model.coef_[rival])[:2] * SCALE[:2]
                need = np.array([(model.coef_[label] - model.coef_[rival]) @ start])
                need += model.intercept_[label] - model.intercept_[rival]
                room = np.array([np.inf, np.inf if slope[1] > 0 else 0.0])
                move = least_moves(np.abs(slope)[None], room[None], need, norm)[0]
                if np.isfinite(move).all():
                    step = np.append(move * np.array(SCALE[:2]), start[2:] - x[row, 2:])
                    least = min(least, norm_of(step[None], norm)[0])
        proved, broken = scores.points.proved_radius[row], scores.points.broken_radius[row]
        assert proved <= least * (1 + 1e-9)
        assert proved == pytest.approx(least, rel=1e-4, abs=3e-5)  # rounding is taken off
        assert broken >= least * (1 - 1e-6) or broken == 0
        assert least > 2.9 or broken == pytest.approx(least, rel=1e-3, abs=3e-5)
    moved = scores.x_adv.numpy()[scores.points.broken]
    swapped = (moved[:, 2:] != x[scores.points.broken][:, 2:]).any(1)
    assert swapped.any()
    assert not swapped.all()
    for group in GROUPS:
        assert (np.sort(moved[:, group], 1) == np.eye(len(group))[-1]).all()


@pytest.mark.parametrize("norm", NORMS)
def test_trees(norm: Norm) -> None:
    x, y = table(300)
    model = RandomForestClassifier(4, max_depth=5, random_state=0).fit(x, y)
    ball = Ball(norm, 3.0, None, scale=SCALE, limits=FeatureLimits(groups=GROUPS, whole=(0,)))
    x, prediction = x[:25], model.predict(x[:25])
    scores = radii.evaluate(model, x, prediction, ball, suite="black-box")
    cuts = np.unique(np.concatenate([e.tree_.threshold[e.tree_.feature == 1] for e in model.estimators_]))
    cuts = np.float32(cuts)
    for row, label in enumerate(prediction):
        ends = [np.nextafter(cuts, np.float32(far)) for far in (-9, 9)]
        numbers = np.concatenate([[x[row, 1]], cuts, *ends])
        rows = choices()[:, None, None] + np.zeros((1, 12, len(numbers), 1))
        rows[..., 0] = np.arange(-6, 6)[None, :, None]
        rows[..., 1] = numbers
        rows = rows.reshape(-1, 11)
        far = norm_of(rows - x[row], norm)
        least = far[model.predict(rows.astype(np.float32)) != label].min(initial=np.inf)
        assert scores.points.proved_radius[row] == pytest.approx(least, rel=1e-6, abs=1e-6)
        assert scores.points.broken_radius[row] == pytest.approx(least, rel=1e-6, abs=1e-6)


def test_every_attack_lands_on_categories() -> None:
    x, y = table(30)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(11, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    for norm, radius in (("linf", 1.3), ("l2", 2.0), ("l1", 3.0)):
        ball = Ball(norm, radius, None, scale=SCALE, limits=FeatureLimits(groups=GROUPS))  # type: ignore[arg-type]
        for attack in (APGD(steps=5), Square(queries=10), MinimumNorm(steps=3)):
            found = attack(network, torch.from_numpy(x), torch.from_numpy(y), ball, stream(0, "attack"))
            moved = found.x_adv.numpy()
            assert found.broken.any()
            for group in GROUPS:
                assert (np.sort(moved[:, group], 1) == np.eye(len(group))[-1]).all()


def test_a_row_without_a_category_keeps_its_features() -> None:
    x, y = table(40)
    x[:, 4:7] = 0
    model: Any = LogisticRegression(C=100).fit(x, y)
    free, fixed = (Ball("linf", 2.0, None, fixed=own, limits=FeatureLimits(groups=groups)) for own, groups in (
        ((), GROUPS), ((4, 5, 6), (GROUPS[0], GROUPS[2])),
    ))  # fmt: skip
    for kind in (model, RandomForestClassifier(3, max_depth=3, random_state=0).fit(x, y)):
        proofs = [radii.evaluate(kind, x, y, ball, suite="black-box").points.proved_radius for ball in (free, fixed)]
        np.testing.assert_allclose(*proofs, rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"limits": FeatureLimits(groups=((0, 1),)), "fixed": (1,)}, "has fixed features"),
        ({"limits": FeatureLimits(groups=((0, 1),)), "scale": (1.0, 2.0)}, "must have one scale"),
    ],
)
def test_groups_that_mean_nothing(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Ball("linf", 1.0, None, **settings)
    with pytest.raises(InputError, match="two features or more"):
        FeatureLimits(groups=((0,),))


@pytest.mark.parametrize("norm", NORMS)
def test_whole_numbers_before_a_linear_model(norm: Norm) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 4, (150, 3)).astype(np.float32)
    x[:, 2] += rng.normal(size=150)
    y = (x @ [1.0, -0.6, 0.3] + rng.normal(size=150) > 0).astype(np.int64)
    model = LogisticRegression(C=100).fit(x, y)
    scale, limits = np.array([1.0, 3.0, 0.5]), FeatureLimits(whole=(0, 1))
    ball = Ball(norm, 2.0, None, scale=tuple(scale), limits=limits)
    x, prediction = x[:40], model.predict(x[:40])
    proofs = radii.certify(model, x, "linear", ball).radius
    errors = Exact().radii(radii.BlackBox(model), torch.from_numpy(x), torch.from_numpy(prediction), ball).radius
    steps = np.stack(np.meshgrid(np.arange(-12, 13), np.arange(-12, 13)), -1).reshape(-1, 2)
    for row, label in enumerate(prediction):
        gap = (model.decision_function(x[row][None]) + steps @ model.coef_[0, :2]) * (1 if label else -1)
        last = np.maximum(gap, 0) / abs(model.coef_[0, 2])  # what the third feature must do
        parts = np.abs(np.concatenate([steps, last[:, None]], 1)) / scale
        least = np.linalg.norm(parts, {"l1": 1, "l2": 2, "linf": np.inf}[norm], axis=1).min()
        proved, broken = float(proofs[row]), float(errors[row])
        assert proved <= least * (1 + 1e-9)
        if norm == "linf":
            assert proved == pytest.approx(least, rel=1e-3, abs=1e-4)
            assert broken == pytest.approx(least, rel=1e-3, abs=1e-4)
        assert least * (1 - 1e-6) <= broken <= 4 * least + 0.5
