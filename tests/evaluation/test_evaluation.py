"""Evaluation on models whose truth is known: the bracket closes on it, contradictions are loud."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from radii.certificates.certificate import Certificate
from radii.certificates.choose import choose
from radii.errors import ContradictionError, InputError
from radii.evaluation.evaluate import evaluate, joined
from radii.evaluation.scores import PointTable
from radii.models.classifier import predict
from radii.runs.record_files import read_record, write_record
from radii.threat import Ball, Norm, converted, length


@pytest.fixture
def line() -> tuple[nn.Linear, Tensor, Tensor, Tensor]:
    """A two-class model with known L2 radii |<w, x> + b| / ||w||; a tenth of the labels are wrong."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Linear(6, 2)
    with torch.no_grad():
        model.weight.copy_(torch.randn(2, 6, generator=generator))
        model.bias.copy_(torch.randn(2, generator=generator) * 0.1)
    x = torch.rand(80, 6, generator=generator)
    logits = model(x).detach().double()
    radius = (logits[:, 0] - logits[:, 1]).abs() / (model.weight[0] - model.weight[1]).detach().double().norm()
    y = logits.argmax(1)
    y[:8] = 1 - y[:8]
    return model, x, y, radius


def exact(model: nn.Module, x: Tensor, radius: Tensor, factor: float = 1.0) -> Certificate:
    return Certificate(model(x).argmax(1), radius * factor, "l2", "deterministic", "exact line")


def test_the_bracket_closes_on_the_truth(line: tuple[nn.Linear, Tensor, Tensor, Tensor]) -> None:
    model, x, y, radius = line
    ball = Ball("l2", float(radius.median()) * 1.001, None)
    scores = evaluate(model, x, y, ball, suite="fast", certificate=exact(model, x, radius, 1 - 1e-6))
    right = (model(x).argmax(1) == y).numpy()
    truth = right & (radius.numpy() > ball.radius)
    assert scores.clean.correct == right.sum() == 72
    assert scores.robust.proved.correct == truth.sum() == scores.robust.unbroken.correct
    assert scores.stable.unbroken.correct == (radius > ball.radius).sum()
    assert np.allclose(scores.points.changed_radius, radius.numpy(), rtol=1e-3)
    assert (scores.points.broken_radius[~right] == 0).all()


