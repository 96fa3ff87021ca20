"""The grid of attacked networks: what is measured of which network, what studies share, what tables say."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from radii.budget import Budget
from radii.errors import InputError
from radii.papers.catalog.attacked_grid import ALL, AttackedGrid
from radii.papers.catalog.attacked_variants import PGD, STANDARD, AttackPoints, fields, marks, rows, title
from radii.papers.claims.claim import family, read_claim
from radii.report.charts import draw
from radii.runs.inputs import DataSpec
from radii.runs.steps import Evaluate, Train
from radii.runs.store import Store
from radii.studies import optional_data, results
from radii.studies.study import Measured, registered_study
from radii.threat import Ball

THREAT = Ball("linf", 0.3)


@pytest.fixture
def named_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Datasets by name, also where they are not on the machine."""
    named = classmethod(lambda cls, name: cls(source=name, train=f"{name} train", test=f"{name} test"))
    monkeypatch.setattr(DataSpec, "of", named)


def grid(attacks: AttackPoints, **changes: object) -> AttackedGrid:
    return AttackedGrid("digits", "ding-mnist", "smoke", attacks, {0.125: ("binarize",)}, **changes)  # type: ignore[arg-type]


def test_every_attack_stands_on_its_own_points() -> None:
    attacks = AttackPoints(THREAT, test=50, train=40, free=30, suite=20)
    cells = {(cell.place["method"], cell.place["measure"]): cell.step for cell in grid(attacks).cells()}
    assert [measure for method, measure in cells if method == STANDARD] == ["training"]
    found = {measure: step for (_, measure), step in cells.items() if isinstance(step, Evaluate)}
    assert {name: (s.points, s.split, s.suite, s.certify) for name, s in found.items()} == {
        "PGD-40": (50, "test", "pgd", False),
        "PGD-40, train": (40, "train", "pgd", False),
        "PGD-40, no box": (30, "test", "pgd", False),
        "standard suite": (20, "test", "standard", True),
    }
    assert [name for name, step in found.items() if step.ball.box is None] == ["PGD-40, no box"]
    both = grid(AttackPoints(THREAT, test=50, both=True)).cells()
    assert (STANDARD, "PGD-40") in {(cell.place["method"], cell.place["measure"]) for cell in both}


def test_settings_of_the_attack_belong_to_pgd_training() -> None:
    made = grid(AttackPoints(THREAT), settings={"steps": 7, "method": {"steps": 3}}, sizes=(100, ALL))
    trainings = [cell.step for cell in made.cells() if isinstance(cell.step, Train)]
    assert {step.recipe.steps for step in trainings} == {7}
    assert {step.method.arguments.get("steps") for step in trainings} == {None, 3}
    assert {step.data.source for step in trainings} == {"digits+binarize+subset:100", "digits+binarize"}
    assert {cell.place["n"] for cell in made.cells()} == {100, "all"}


@pytest.mark.usefixtures("named_only")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("capacity-mnist", "scaled-digits"),
        ("capacity-mnist", "distance-robustness"),
        ("sensitivity-cifar", "capacity-cifar"),
        ("sensitivity-cifar", "gamma"),
    ],
)
def test_studies_share_networks(first: str, second: str) -> None:
    def trainings(name: str) -> set[str]:
        steps = [cell.step for cell in registered_study(name).cells("cpu")]
        return {(step if isinstance(step, Train) else step.model).run_id for step in steps if hasattr(step, "model")}

    assert trainings(first) & trainings(second)


@pytest.mark.usefixtures("named_only")
def test_table_1_has_titles_of_the_paper() -> None:
    names = {cell.place["variant"] for cell in registered_study("scaled-digits").cells("paper")}
    assert {"smooth 3", "original scaled 0.970", "binarized scaled 0.790"} <= names
    assert title("saturate:inf") == "saturate inf"


