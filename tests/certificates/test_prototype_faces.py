"""Nearest prototypes: their answers, their radii against a quadratic program and attacks, and how they are trained."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from radii.certificates.choose import certify, choose
from radii.certificates.prototype_faces import certify as faces
from radii.certificates.prototype_faces import distance_in_box
from radii.data.sources import load
from radii.errors import InputError
from radii.models.classifier import Classifier
from radii.models.zoo.prototypes import Prototypes
from radii.threat import Ball, length
from radii.training.loop import train
from radii.training.objectives.objective import TrainingProgress
from radii.training.objectives.prototype_margin import Faces, PrototypeMargin
from radii.training.schedule import Recipe


def _some(classes: int, count: int, d: int, seed: int = 0) -> Prototypes:
    torch.manual_seed(seed)
    model = Prototypes((d,), classes, count=count)
    with torch.no_grad():
        model.points.copy_(torch.rand_like(model.points))
    return model.eval()


def _true_radius(model: Prototypes, x: Tensor, c: int, *, boxed: bool = False) -> float:
    """The L2 distance of ``x`` to the nearest point where another prototype is as near as all of class ``c``."""
    points, origin = model.points.detach().double().numpy(), x.double().numpy()
    best = np.inf
    for other, j in product(range(len(points)), range(points.shape[1])):
        if other == c:
            continue
        w, ours = points[other, j], points[c]
        a, b = 2 * (ours - w), (ours**2).sum(1) - (w**2).sum()
        rules = [{"type": "ineq", "fun": lambda z, a=a, b=b: b - a @ z, "jac": lambda z, a=a: -a}]
        found = minimize(
            lambda z: ((z - origin) ** 2).sum(), w, jac=lambda z: 2 * (z - origin), constraints=rules, method="SLSQP",
            bounds=[(0, 1)] * len(w) if boxed else None,
        )  # fmt: skip
        best = min(best, float(found.fun) ** 0.5 if found.success else np.inf)
    return best


def test_the_answer_is_the_class_of_the_nearest_prototype() -> None:
    model, x = _some(4, 3, 5), torch.rand(200, 5)
    distances = torch.cdist(x, model.points.flatten(0, 1)).view(200, 4, 3).amin(2)
    assert torch.equal(model(x).argmax(1), distances.argmin(1))
    torch.testing.assert_close(model(x), x.square().sum(1, keepdim=True) - distances**2)


@pytest.mark.parametrize("count", [1, 4])
def test_the_radius_is_at_most_the_true_one_and_equals_it_for_one_prototype(count: int) -> None:
    model, x = _some(3, count, 4), torch.rand(12, 4)
    proof = faces(model, x)
    true = torch.tensor([_true_radius(model, row, int(c)) for row, c in zip(x, proof.prediction, strict=True)])
    assert bool((proof.radius <= true + 1e-5).all())
    assert float((proof.radius / true).mean()) > 0.8
    if count == 1:
        torch.testing.assert_close(proof.radius, true, atol=1e-4, rtol=1e-4, check_dtype=False)


@pytest.mark.parametrize("count", [1, 3])
def test_the_box_enlarges_radii_up_to_the_true_ones_at_most(count: int) -> None:
    model, x = _some(3, count, 6, seed=2), torch.rand(16, 6).mul(1.6).sub(0.3).clamp(0, 1)
    free, proof = faces(model, x), faces(model, x, "l2", (0.0, 1.0))
    true = torch.tensor(
        [_true_radius(model, row, int(c), boxed=True) for row, c in zip(x, proof.prediction, strict=True)]
    )
    assert bool((proof.radius >= free.radius * (1 - 1e-4)).all())
    assert float((proof.radius > free.radius * 1.05).double().mean()) > 0.3
    assert bool((proof.radius <= true + 1e-4).all())
    if count == 1:
        near = true.isfinite()
        torch.testing.assert_close(proof.radius[near], true[near], atol=1e-3, rtol=1e-3, check_dtype=False)
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        faces(model, x + 1, "l2", (0.0, 1.0))


def test_a_face_out_of_the_box_is_never_reached() -> None:
    normal, low = torch.tensor([[[1.0, 1.0]]]).double(), torch.tensor([[-0.5, -0.5]]).double()
    reached = distance_in_box(normal, torch.tensor([[0.6], [0.9], [1.1], [-1.0]]).double(), low, -low)
    expected = [0.6 / 2**0.5, 0.9 / 2**0.5]
    assert reached[:2, 0].tolist() == pytest.approx(expected, rel=1e-6)
    assert float(reached[2]) > 100
    assert float(reached[3]) == 0
    one_sided = distance_in_box(
        normal, torch.tensor([[0.4]]).double(), torch.tensor([[-0.5, -0.5]]).double(), -low * 0.2
    )
    assert float(one_sided) > 100, "at most 0.1 + 0.1 can be gained"


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_no_step_within_the_radius_changes_the_answer(norm: str) -> None:
    model, x = _some(3, 5, 6, seed=1), torch.rand(100, 6)
    proof = faces(model, x, norm)  # type: ignore[arg-type]
    assert float((proof.radius > 0).double().mean()) > 0.95
    reached, generator = torch.zeros(100, dtype=torch.bool), torch.Generator().manual_seed(0)
    for w in [*model.points.detach().flatten(0, 1), *torch.randn(200, 6, generator=generator)]:
        way = {"l2": w - x, "linf": (w - x).sign(), "l1": (w - x) * ((w - x).abs() == (w - x).abs().amax(1)[:, None])}
        step = way[norm] / length(way[norm], norm)[:, None]  # type: ignore[arg-type]
        for share in (0.999, 1.3):
            moved = model((x + share * proof.radius[:, None] * step).float()).argmax(1)
            if share < 1:
                assert torch.equal(moved, proof.prediction)
            else:
                reached |= moved != proof.prediction
    assert float(reached.double().mean()) > 0.1  # so these steps could have changed it


def test_equal_prototypes_of_two_classes_prove_nothing() -> None:
    model = _some(2, 1, 3)
    with torch.no_grad():
        model.points.copy_(model.points[:1].expand(2, 1, 3).clone())
    assert float(faces(model, torch.rand(5, 3)).radius.max()) == 0


@pytest.mark.parametrize("scale", [1e-18, 1e8, 1e14, 1e20])
def test_rounding_is_taken_off_at_every_size(scale: float) -> None:
    model, x = _some(2, 3, 8), torch.rand(50, 8)
    with torch.no_grad():
        model.points.mul_(scale)
    proof = faces(model, scale * x)
    exact = faces(_some(2, 3, 8).double().float(), x).radius * scale
    assert bool((proof.radius <= exact * (1 + 1e-3)).all())
    if scale == 1e20:  # squares exceed float32
        assert float(proof.radius.max()) == 0


def test_a_far_input_near_a_face_loses_its_radius_to_rounding() -> None:
    model, x = _some(2, 1, 2), torch.tensor([[0.6, 1.0], [0.6, 1e7]])
    with torch.no_grad():
        model.points.copy_(torch.tensor([[[0.0, 1.0]], [[1.0, 1.0]]]))
    radius = faces(model, x).radius
    assert float(radius[0]) == pytest.approx(0.1, abs=1e-4)
    assert float(radius[1]) == 0


def test_auto_and_margin_take_the_faces() -> None:
    model, x = _some(3, 2, 6), torch.rand(8, 6)
    ball = Ball.parse("l2:0.05")
    expected = faces(model, x, "l2", ball.box).radius
    chosen = choose(model, x, ball, last="margin").certificate
    assert chosen is not None
    assert bool((chosen.radius >= expected).all())
    assert "prototypes" in chosen.methods
    for method in ("prototypes", "margin"):
        assert torch.equal(certify(model, x, threat=ball, method=method).radius, expected)


def test_other_networks_and_preprocessing_are_refused_in_a_sentence() -> None:
    model, x = _some(3, 2, 6), torch.rand(8, 6)
    for other in (nn.Linear(6, 3), Classifier(model, 0.5)):
        with pytest.raises(InputError, match="prototypes alone"):
            faces(other, x)
    with pytest.raises(InputError, match="float32"):
        faces(model.double(), x.double())
    with pytest.raises(InputError, match="count must be"):
        Prototypes((4,), 3, count=0)
    with pytest.raises(InputError, match="preprocessing none"):
        PrototypeMargin().loss(nn.Linear(6, 3), x, torch.zeros(8, dtype=torch.int64), TrainingProgress(0, 1))


def test_the_distances_of_the_training_are_those_of_the_certificate() -> None:
    model, x = _some(4, 2, 5), torch.rand(60, 5)
    free, boxed = faces(model, x), faces(model, x, "l2", (0.0, 1.0))
    near = Faces.near(model.points, model.scores(x), free.prediction)
    torch.testing.assert_close(near.distances.amin(1).detach().double(), free.radius, atol=1e-4, rtol=1e-4)
    inside = near.in_box(x, 6).amin(1).detach().double()
    assert bool((inside >= boxed.radius * 0.99 - 1e-4).all())
    assert float((inside - boxed.radius).abs().lt(1e-3).double().mean()) > 0.9


def test_training_on_digits_proves_most_of_them() -> None:
    data = load("digits")
    torch.manual_seed(0)
    model = Prototypes((1, 8, 8), 10, count=10)
    optimizer = {"kind": "adam", "schedule": "linear", "lr": 0.01, "warmup": 0.1}
    recipe = Recipe.model_validate({"steps": 60, "batch_size": 128, "test_every": 0, "optimizer": optimizer})
    train(model, data.train, PrototypeMargin(offset=0.75, first_temperature=0.3, temperature=0.15), recipe)
    x, y = data.test.tensors()
    proof = faces(model, x)
    right = proof.prediction == y
    assert float(right.double().mean()) > 0.93
    assert float((right & proof.covers(0.5)).double().mean()) > 0.6