def test_proved_points_are_not_attacked(
    line: tuple[nn.Linear, Tensor, Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radii.evaluation.evaluate.exact_errors", lambda *_: None)  # which asks about every point
    model, x, y, radius = line
    ball = Ball("l2", float(radius.median()), None)
    certificate = exact(model, x, radius, 1 - 1e-6)
    scores = evaluate(model, x, y, ball, suite="fast", certificate=certificate, radii=False)
    covered = certificate.covers(ball.radius).numpy()
    assert covered.any()
    assert (scores.points.queries[covered] == 0).all()
    assert (scores.points.queries[~covered] > 0).all()
    without = evaluate(model, x, y, ball, suite="fast", certificate=None, radii=False)
    assert (without.points.broken == scores.points.broken).all()
    assert sum(without.passes.values()) > sum(scores.passes.values())


def test_a_false_certificate_is_a_contradiction(line: tuple[nn.Linear, Tensor, Tensor, Tensor]) -> None:
    model, x, y, radius = line
    with pytest.raises(ContradictionError, match="broken inside their proved radius"):
        evaluate(model, x, y, Ball("l2", 0.1, None), suite="fast", certificate=exact(model, x, radius, 1.05))
    stranger = exact(nn.Linear(6, 2), x, radius)
    with pytest.raises(ContradictionError, match="another model"):
        evaluate(model, x, y, Ball("l2", 0.1, None), suite="fast", certificate=stranger)


def test_an_estimate_proves_nothing(line: tuple[nn.Linear, Tensor, Tensor, Tensor]) -> None:
    model, x, y, radius = line
    guess = Certificate(model(x).argmax(1), radius * 3, "l2", "estimate", "guess")
    scores = evaluate(model, x, y, Ball("l2", 0.1, None), suite="fast", certificate=guess, radii=False)
    assert scores.robust.proved.correct == 0
    assert any("estimate" in note for note in scores.notes)


def test_the_summary_is_json(line: tuple[nn.Linear, Tensor, Tensor, Tensor]) -> None:
    model, x, y, radius = line
    scores = evaluate(model, x, y, Ball("l2", 0.2, None), suite="fast", certificate=exact(model, x, radius, 0.5))
    summary = json.loads(json.dumps(scores.summary(), allow_nan=False))
    assert summary["threat"] == "l2:0.2,nobox"
    assert summary["clean"]["correct"] == 72
    assert summary["robust"]["proved"]["correct"] <= summary["robust"]["unbroken"]["correct"]
    assert summary["points"] == 80
    assert sum(row["points"] for row in summary["per_class"]) == 80
    assert len(json.loads(json.dumps(scores.points.records(), allow_nan=False))) == 80
    curve = scores.curve()
    assert curve[0].bracket.unbroken.correct == 72
    assert [p.bracket.unbroken.correct for p in curve] == sorted(
        (p.bracket.unbroken.correct for p in curve), reverse=True
    )


@pytest.mark.parametrize("given", ["l1", "l2", "linf"])
@pytest.mark.parametrize("wanted", ["l1", "l2", "linf"])
def test_converted_radii_fit_inside(given: str, wanted: str) -> None:
    """Every vector of the converted radius in one norm lies in the given ball of the other, and some touch."""
    generator = torch.Generator().manual_seed(1)
    steps = torch.cat([torch.randn(500, 9, generator=generator), torch.ones(1, 9), torch.eye(9)])
    radius = float(converted(torch.tensor(2.0), given, wanted, 9))  # type: ignore[arg-type]
    steps = steps / length(steps, wanted)[:, None] * radius  # type: ignore[arg-type]
    sizes = length(steps, given)  # type: ignore[arg-type]
    assert float(sizes.max()) == pytest.approx(2.0, rel=1e-5)


def test_certificates_of_other_norms_are_converted(line: tuple[nn.Linear, Tensor, Tensor, Tensor]) -> None:
    model, x, y, radius = line
    scores = evaluate(
        model, x, y, Ball("linf", 0.05, None), suite="fast", certificate=exact(model, x, radius, 0.99), radii=False
    )
    assert np.allclose(scores.points.proved_radius, 0.99 * radius.numpy() / 6**0.5)
    assert any("converted" in note for note in scores.notes)


def test_bad_input_is_refused(line: tuple[nn.Linear, Tensor, Tensor, Tensor]) -> None:
    model, x, y, radius = line
    with pytest.raises(InputError, match="Did you mean 'standard'"):
        evaluate(model, x, y, Ball("l2", 0.2, None), suite="standrad")
    with pytest.raises(InputError, match="one row per point"):
        evaluate(model, x, y, Ball("l2", 0.2, None), certificate=exact(model, x[:5], radius[:5]))
    with pytest.raises(InputError, match="Labels must lie"):
        evaluate(model, x, y + 1, Ball("l2", 0.2, None))


@pytest.mark.parametrize(("share", "count"), [(1.0, 20), (0.5, 10)])
def test_a_model_that_answers_nan_is_told_so_before_the_work(share: float, count: int) -> None:
    """Not called wrong labels, and never a class."""

    class Overflowing(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return torch.where(x[:, :1] < share, torch.nan, super().forward(x))

    x, y = torch.linspace(0, 0.99, 20)[:, None].repeat(1, 2), torch.zeros(20, dtype=torch.int64)
    with pytest.raises(InputError, match=f"logits are NaN for {count} of 20 inputs"):
        evaluate(Overflowing(2, 2).eval(), x, y, Ball("l2", 0.2))


def test_contradictions_are_judged_against_the_certified_function(
    line: tuple[nn.Linear, Tensor, Tensor, Tensor],
) -> None:
    """A certificate of float32 has no excuse; one of exact arithmetic is excused where its own function holds."""
    model, x, y, radius = line
    ball = Ball("l2", float(radius.median()), None)
    false = replace(exact(model, x, radius, 1 - 1e-6), radius=radius * 1.1)
    with pytest.raises(ContradictionError):
        evaluate(model, x, y, ball, suite="fast", certificate=false)

    def steadfast(points: Tensor) -> Tensor:
        """The class of the row that was asked for: nothing ever contradicts it."""
        return -nn.functional.one_hot(predict(model, points.float()), 2).double()

    excused = replace(false, arithmetic="exact", exact_logits=steadfast)
    scores = evaluate(model, x, y, ball, suite="fast", certificate=excused)
    assert any("cut by the rounding" in note for note in scores.notes)


def test_a_certificate_of_a_changed_model_is_refused(line: tuple[nn.Linear, Tensor, Tensor, Tensor]) -> None:
    model, x, y, _ = line
    certificate = choose(model, x, Ball("l2", 0.1, None)).certificate
    assert certificate is not None
    with torch.no_grad():
        model.weight.mul_(1.01)
    with pytest.raises(InputError, match="not as it was when it was certified"):
        evaluate(model, x, y, Ball("l2", 0.1, None), suite="fast", certificate=certificate)


def test_the_strongest_proof_is_the_default(line: tuple[nn.Linear, Tensor, Tensor, Tensor]) -> None:
    model, x, y, radius = line
    ball = Ball("l2", float(radius.median()), None)
    scores = evaluate(model, x, y, ball, suite="fast", radii=False)
    assert scores.robust.proved.correct > 0
    assert scores.certificate_method == "linear", "exact"


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_complete_verification_closes_brackets(norm: Norm) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    x = torch.rand(4, 6)
    y, ball = model(x).argmax(1), Ball(norm, 0.02)
    open_ = evaluate(model, x, y, ball, suite="fast", certificate=None)
    closed = evaluate(model, x, y, ball, suite="fast", certificate=None, complete=60)
    assert open_.radius_known().correct == 0
    assert closed.radius_known().correct == 4
    assert (closed.points.changed_radius <= open_.points.changed_radius).all()
    assert (closed.points.proved_radius <= closed.points.changed_radius).all()
    assert (closed.points.proved == (closed.points.proved_radius >= ball.radius)).all()
    assert (closed.points.proved != closed.points.changed).all()  # nothing is left between
    assert closed.certificate_method == "complete"
    assert any("Complete verification, " in note for note in closed.notes)


def test_every_proof_has_its_method(line: tuple[nn.Linear, Tensor, Tensor, Tensor], tmp_path: Path) -> None:
    model, x, y, _ = line
    ball = Ball("l2", 0.05, None)
    scores = evaluate(model, x, y, ball, suite="fast", radii=False, alarms=False)
    points, methods = scores.points, set((scores.certificate_method or "").split(" + "))
    assert [bool(name) for name in points.proved_by] == (points.proved_radius > 0).tolist()
    assert set(points.proved_by) - {""} <= methods
    half = len(y) // 2
    parts = [
        evaluate(model, x[own], y[own], ball, suite="fast", radii=False, alarms=False)
        for own in (slice(0, half), slice(half, None))
    ]
    assert joined(parts, model, x, y).points.proved_by == points.proved_by
    assert points.take(np.array([2, 0])).proved_by == (points.proved_by[2], points.proved_by[0])
    old = replace(points, proved_by=())  # as in the runs of before
    write_record(tmp_path / "old.safetensors", old)
    assert read_record(tmp_path / "old.safetensors", PointTable).take(np.array([1])).proved_by == ()
    nothing = evaluate(model, x, y, ball, suite="fast", certificate=None, radii=False, alarms=False)
    assert set(nothing.points.proved_by) == {""}
