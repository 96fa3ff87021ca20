"""Results of evaluations in Python, side by side: counts that one can do by hand, and unlike ones refused."""

from __future__ import annotations

import pytest
import torch

import radii
from radii.errors import InputError


def linear(tilt: float) -> torch.nn.Module:
    """Class 1 where x_0 + tilt x_1 > 0.5."""
    model = torch.nn.Linear(2, 2)
    model.weight.data = torch.tensor([[0.0, 0.0], [1.0, tilt]])
    model.bias.data = torch.tensor([0.0, -0.5])
    return model


X = torch.rand(200, 2, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0.5).long()


def scores(tilt: float, points: int = 200, threat: str = "linf:0.1", **settings: str) -> radii.Scores:
    return radii.evaluate(linear(tilt), X[:points], Y[:points], threat, alarms=False, **settings)  # type: ignore[arg-type]


def other_inputs() -> radii.Scores:
    """Of other points with the same labels."""
    x = X.clone()
    x[:, 1] = 1 - x[:, 1]
    return radii.evaluate(linear(0.0), x, Y, "linf:0.1", alarms=False)


def test_paired_counts_are_those_of_the_points() -> None:
    own = {"straight": scores(0.0), "tilted": scores(0.4)}
    found = radii.compare(own)
    for share in ("clean", "proved", "unbroken"):
        margin = {"clean": 0.0}.get(share, 0.1)
        first = ((X[:, 0] - 0.5).abs() > margin).numpy()
        lead = X[:, 0] + 0.4 * X[:, 1] - 0.5
        second = (((lead > 0) == (Y == 1)) & (lead.abs() > margin * 1.4)).numpy()
        difference = found.differences["tilted"][share]
        assert (difference.lost, difference.won) == (int((first & ~second).sum()), int((second & ~first).sum()))
    assert "Difference to straight" in str(found.difference_table())
    assert list(found.to_frame()["model"]) == ["straight", "tilted"]
    assert not found.warnings


def test_shares_that_were_measured_unlike_have_no_difference() -> None:
    found = radii.compare({"one": scores(0.0), "other": scores(0.4, suite="fast")})
    assert set(found.differences["other"]) == {"clean", "proved"}
    assert any("attacks" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"one": scores(0.0)}, "at least two"),
        ({"one": scores(0.0), "other": scores(0.0, 100)}, "differ in the number of points"),
        ({"one": scores(0.0), "other": scores(0.0, threat="linf:0.2")}, "differ in the threat"),
        ({"one": scores(0.0), "other": other_inputs()}, "differ in the inputs"),
        ({"one": scores(0.0), "other": 3}, "results of radii.evaluate, got 3 as 'other'"),
        ([scores(0.0), scores(0.4)], "a dictionary of results of radii.evaluate by name"),
        ("evaluate-12ab", "a list of runs"),
        (3, "a list of runs, got 3"),
    ],
    ids=["one", "points", "threat", "inputs", "number", "list", "word", "neither"],
)
def test_what_cannot_be_compared_is_refused(asked: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        radii.compare(asked)  # type: ignore[arg-type]
