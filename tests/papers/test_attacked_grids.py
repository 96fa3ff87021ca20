"""Studies of attacked networks: what is measured of which network, what studies share, what tables say."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_records import evaluated, trained
from radii.budget import Budget
from radii.errors import InputError
from radii.report.charts import draw
from radii.runs.component_specs import DataSpec
from radii.runs.steps import Evaluate, Train
from radii.runs.store import Store
from radii.studies import grid, results
from radii.studies.study import Measured, registered_study
from radii_papers.claims.claim import family, read_claim
from radii_papers.measurements import InterclassResult
from radii_papers.studies.attacked_grids import PGD, STANDARD, fields, marks, rows


@pytest.fixture
def named_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Datasets by name, also where they are not on the machine."""
    named = classmethod(lambda cls, name: cls(source=name, train=f"{name} train", test=f"{name} test"))
    monkeypatch.setattr(DataSpec, "of", named)
    monkeypatch.setattr(grid, "_here", lambda name, study: True)


@pytest.mark.usefixtures("named_only")
def test_every_attack_stands_on_its_own_points() -> None:
    cells = registered_study("capacity-mnist").cells("paper")
    own = [cell for cell in cells if (cell.place["variant"], cell.place["width"]) == ("smooth 3", 0.5)]
    steps = {(cell.place["method"], cell.place["measure"]): cell.step for cell in own}
    assert [measure for method, measure in steps if method == STANDARD] == ["training"]
    attacks = {measure: step for (_, measure), step in steps.items() if isinstance(step, Evaluate)}
    assert {name: (s.points, s.split, s.suite, s.certify) for name, s in attacks.items()} == {
        "PGD-40": (10_000, "test", "pgd", False),
        "PGD-40, train": (60_000, "train", "pgd", False),
        "PGD-40, no box": (10_000, "test", "pgd", False),
        "standard suite": (1000, "test", "standard", True),
    }
    assert [name for name, step in attacks.items() if step.ball.box is None] == ["PGD-40, no box"]
    both = {
        (cell.place["method"], cell.place["measure"]) for cell in registered_study("sensitivity-mnist").cells("cpu")
    }
    assert (STANDARD, "PGD-40") in both


@pytest.mark.usefixtures("named_only")
def test_settings_of_the_attack_belong_to_pgd_training() -> None:
    trainings = [cell.step for cell in registered_study("sample-size").cells("cpu") if isinstance(cell.step, Train)]
    assert {step.recipe.steps for step in trainings} == {2000}
    assert {step.method.arguments.get("steps") for step in trainings} == {None, 5}
    assert {"mnist+binarize+subset:1000", "mnist+binarize"} <= {step.data.source for step in trainings}


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
    levels = {cell.place["variant"] for cell in registered_study("sensitivity-cifar").cells("paper")}
    assert {"original", "saturate 1.75", "saturate inf"} <= levels


def test_a_table_says_at_most_and_leaves_out_what_was_not_measured() -> None:
    place = {"variant": "original", "width": 0.125, "method": PGD}
    attack, training = evaluated(0.8, 0.97, kept=0.9), trained(0.96)
    cells = [Measured({**place, "measure": "PGD-40"}, attack), Measured({**place, "measure": "training"}, training)]
    (row,) = rows(cells, ("width", "variant"))
    assert (row["pgd_robust"], row["pgd_stable"], row["pgd_clean"], row["standard_clean"]) == (0.8, 0.9, 0.96, None)
    headings = [field.heading for field in fields([row])]
    assert headings == ["PGD-trained: train", "PGD-trained: clean", "PGD-40: at most", "predictions unchanged"]
    assert marks([row], "width", "variant", ("pgd_robust",)) == [
        {"width": 0.125, "accuracy": 0.8, "curve": "original: PGD-40: at most"}
    ]


def test_results_keep_their_setup(tmp_path: Path) -> None:
    store, study = Store(tmp_path), registered_study("fashion-edges")
    step = next(cell.step for cell in study.cells("smoke") if isinstance(cell.step, Train))
    run = store.ensure(step)
    saved = results.save(results.collect(study, "smoke", store), study, "radii study run", store)
    words = results.read(Path(saved.origin)).setups[run.id]
    for word in ("lenet5", "widen 0.125", "digits", "20 steps", "batches of 32"):
        assert word in words


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
    found = {
        "train": trained(0.8, 0.9),
        "evaluate": evaluated(0.5, 0.8, proved=0.1),
        "interclass": InterclassResult(mean=7.0),
    }
    study = registered_study(name)
    findings = study.analyze([Measured(dict(cell.place), found[cell.step.kind]) for cell in study.cells(budget)])
    assert findings.charts
    for chart in findings.charts:
        draw(chart)
