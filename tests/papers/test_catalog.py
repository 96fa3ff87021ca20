"""Studies: every plan can be made and run at the smoke budget, every analysis accepts a part of its plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from made_records import audited, certified, split
from radii.budget import BUDGETS
from radii.errors import InputError
from radii.runs.component_specs import DataSpec
from radii.runs.executors import run_steps
from radii.runs.step import plan
from radii.runs.step_results import ProveResult
from radii.runs.steps import Certify
from radii.runs.store import Run, Store
from radii.studies import results
from radii.studies.study import STUDIES, Measured, registered_study
from radii_papers.studies import _prach_networks as prach_networks
from radii_papers.studies import data_scaling, published_separation

NIGHTLY = (
    "data-scaling",
    "overfitting",
    "compute-scaling",
    "extra-data",
    "trade-off",
    "subspaces",
    "nearby-points",
    "yang-mnist",
    "yang-cifar",
    "dropout",
    "staircase",
)
ATTACKED = (
    "sensitivity-mnist", "sensitivity-cifar", "capacity-mnist", "capacity-cifar", "scaled-digits", "sample-size",
    "gamma", "fashion-edges", "distance-robustness", "sample-complexity",
)  # fmt: skip
TRAINED = (*ATTACKED, "data-scaling", "subspaces")


@pytest.mark.parametrize("name", list(STUDIES))
def test_a_study_runs_and_its_findings_survive_a_file(name: str, tmp_path: Path) -> None:
    store, made = Store(tmp_path), registered_study(name)
    cells = made.cells("smoke")
    assert made.analyze(()).table.rows == ()
    run_steps([cells[0].step], store, workers=0)
    part = results.collect(made, "smoke", store)  # an analysis accepts any part of its plan
    assert not part.complete or part.planned == 1
    assert len(made.analyze(part.measured).table.rows) == 1
    run_steps([cell.step for cell in cells], store, workers=0)
    found = results.collect(made, "smoke", store)
    assert found.complete
    path = Path(results.save(found, made, "radii study run", store).origin)
    again = results.read(path)
    assert json.dumps(made.analyze(again.measured).table.rows) == json.dumps(made.analyze(found.measured).table.rows)
    findings = made.analyze(again.measured)
    assert findings.table.rows
    for row in findings.table.rows:
        assert {field.name for field in findings.table.fields} <= set(row)
    for chart in findings.charts:
        for row in chart.rows:
            assert {chart.x.name, chart.y.name, chart.series} <= set(row)
    own = results.find(name, store, "smoke")
    assert own is not None
    assert own.origin == str(path)


def test_plans_at_every_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is planned twice; plans need the data's digests only."""
    named = classmethod(lambda cls, name: cls(source=name, train=f"{name} train", test=f"{name} test"))
    monkeypatch.setattr(DataSpec, "of", named)
    for name in TRAINED:
        assert registered_study(name).cells("paper")
        steps = [cell.step for cell in registered_study(name).cells("cpu")]
        ordered = plan(steps)
        assert len({step.run_id for step in ordered}) == len(ordered)
    for name in ATTACKED:
        places = [tuple(cell.place.items()) for cell in registered_study(name).cells("night")]
        assert len(set(places)) == len(places)
    sizes = {
        cell.place["n"] for cell in registered_study("data-scaling").cells("cpu") if cell.place["data"] == "cifar10"
    }
    assert sorted(sizes) == [781, 1562, 3125, 6250, 12_500, 25_000, 50_000]


def test_a_budget_that_a_study_does_not_have_is_one_sentence() -> None:
    with pytest.raises(InputError, match="The study separation has the budgets smoke, cpu, paper, not night"):
        registered_study("separation").cells("night")


