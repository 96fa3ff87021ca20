"""What a certificate proves, an evaluation proves: networks on which the margin alone proved nothing or less."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from radii.certificates.choose import certify as certify_
from radii.certificates.choose import choose
from radii.data.dataset import Data
from radii.evaluation.evaluate import evaluate
from radii.runs.planning import data_spec, load_trained, train_step
from radii.runs.store import Store
from radii.threat import Ball

POINTS = 60


def trained(folder: Path, data: str, method: str, settings: dict[str, object]) -> tuple[nn.Module, Data]:
    store = Store(folder)
    spec = data_spec(data, store)
    run = store.ensure(train_step(spec, "mlp", method, {"model": {"width": 64, "depth": 2}, **settings}))
    return load_trained(run).model, spec.load()


def test_an_evaluation_proves_what_interval_bounds_were_trained_for(tmp_path: Path) -> None:
    """Interval-trained on binary digits at linf:0.2: the L2 margin proves nothing there."""
    settings = {"epochs": 20, "method": {"radius": 0.2}}
    model, data = trained(tmp_path, "digits+binarize", "interval-bounds", settings)
    ball, (x, y) = Ball.parse("linf:0.2"), data.test.tensors(slice(POINTS))
    certified = certify_(model, x, "ibp", ball)
    proved = (certified.radius >= ball.radius) & (certified.prediction == y)
    scores = evaluate(model, x, y, ball, suite="fast", radii=False, alarms=False)
    robust = scores.points.proved & scores.points.correct
    assert proved.float().mean() > 0.25
    assert (robust >= proved.numpy()).all()


def test_the_choice_proves_at_least_what_any_single_method_does(tmp_path: Path) -> None:
    """A plain network at linf:0.02."""
    model, data = trained(tmp_path, "digits", "natural", {"epochs": 5})
    ball, (x, _) = Ball.parse("linf:0.02"), data.test.tensors(slice(POINTS))
    chosen = choose(model, x, ball).certificate
    assert chosen is not None
    for method in ("ibp", "crown-ibp", "crown", "alpha-crown"):
        assert (chosen.radius >= certify_(model, x, method, ball).radius).all(), method
    assert (chosen.radius >= ball.radius).float().mean() > 0.5
