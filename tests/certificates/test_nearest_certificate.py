"""1-NN certificates against a dense search for a change of class."""

from __future__ import annotations

import pytest
import torch

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


def test_bad_input_is_said() -> None:
    x, y = points()
    with pytest.raises(InputError, match="two classes"):
        certify(x, (x, torch.zeros(40, dtype=torch.int64)))
    with pytest.raises(InputError, match="One label"):
        certify(x, (x, y[:5]))