def test_every_study_of_prach_and_yang_is_planned_at_every_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is planned twice at one place, and the length of a training does not depend on the size of its data."""
    named = classmethod(lambda cls, name: cls(source=name, train=f"{name} train", test=f"{name} test"))
    monkeypatch.setattr(DataSpec, "of", named)
    for name in NIGHTLY:
        for budget in BUDGETS:
            cells = registered_study(name).cells(budget)
            places = [tuple(sorted(cell.place.items())) for cell in cells]
            assert cells
            assert len(set(places)) == len(places), (name, budget)
    lengths = {
        (cell.place["data"], cell.place["model"], cell.step.model.recipe.steps)
        for cell in registered_study("data-scaling").cells("night")
        if isinstance(cell.step, Certify)
    }
    assert len({(data, model) for data, model, _ in lengths}) == len(lengths)


def test_equal_compute_whatever_the_size() -> None:
    steps = {cell.step.recipe.steps for cell in data_scaling.STUDY.cells("smoke") if cell.place["model"] == "standard"}
    assert len(steps) == 1


def test_data_scaling_means_over_seeds_and_keeps_them_for_the_forecast() -> None:
    def cell(n: int, seed: int, value: float) -> Measured:
        own = split(value, [value] * 5, total=2000)
        place = {"data": "cifar10", "n": n, "seed": seed, "model": "1-Lipschitz"}
        return Measured(place, certified(prach_networks.RADII, own, own))

    found = data_scaling.STUDY.analyze([cell(100, 0, 0.2), cell(100, 1, 0.4), cell(200, 0, 0.5)])
    assert [row["certified"] for row in found.table.rows] == [pytest.approx(0.3), 0.5]
    (curve,) = found.scaling
    assert curve.test_points == 2000
    assert [(o["n"], o["seed"], o["value"]) for o in curve.observations] == [
        (100, 0, 0.2),
        (100, 1, 0.4),
        (200, 0, 0.5),
    ]


def test_separation_counts_epsilons() -> None:
    (row,) = published_separation.analyze([Measured({"data": "mnist"}, audited(0.5, 0.4))]).table.rows
    assert row["ratio"] == pytest.approx(4.0)


def test_what_is_proved_is_right_and_unbroken(tmp_path: Path) -> None:
    """Proved among unbroken among right; behind a threshold, on binary images, every right answer is proved."""
    store = Store(tmp_path)
    steps = {(c.place["variant"], c.place["network"]): c.step for c in registered_study("provable").cells("smoke")}
    for place, step in steps.items():
        found = store.ensure(step).read(ProveResult)
        proved, unbroken, clean = (share.correct for share in (found.proved, found.unbroken, found.clean))
        assert proved <= unbroken <= clean
        assert place[1] != "behind a threshold" or proved == clean > 0


def test_certify_agrees_with_the_command(tmp_path: Path) -> None:
    """The step's accuracies are those of the certificates, counted again."""
    import torch

    from radii.certificates import lipschitz
    from radii.runs.planning import load_trained

    store, data = Store(tmp_path), DataSpec.of("digits")
    training = prach_networks.lipschitz_training(data, prach_networks.shrunk(60, 64, 8, depth=1))
    run = store.ensure(Certify(model=training, data=data, radii=(0.0, 0.1), points=10_000))
    network = load_trained(Run(store.folder(training))).model
    x, y = data.load().test.tensors()
    certificate = lipschitz.certify(network, x)
    right = certificate.prediction == y
    found = run.read(Certify.Result)
    assert found.test is not None
    assert found.test.clean.correct == int(right.sum())
    assert found.test.shares[1].correct == int((right & (certificate.radius >= 0.1)).sum())
    assert found.lipschitz is not None
    assert 0 < found.lipschitz <= 1 + 1e-5
    assert torch.is_tensor(certificate.radius)


def test_an_unknown_study_is_named() -> None:
    with pytest.raises(InputError, match="Did you mean 'separation'"):
        registered_study("seperation")


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"cells": 3}')
    with pytest.raises(InputError, match="not a study's result"):
        results.read(tmp_path / "a.json")