def test_a_table_says_at_most_and_leaves_out_what_was_not_measured() -> None:
    place = {"variant": "original", "width": 0.125, "method": PGD}
    kept = {"unbroken": {"value": 0.9}}
    attack = {"robust_accuracy_at_most": 0.8, "test_accuracy": 0.97, "robust_to_predictions": kept}
    cells = [Measured({**place, "measure": "PGD-40"}, attack)]
    (row,) = rows(cells, ("width", "variant"))
    assert (row["pgd_robust"], row["pgd_stable"], row["pgd_clean"], row["standard_clean"]) == (0.8, 0.9, 0.97, None)
    headings = [field.heading for field in fields([row])]
    assert headings == ["PGD-trained: clean", "PGD-40: at most", "predictions unchanged"]
    trained = Measured({**place, "measure": "training"}, {"train_accuracy": 1.0, "test_accuracy": 0.96})
    (row,) = rows([*cells, trained], ("width", "variant"))
    assert (row["pgd_clean"], row["pgd_train"]) == (0.96, 1.0)
    assert marks([row], "width", "variant", ("pgd_robust",)) == [
        {"width": 0.125, "accuracy": 0.8, "curve": "original: PGD-40: at most"}
    ]


def test_results_keep_their_setup(tmp_path: Path) -> None:
    store, study = Store(tmp_path), registered_study("fashion-edges")
    step = next(cell.step for cell in study.cells("smoke") if isinstance(cell.step, Train))
    run = store.ensure(step)
    saved = results.save(results.to_json(results.collect(study, "smoke", store), study, "radii study run"), store)
    words = results.read(saved).setups[run.id]
    for word in ("lenet5", "widen 0.125", "digits", "20 steps", "batches of 32"):
        assert word in words


def test_data_that_is_not_here_is_left_out_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RADII_DATA", str(tmp_path))
    monkeypatch.setenv("RADII_CACHE", str(tmp_path / "cache"))
    optional_data._here.cache_clear()
    with caplog.at_level(logging.WARNING, logger="radii"):
        assert optional_data.present("digits", "svhn", "restricted-imagenet+resize:64", study="a-study") == ("digits",)
        optional_data.present("svhn", study="a-study")
    optional_data._here.cache_clear()
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "svhn is not on this machine", "restricted-imagenet+resize",
    ]  # fmt: skip


def test_a_family_of_claims() -> None:
    record = {
        "id": "a-{slug}", "statement": "Width {width}.", "where": "Table 4", "study": "capacity-mnist",
        "check": "attacked", "reason": "because", "arguments": {"what": "clean", "place": {"width": "{width}"}},
        "published": {"paper": "003", "table": "Table 4", "dataset": "MNIST {0}", "model": "LeNet5 x{width}",
                      "method": "standard", "metric": "{1}_acc_pct"},
        "figures": ["smooth 3, test"], "each": [{"slug": "eighth", "width": 0.125}, {"slug": "half", "width": 0.5}],
    }  # fmt: skip
    eighth, half = (read_claim(one, "Ding et al. 2019") for one in family(record))
    assert (eighth.id, half.statement) == ("a-eighth", "Width 0.5.")
    assert half.arguments["place"]["width"] == 0.5
    assert (eighth.figures[0].value, half.figures[0].value) == (0.988, 0.992)


def test_a_study_without_a_night_says_so() -> None:
    with pytest.raises(InputError, match="separation has the budgets smoke, cpu, paper, not night"):
        registered_study("separation").cells("night")


@pytest.mark.parametrize("budget", ["smoke", "cpu", "night", "paper"])
@pytest.mark.parametrize(
    "name",
    ["sensitivity-mnist", "sensitivity-cifar", "capacity-mnist", "capacity-cifar", "scaled-digits", "sample-size",
     "sample-complexity", "gamma", "fashion-edges", "distance-robustness"],
)  # fmt: skip
@pytest.mark.usefixtures("named_only")
def test_a_complete_study_can_be_drawn(name: str, budget: Budget) -> None:
    """However many variants, widths and sizes a budget has: a chart shows six curves at most."""
    share = {"value": 0.5, "total": 100}
    result = {
        "train_accuracy": 0.9,
        "test_accuracy": 0.8,
        "robust_accuracy_at_most": 0.5,
        "robust_accuracy_at_least": 0.1,
        "mean": 7.0,
        "clean": share,
        "robust_to_predictions": {"unbroken": share},
    }
    study = registered_study(name)
    findings = study.analyze([Measured(dict(cell.place), result) for cell in study.cells(budget)])
    assert findings.charts
    for chart in findings.charts:
        draw(chart)
