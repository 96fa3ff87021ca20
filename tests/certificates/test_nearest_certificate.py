"""1-NN certificates against a dense search for a change of class."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import radii
from radii.certificates.nearest import certify
from radii.errors import InputError
from radii.threat import length


def points(n: int = 40, d: int = 3, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, d, generator=generator), torch.arange(n) % 3


def classes(x: torch.Tensor, stored) -> torch.Tensor:
    return stored[1][torch.cdist(x.double(), stored[0].double()).argmin(1)]


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_the_class_holds_within_the_radius(norm) -> None:
    stored, x = points(), points(60, seed=1)[0]
    found = certify(x, stored, norm)
    power = {"l1": 1.0, "l2": 2.0, "linf": float("inf")}[norm]
    generator = torch.Generator().manual_seed(2)
    assert int((found.radius > 0).sum()) > 50
    for _ in range(200):
        step = torch.randn(x.shape, generator=generator)
        moved = x + step * (found.radius / length(step, norm) * 0.9999)[:, None].float()
        nearest = torch.cdist(moved.double(), stored[0].double(), p=power).argmin(1)
        assert torch.equal(stored[1][nearest], found.prediction)


def test_faces_are_exact_for_two_points() -> None:
    stored = (torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
    x = torch.tensor([[0.2, 0.9]])
    assert float(certify(x, stored).radius) == pytest.approx(0.3, rel=1e-5)  # the face is the line x = 1/2
    half = float(certify(x, stored, faces=False).radius)
    assert half < 0.2
    assert classes(x + torch.tensor([[0.301, 0.0]]), stored).item() == 1


def test_faces_never_give_less_and_few_rivals_stay_sound() -> None:
    stored, x = points(200), points(50, seed=3)[0]
    full, few, half = certify(x, stored, rivals=200), certify(x, stored, rivals=3), certify(x, stored, faces=False)
    assert (full.radius >= half.radius - 1e-12).all()
    assert (few.radius <= full.radius + 1e-9).all()


def test_a_tie_has_radius_zero() -> None:
    stored = (torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1]))
    assert float(certify(torch.tensor([[0.5]]), stored).radius) == 0.0


def exact_distance(a: list[Fraction], b: list[Fraction], norm: str) -> Fraction:
    """The distance in ``norm``, squared for L2."""
    steps = [abs(u - v) for u, v in zip(a, b, strict=True)]
    return max(steps) if norm == "linf" else sum((s * s if norm == "l2" else s for s in steps), Fraction(0))


def nearest_class(x: list[Fraction], stored: list[list[Fraction]], labels: list[int], norm: str) -> int:
    scores = [exact_distance(x, point, norm) for point in stored]
    return labels[scores.index(min(scores))]


def fractions(rows) -> list[list[Fraction]]:
    return [[Fraction(value) for value in row] for row in rows.tolist()]


DATA = {
    "beyond float32": lambda rng, n: rng.random((n, 3)) * 0.01 + 1e4,
    "beyond float32, far": lambda rng, n: rng.random((n, 2)) + 2.0**40,
    "large and small": lambda rng, n: rng.random((n, 3)) * np.array([1e12, 1.0, 1e-12]),
    "tiny": lambda rng, n: rng.random((n, 2)) * 1e-160,
    "near ties": lambda rng, n: rng.integers(0, 3, (n, 2)) / 3 + rng.integers(0, 2, (n, 2)) * 2.0**-52,
    "float32": lambda rng, n: rng.random((n, 3)).astype(np.float32).astype(np.float64),
}


@pytest.mark.parametrize("kind", ["numpy", "tensor"])
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("data", DATA)
def test_radii_are_true_of_the_numbers_as_given(data: str, norm: str, kind: str) -> None:
    """The class is that of exact arithmetic, and it holds at the ends of steps towards every rival."""
    rng = np.random.default_rng(0)
    x, points, labels = DATA[data](rng, 12), DATA[data](rng, 20), np.arange(20) % 3
    given = (lambda array: array) if kind == "numpy" else torch.from_numpy
    found = radii.certify(None, given(x), "nearest", norm=norm, stored=(given(points), given(labels)))  # type: ignore[arg-type]
    places, rows, classes = fractions(points), fractions(x), labels.tolist()
    for row, prediction, radius in zip(rows, found.prediction.tolist(), found.radius.tolist(), strict=True):
        assert prediction == nearest_class(row, places, classes, norm)
        if radius == 0:
            continue
        for place in places:  # within the radius, straight at each stored point
            way = exact_distance(row, place, norm)
            length = Fraction(float(way) ** 0.5) * (1 + Fraction(1, 10**12)) if norm == "l2" else way
            share = min(Fraction(1), Fraction(radius) * Fraction(999999, 1000000) / length) if length else Fraction(0)
            moved = [a + share * (b - a) for a, b in zip(row, place, strict=True)]
            assert nearest_class(moved, places, classes, norm) == prediction
    assert data in ("tiny", "near ties") or float(found.radius.max()) > 0


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_half_the_difference_is_never_rounded_up(norm: str) -> None:
    """By fractions, to the last digit of float64; and little is lost."""
    rng = np.random.default_rng(1)
    x, points, labels = rng.random((300, 5)), rng.random((30, 5)) * 1.7, np.arange(30) % 3
    found, places = certify(x, (points, labels), norm), fractions(points)  # type: ignore[arg-type]
    for row, label, radius in zip(fractions(x), found.prediction.tolist(), found.radius.tolist(), strict=True):
        scores = [exact_distance(row, place, norm) for place in places]
        own = min(score for score, other in zip(scores, labels, strict=True) if other == label)
        half = (min(score for score, other in zip(scores, labels, strict=True) if other != label) - own) / 2
        assert Fraction(radius) <= half <= Fraction(radius) + Fraction(1, 10**13)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_a_point_between_two_that_float32_cannot_tell(norm: str) -> None:
    stored = (np.array([[16777216.0], [16777218.0]]), np.array([0, 1]))
    found = radii.certify(
        None, np.array([[16777217.0], [16777216.9], [16777217.1]]), "nearest", norm=norm, stored=stored
    )  # type: ignore[arg-type]
    assert found.prediction.tolist() == [0, 0, 1]
    assert found.radius.tolist() == pytest.approx([0.0, 0.1, 0.1], abs=1e-6)
    assert all(found.radius <= torch.tensor([0.0, 0.1, 0.1]))


def test_ties_of_distances_go_to_the_first_point() -> None:
    """0.1 + 0.2 and 0.3 differ by rounding: 1/10 as a float64 is nearer to one of them, and fractions know which."""
    x, points = np.array([[0.0, 0.0]]), np.array([[0.1, 0.2], [0.3, 0.0], [0.2, 0.1]])
    found = certify(x, (points, np.array([0, 1, 2])), "l1")
    assert found.prediction.tolist() == [nearest_class(*fractions(x), fractions(points), [0, 1, 2], "l1")]


def test_labels_may_be_of_any_whole_type() -> None:
    x, y = points()
    for labels in (y.int(), y.double(), y.numpy().tolist(), torch.nn.functional.one_hot(y)):
        found = certify(x, (x, labels))
        assert found.prediction.dtype == torch.int64
        assert torch.equal(found.prediction, y)
    with pytest.raises(InputError, match="fractions"):
        certify(x, (x, y + 0.5))


def test_bad_input_is_said() -> None:
    x, y = points()
    with pytest.raises(InputError, match="two classes"):
        certify(x, (x, torch.zeros(40, dtype=torch.int64)))
    with pytest.raises(InputError, match="One label"):
        certify(x, (x, y[:5]))
