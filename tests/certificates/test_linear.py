"""Linear models: radii are the closed form, attained by an input that the model itself gets wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC
from torch import nn

import radii
from radii.certificates.linear import _until_overflow
from radii.models.feature_reach import Reach
from radii.models.linear.affine_scores import LARGEST32
from radii.models.linear.halfspace import least_moves, lengths
from radii.models.linear.read import affine_scores
from radii.threat import Ball, Norm

NORMS: tuple[Norm, ...] = ("l1", "l2", "linf")
ESTIMATORS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: LogisticRegression(max_iter=200),
    "svm": lambda: LinearSVC(),
    "ridge": lambda: RidgeClassifier(),
    "perceptron": lambda: Perceptron(),
    "lda": lambda: LinearDiscriminantAnalysis(),
    "sigmoids": lambda: make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss")),
    "hinge": lambda: SGDClassifier(),
    "scaled": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=50)),
    "pca": lambda: make_pipeline(MinMaxScaler(), PCA(3, whiten=True), LogisticRegression()),
    "long": lambda: make_pipeline(RobustScaler(), "passthrough", MaxAbsScaler(), TruncatedSVD(4), RidgeClassifier()),
    "chosen": lambda: make_pipeline(SelectKBest(k=3), StandardScaler(with_mean=False), LinearSVC()),
}


def smallest(gain: np.ndarray, room: np.ndarray, need: float, norm: str) -> float:
    """The least length by a solver that knows nothing of the closed form; infinite if there is none."""
    count = len(gain)
    if gain @ room < need:
        return np.inf
    if norm == "l2":
        start = room.copy()
        limits = [(0, most) for most in room]
        enough = {"type": "ineq", "fun": lambda e: gain @ e - need}
        found = minimize(lambda e: e @ e, start, bounds=limits, constraints=[enough], method="SLSQP", tol=1e-12)
        return float(np.sqrt(found.fun))
    if norm == "l1":
        return float(linprog(np.ones(count), -gain[None], [-need], bounds=[(0, most) for most in room]).fun)
    above = np.hstack([np.eye(count), -np.ones((count, 1))])  # e_i <= t
    rows = np.vstack([above, np.append(-gain, 0)])
    ends = [*[(0, most) for most in room], (0, None)]
    return float(linprog(np.append(np.zeros(count), 1), rows, np.append(np.zeros(count), -need), bounds=ends).fun)


@pytest.mark.parametrize("norm", NORMS)
def test_the_closed_form_is_what_a_solver_finds(norm: Norm) -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        count = int(rng.integers(1, 7))
        gain = rng.random(count).round(int(rng.integers(1, 4))) * rng.integers(0, 2, count)
        room = rng.choice([0.0, 0.1, 0.5, 1.0], count) * rng.random(count)
        need = float(rng.random() * 0.7)
        moves = least_moves(gain[None], room[None], np.array([need]), norm)
        wanted = smallest(gain, room, need, norm)
        assert float(lengths(moves, norm)[0]) == pytest.approx(wanted, rel=1e-4, abs=1e-7)
        if np.isfinite(wanted):
            assert gain @ moves[0] >= need - 1e-9
            assert (moves[0] <= room).all()


@pytest.mark.parametrize("norm", NORMS)
def test_without_limits_it_is_the_dual_norm(norm: Norm) -> None:
    gain = np.abs(np.random.default_rng(1).normal(size=(5, 9)))
    moves = least_moves(gain, np.full((5, 9), np.inf), np.full(5, 2.0), norm)
    dual = {"l1": gain.max(1), "l2": np.sqrt((gain**2).sum(1)), "linf": gain.sum(1)}[norm]
    assert lengths(moves, norm) == pytest.approx(2 / dual)


@pytest.mark.parametrize("several", [False, True], ids=["two classes", "three classes"])
@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_proved_and_broken_radius_meet_for_estimators(name: str, several: bool) -> None:
    x, y = load_iris(return_X_y=True)
    x, y = (x, y) if several else (x[50:], y[50:] - 1)
    fitted = ESTIMATORS[name]().fit(x, y)
    rows = x[::4].astype(np.float32)
    for norm in NORMS:
        scores = radii.evaluate(fitted, rows, y[::4], Ball(norm, 0.2, None, fixed=(2,)), alarms=False)
        known = scores.radius_known(0.01)
        assert known.correct >= known.total - 1  # one may lie on the boundary, up to rounding
        assert scores.certificate_method == "linear"
        moved = (scores.x_adv - torch.from_numpy(rows))[:, 2]
        assert not bool(moved.any())


def test_a_box_ends_the_change() -> None:
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)[:60]
    fitted = LogisticRegression(max_iter=100).fit(x, y[:60])
    for norm in NORMS:
        inside = radii.evaluate(fitted, x, y[:60], Ball(norm, 0.1), alarms=False)
        free = radii.evaluate(fitted, x, y[:60], Ball(norm, 0.1, None), alarms=False)
        reached = np.isfinite(inside.points.changed_radius)
        gap = inside.points.changed_radius[reached] / inside.points.proved_radius[reached]
        assert (gap >= 1).all()
        assert gap.max() < 1.01
        assert (inside.points.proved_radius >= free.points.proved_radius * (1 - 0.005)).all()
        assert inside.points.proved_radius.max() > free.points.proved_radius.max() * 1.01


def test_networks_of_linear_layers_are_exact() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2), nn.BatchNorm2d(3), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(3, 5), nn.Softmax(1)
    ).eval()
    with torch.no_grad():
        net[1].running_mean.normal_()
    x = torch.rand(20, 1, 6, 6)
    y = net(x).argmax(1)
    for norm in NORMS:
        scores = radii.evaluate(net, x, y, Ball(norm, 0.01, None), alarms=False)
        reached = np.isfinite(scores.points.changed_radius)
        gap = scores.points.changed_radius[reached] / scores.points.proved_radius[reached]
        assert reached.sum() > 5
        assert (gap > 1).all()
        assert np.median(gap) < 1.01


def test_random_inputs_inside_the_radius_keep_their_class() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6)) * [1, 10, 100, 1e3, 1e4, 1e-2]
    y = (x @ rng.normal(size=(6, 3))).argmax(1)
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)
    rows = x.astype(np.float32)[:40]
    for norm in NORMS:
        proof = radii.certify(fitted, rows, "linear", Ball(norm, 1.0, None))
        radius = proof.radius.numpy()
        for _ in range(50):
            step = np.sign(rng.normal(size=rows.shape)) if norm == "linf" else rng.normal(size=rows.shape)
            step /= lengths(step, norm)[:, None]
            near = (rows + step * radius[:, None] * 0.9999).astype(np.float32)
            inside = lengths(near.astype(float) - rows, norm) < radius
            answers = fitted.predict_proba(near).argmax(1)
            assert (answers[inside] == proof.prediction.numpy()[inside]).all()


def test_what_rounding_leaves_open_is_not_proved() -> None:
    """Scores of 1e9 that differ by less than float32 shows: the class of float32 says nothing about the ball."""
    net = nn.Linear(2, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1e9, 1e9], [1e9, 1e9]]))
        net.bias.copy_(torch.tensor([2.0, 0.0]))
    proof = radii.certify(net.eval(), torch.rand(5, 2), "linear", "l2:0.1")
    assert float(proof.radius.max()) == 0


def test_models_that_are_not_linear_are_refused() -> None:
    x, y = load_iris(return_X_y=True)
    rows = x[:3].astype(np.float32)
    for model, said in (
        (KNeighborsClassifier().fit(x, y), "KNeighborsClassifier is not linear"),
        (make_pipeline(Normalizer(), LinearSVC()).fit(x, y), "Normalizer is not affine"),
        (make_pipeline(MinMaxScaler(clip=True), LinearSVC()).fit(x, y), "clip=True"),
        (nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3)), "1 bends it"),
        (lambda inputs: np.tile([0.2, 0.8], (len(inputs), 1)), "a function"),
    ):
        with pytest.raises(radii.InputError, match=said):
            radii.certify(model, rows, "linear", "linf:0.1,nobox")


class Clipped(LogisticRegression):
    """A subclass that answers in another way."""

    def decision_function(self, X: Any) -> Any:
        return np.abs(super().decision_function(X))


def test_a_subclass_is_not_taken_for_its_parent() -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(radii.InputError, match="Clipped is not linear"):
        radii.certify(Clipped(max_iter=1000).fit(x, y), x[:2].astype(np.float32), "linear", "l2:0.1,nobox")


@torch.no_grad()
def test_no_value_on_the_way_overflows_within_the_radius() -> None:
    """(1e10 x) 1e-10 is x as long as 1e10 x stays below the size that proofs allow."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 2, bias=False)).eval()
    model[0].weight.fill_(1e10)
    model[1].weight.copy_(torch.tensor([[1e-10], [0.0]]))
    x, ball = torch.tensor([[1e19], [3e19], [-2e19]]), Ball("linf", 1.0, None)
    end = _until_overflow(affine_scores(model, (1,), ball).conditions(0), Reach.of(ball, x))
    room = LARGEST32 / 1e10 - x[:, 0].double().abs().numpy()
    np.testing.assert_allclose(end, room, rtol=1e-6)
