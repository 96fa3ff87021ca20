"""Study files: every key does what it says, every mistake is told at once; the example of the docs runs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import made_records
from made_records import evaluated, split
from radii.errors import InputError
from radii.runs.steps import Certify, Evaluate, Train
from radii.runs.store import Store
from radii.studies import grid, toml
from radii.studies.grid import analyze
from radii.studies.study import Measured
from radii.training import recipes

EXAMPLE = Path(__file__).parents[2] / "examples" / "widths.toml"

WHOLE = """
name = "whole"
title = "All keys"
data = ["digits"]
variants = ["", "smooth:3"]
sizes = [300, 1200]
seeds = [0, 1]
preprocessing = "none"

[[model]]
name = "lenet5"
widen = 0.125
measure = "evaluate"

[[model]]
name = "lipschitz-convnet"
label = "bounded"
width = 4
settings.optimizer.lr = 0.5

[[method]]
name = "natural"

[settings]
steps = 5
batch_size = 32

[measure.evaluate]
threat = "linf:0.1"
suite = "fast"
points = 50

[measure.certify]
radii = [0.1, 0.5]
points = 100

[budget.smoke]
sizes = [300]
seeds = [0]
settings.steps = 2
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    return path


def test_a_grid_has_every_combination(tmp_path: Path) -> None:
    study = toml.load(written(tmp_path, WHOLE))
    assert (study.name, study.title, study.source) == ("whole", "All keys", "study.toml")
    cells = study.cells("cpu")
    assert len(cells) == 2 * 2 * 2 * (1 + 2)  # variants, sizes, seeds; lenet5 is only evaluated
    assert len({(cell.step.run_id) for cell in cells}) == len(cells)
    evaluated = [cell for cell in cells if isinstance(cell.step, Evaluate)]
    certified = [cell for cell in cells if isinstance(cell.step, Certify)]
    assert {cell.place["model"] for cell in certified} == {"bounded"}
    assert len(evaluated) == 16
    step = certified[0].step
    assert isinstance(step, Certify)
    assert step.radii == (0.1, 0.5)
    assert step.model.recipe.optimizer.lr == 0.5
    assert step.model.preprocessing == "none"
    assert step.data.source == "digits+subset:300"
    assert cells[0].step.model.recipe.optimizer.lr != 0.5  # type: ignore[attr-defined]
    assert study.cells("paper") == cells


def test_a_grid_can_be_proved(tmp_path: Path) -> None:
    text = """
    name = "proved"
    data = ["digits+binarize"]
    [settings]
    steps = 2
    [[model]]
    name = "wong-kolter"
    widen = 0.25
    [[method]]
    name = "interval-bounds"
    radius = 0.1
    [measure.prove]
    threat = "linf:0.1"
    method = "ibp"
    points = 20
    """
    study, store = toml.load(written(tmp_path, text)), Store(tmp_path / "runs")
    (cell,) = study.cells("cpu")
    found = Measured(cell.place, store.ensure(cell.step).result)
    (row,) = study.analyze([found]).table.rows
    assert 0 <= row["proved"] <= row["unbroken"] <= row["clean"] <= 1
    with pytest.raises(InputError, match=r"measure\.prove\.threat: bounds exist for l2 and linf balls"):
        toml.load(written(tmp_path, text.replace("linf:0.1", "l1:0.1")))


def test_a_budget_lies_over_the_rest(tmp_path: Path) -> None:
    cells = toml.load(written(tmp_path, WHOLE)).cells("smoke")
    assert len(cells) == 2 * 3
    assert {cell.place["n"] for cell in cells} == {300}
    assert cells[0].step.model.recipe.steps == 2  # type: ignore[attr-defined]


def test_gaps_constants_estimates_and_extra_points(tmp_path: Path) -> None:
    """Both splits are two cells, the constant is no percentage, an estimate is not called certified."""
    text = """
    name = "more"
    data = ["digits+subset:100"]
    extra = "digits+rest:1300"
    seeds = [0]
    settings = { steps = 3, batch_size = 20, extra_share = 0.5, init = "kaiming" }
    [[model]]
    name = "mlp"
    width = 16
    [measure.evaluate]
    threat = "linf:0.1"
    suite = "fast"
    points = 20
    lipschitz = true
    split = "both"
    [measure.certify]
    radii = [0.1]
    points = 20
    method = "estimate"
    sigma = 0.25
    """
    path = tmp_path / "more.toml"
    path.write_text(text)
    cells = toml.load(path).cells("cpu")
    assert [cell.place["measure"] for cell in cells] == ["evaluate", "evaluate, train", "certify"]
    training = cells[0].step.model
    assert training.extra.source == "digits+rest:1300"
    assert (training.recipe.extra_share, training.recipe.init) == (0.5, "kaiming")
    store = Store(tmp_path)
    measured = [Measured(cell.place, store.ensure(cell.step).result) for cell in cells]
    found = analyze(measured)
    (row,) = found.table.rows
    assert {"clean", "clean, train", "unbroken, train", "estimated at 0.1"} <= set(row)
    assert row["local Lipschitz, at least"] > 0
    assert not any("certified" in str(key) for key in row)
    path.write_text(text.replace('method = "estimate"', ""))
    with pytest.raises(InputError, match=r"measure\.certify\.sigma: write it for the methods smoothing and estimate"):
        toml.load(path)
    path.write_text(text.replace("digits+rest:1300", "nowhere"))
    with pytest.raises(InputError, match="extra: "):
        toml.load(path)


def test_without_measurements_the_training_is_the_cell(tmp_path: Path) -> None:
    study = toml.load(written(tmp_path, 'name = "plain"\ndata = ["digits"]\n[[model]]\nname = "mlp"\n'))
    (cell,) = study.cells("cpu")
    assert isinstance(cell.step, Train)
    assert cell.step.method.name == "natural"


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = """
name = "Not a name"
data = ["digist"]
variants = ["smoth:3"]
sizes = [0]
sedes = [0]

[[model]]
name = "lenet"

[[model]]
name = "mlp"
widht = 3

[[model]]
name = "mlp"

[[method]]
name = "adversarial"
threat = "l7:1"

[settings]
epcohs = 3
optimizer.lr = "fast"

[measure.evaluate]
threat = "linf:a"
suite = "standrad"

[budget.tiny]
seeds = [0]
"""
    with pytest.raises(InputError) as told:
        toml.load(written(tmp_path, text))
    first = str(told.value)
    for part in (
        "name: String should match pattern",
        "sedes: No key is called 'sedes'. Did you mean 'seeds'?",
        "model 1: No model is called 'lenet'. Did you mean 'lenet5'?",
        "argument of model 'mlp' is called 'widht'. Did you mean 'width'",
        "model 3: a model before is called 'mlp' too",
        "method 1: No norm is called 'l7'",
        "No budget is called 'tiny'",
    ):
        assert part in first, f"{part!r} is missing in {first}"
    repaired = text.replace("Not a name", "a-name").replace("sedes", "seeds")
    with pytest.raises(InputError) as told:
        toml.load(written(tmp_path, repaired))
    second = str(told.value)
    for part in (
        "data: No dataset is called 'digist'. Did you mean 'digits'?",
        "variants: No variant is called 'smoth'. Did you mean 'smooth'?",
        "sizes: a number of training points must be at least 1, got 0",
        "settings.epcohs: No setting is called 'epcohs'. Did you mean 'epochs'?",
        "settings.optimizer.lr: ",
        "measure.evaluate.threat: Radius 'a' is not a number",
        "No suite is called 'standrad'. Did you mean 'standard'?",
    ):
        assert part in second, f"{part!r} is missing in {second}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name = ", "is not TOML"),
        ("name = " + "[" * 5000, "nested too deeply"),
        ('name = "separation"\ndata = ["digits"]\n[[model]]\nname = "mlp"', "comes with radii"),
        ('name = "a"\ndata = ["digits"]', r"write at least one table \[\[model\]\]"),
        ('name = "a"\ndata = ["digits"]\n[[model]]\nwidth = 3', "needs a name"),
        ('name = "a"\ndata = ["digits"]\nbudget = 3\n[[model]]\nname = "mlp"', r"\[budget.smoke\]"),
        ('name = "a"\ndata = ["digits"]\n[[model]]\nname = "mlp"\nsettings = 3', "settings must be a table"),
        ('name = "a"\ndata = ["digits"]\n[[model]]\nname = "mlp"\nmeasure = "weight"', "No measurement is called"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        toml.load(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        toml.load(tmp_path / "none.toml")


def cell(n: int, seed: int, clean: float, certified: float) -> Measured:
    place = {"data": "d", "variant": "original", "n": n, "model": "m", "method": "natural", "seed": seed}
    return Measured({**place, "measure": "certify"}, made_records.certified([0.5], split(clean, [certified])))


def test_the_analysis_means_over_seeds_and_draws_over_sizes() -> None:
    findings = analyze([cell(100, 0, 0.5, 0.2), cell(100, 1, 0.7, 0.4), cell(200, 0, 0.9, 0.6)])
    assert findings.table.rows == (
        {"n": 100, "seeds": 2, "clean": pytest.approx(0.6), "certified at 0.5": pytest.approx(0.3)},
        {"n": 200, "seeds": 1, "clean": 0.9, "certified at 0.5": 0.6},
    )
    (chart,) = findings.charts
    assert (chart.kind, chart.x.name, chart.x.log) == ("curves", "n", True)
    assert {row["curve"] for row in chart.rows} == {"clean", "certified at 0.5"}
    assert analyze([]).table.rows == ()


def test_the_example_of_the_docs_is_understood() -> None:
    study = toml.load(EXAMPLE)
    assert len(study.cells("smoke")) == 4
    assert len(study.cells("cpu")) == 16


def test_another_attack_stands_beside_the_first(tmp_path: Path) -> None:
    """The standard suite on fewer points, or a threat without the box, in the same table."""
    path = tmp_path / "beside.toml"
    path.write_text(
        WHOLE.replace('measure = "evaluate"', 'measure = ["evaluate", "beside"]').replace(
            "[measure.certify]",
            '[measure.beside]\nthreat = "linf:0.1,nobox"\nsuite = "pgd"\npoints = 20\n\n[measure.certify]',
        )
    )
    cells = [cell for cell in toml.load(path).cells("smoke") if cell.place["model"] == "lenet5"]
    steps = {cell.place["measure"]: cell.step for cell in cells}
    assert set(steps) == {"evaluate", "beside"}
    beside = steps["beside"]
    assert isinstance(beside, Evaluate)
    assert (beside.ball.box, beside.suite, beside.points) == (None, "pgd", 20)
    place = {**cells[0].place, "measure": "beside"}
    (row,) = analyze([Measured(place, evaluated(0.5, proved=0.25))]).table.rows
    assert (row["beside: proved"], row["beside: unbroken"]) == (0.25, 0.5)


def test_a_wrong_attack_beside_is_told(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(WHOLE + '\n[measure.beside]\nthreat = "linf:zero"\nsuite = "stndard"\n')
    with pytest.raises(InputError, match=r"measure.beside.threat.*measure.beside.suite.*standard"):
        toml.load(path)


RECIPE = """
name = "scaled"
recipe = "ding-mnist"
data = ["digits"]
variants = ["", "binarize"]
sizes = [100, "all"]
widths = [0.125, 0.25]

[[method]]
name = "natural"
label = "standard"
measure = "accuracies"

[[method]]
name = "adversarial"
label = "PGD"

[measure.accuracies]
step = "train"

[measure.attack]
threat = "linf:0.3"
suite = "pgd"
certify = false
split = "both"
points = 20
train_points = 30

[measure.suite]
threat = "linf:0.3"
points = 10
variants = ["binarize"]

[budget.smoke]
measure.suite.points = 0

[budget.night]
recipe_budget = "cpu"

[[budget.cpu.grid]]
widths = [0.125]
settings.steps = 7

[[budget.cpu.grid]]
widths = [0.5]
sizes = [100]
method = [{ name = "adversarial", label = "PGD", steps = 3 }]
"""


def trained(step: Train | Evaluate) -> Train:
    training = step if isinstance(step, Train) else step.model
    assert isinstance(training, Train)
    return training


def test_a_recipe_is_scaled_to_the_budget_and_changed_by_the_file(tmp_path: Path) -> None:
    """Model, preprocessing, method and settings are the recipe's; the width is the model's argument."""
    study = toml.load(written(tmp_path, RECIPE))
    for budget, scale in (("smoke", "smoke"), ("night", "cpu"), ("paper", "paper")):
        scaled = recipes.plan("ding-mnist", scale)  # type: ignore[arg-type]
        trainings = [trained(cell.step) for cell in study.cells(budget)]  # type: ignore[arg-type,attr-defined]
        assert {step.model.name for step in trainings} == {scaled.model}
        assert {step.preprocessing for step in trainings} == {scaled.preprocessing}
        assert {step.recipe.steps for step in trainings} == {scaled.settings["steps"]}
        assert {step.model.arguments["widen"] for step in trainings} == {0.125, 0.25}
        attacks = [step.method.arguments for step in trainings if step.method.name == "adversarial"]
        assert {arguments["steps"] for arguments in attacks} == {scaled.settings["method"]["steps"]}


def test_several_grids_each_lie_over_the_rest(tmp_path: Path) -> None:
    cells = toml.load(written(tmp_path, RECIPE)).cells("cpu")
    first = [cell for cell in cells if cell.place["width"] == 0.125]
    second = [cell for cell in cells if cell.place["width"] == 0.5]
    assert len(first) + len(second) == len(cells)
    assert {trained(cell.step).recipe.steps for cell in first} == {7}
    assert {cell.place["n"] for cell in first} == {100, "all"}
    assert {cell.place["method"] for cell in second} == {"PGD"}
    assert {trained(cell.step).method.arguments["steps"] for cell in second} == {3}
    assert {trained(cell.step).recipe.steps for cell in second} == {1500}


def test_measurements_have_names_and_are_made_of_some_networks(tmp_path: Path) -> None:
    cells = toml.load(written(tmp_path, RECIPE)).cells("paper")
    measures = {(cell.place["method"], cell.place["variant"]): set[str]() for cell in cells}
    for cell in cells:
        measures[cell.place["method"], cell.place["variant"]].add(str(cell.place["measure"]))
    attacks = {"accuracies", "attack", "attack, train"}
    assert measures == {
        ("standard", "original"): {"accuracies"},
        ("standard", "binarized"): {"accuracies"},
        ("PGD", "original"): attacks,
        ("PGD", "binarized"): attacks | {"suite"},
    }
    points = {str(cell.place["measure"]): cell.step.points for cell in cells if isinstance(cell.step, Evaluate)}
    assert points == {"attack": 20, "attack, train": 30, "suite": 10}
    smoke = toml.load(written(tmp_path, RECIPE)).cells("smoke")
    assert "suite" not in {cell.place["measure"] for cell in smoke}, "no points leave a measurement out"


def test_headings_name_the_measurement_and_like_is_not_mixed_with_unlike(tmp_path: Path) -> None:
    """Clean accuracies of two measurements are over other points: the first one stands in the table."""
    study = toml.load(written(tmp_path, RECIPE))
    place = {"data": "digits", "variant": "original", "n": 100, "width": 0.125, "method": "PGD"}
    attack = evaluated(0.5, 0.9)
    cells = [
        Measured({**place, "measure": "accuracies"}, made_records.trained(0.8)),
        Measured({**place, "measure": "attack, train"}, attack),
        Measured({**place, "measure": "suite"}, attack),
    ]
    (row,) = study.analyze(cells).table.rows
    assert row["accuracies: clean"] == 0.8
    assert (row["attack: unbroken, train"], row["suite: unbroken"]) == (0.5, 0.5)
    certified = cell(100, 0, 0.7, 0.2)
    (row,) = analyze([certified, Measured({**certified.place, "measure": "evaluate"}, attack)]).table.rows
    assert (row["clean"], row["certified at 0.5"], row["unbroken"]) == (0.7, 0.2, 0.5)


def test_a_grid_whose_data_is_not_here_is_left_out_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RADII_DATA", str(tmp_path / "data"))
    grid._here.cache_clear()
    text = """
    name = "some"
    data = ["digits"]
    [[model]]
    name = "mlp"
    [[grid]]
    [[grid]]
    data = ["svhn", "restricted-imagenet+resize:64"]
    optional = true
    """
    study = toml.load(written(tmp_path, text))
    with caplog.at_level(logging.WARNING, logger="radii"):
        assert [cell.place["data"] for cell in study.cells("cpu")] == ["digits"]
        study.cells("cpu")
    grid._here.cache_clear()
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "svhn is not on this machine", "restricted-imagenet+resize",
    ]  # fmt: skip


def test_a_study_has_the_budgets_of_its_recipe(tmp_path: Path) -> None:
    text = 'name = "a"\ndata = ["digits"]\nrecipe = "prach-lampert"\n'
    assert toml.load(written(tmp_path, text)).budgets == ("smoke", "cpu", "paper")
    assert "night" in toml.load(written(tmp_path, text + '[budget.night]\nrecipe_budget = "cpu"')).budgets


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('recipe = "ding-mnits"', "recipe: No recipe is called 'ding-mnits'. Did you mean 'ding-mnist'"),
        ('recipe = "certified"', "recipe: certified follows from the data and the threat"),
        ('recipe = "ding-mnist"\ngrid = 3', r"grid: write tables \[\[grid\]\]"),
        ('recipe = "ding-mnist"\nmeasure = 3', r"measure: write a table for each measurement"),
        ('recipe = "ding-mnist"\n[measure.a]\nstep = "evalute"', "measure.a.step: No measurement is called 'evalute'"),
        ('recipe = "ding-mnist"\n[measure.a]\nthreat = "l2:1"\npionts = 3', "No key is called 'pionts'. Did you mean"),
        ('recipe = "ding-mnist"\n[[grid]]\n[[grid]]\nwidhts = [1]', "grid 2.widhts: No key is called 'widhts'"),
        ('widths = [2]\n[[model]]\nname = "mlp"', "model 1: No argument of model 'mlp' is called 'widen'"),
        ('recipe = "ding-mnist"\n[settings]\nepcohs = 1\n[budget.cpu]\nseeds = [1]', "has a mistake: settings.epcohs"),
    ],
)
def test_mistakes_with_recipes_and_grids(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        toml.load(written(tmp_path, f'name = "a"\ndata = ["digits"]\n{text}'))
