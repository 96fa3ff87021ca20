"""Forecasts from files, studies and curves; the subset curve of an assessment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import radii
from radii.errors import InputError
from radii.forecasting._posterior import LINKS
from radii.randomness import numpy_stream
from radii.runs.planning import data_spec
from radii.runs.store import Store
from radii.studies._subset_curve import PARTS, subset_curve
from radii.studies.scaling_forecast import Forecast, forecast, read_curves
from radii.studies.study import ScalingCurve
from simulated_curves import Truth

OBSERVED = Truth(LINKS[0], 0.85).observed([50_000 // 2**k for k in range(5, -1, -1)], numpy_stream(0, "files"))
ROWS = [{"n": each.n, "seed": each.seed, "value": each.value} for each in OBSERVED]
CURVE = {"data": "cifar10", "model": "1-Lipschitz", "metric": "certified accuracy", "classes": 10, "test_points": 10000}


def as_json(folder: Path, **changes: object) -> Path:
    path = folder / "study.json"
    path.write_text(json.dumps({"scaling": [{**CURVE, "observations": ROWS, **changes}]}))
    return path


def as_csv(folder: Path, rows: list[dict] = ROWS, header: str = "n,seed,value") -> Path:
    lines = [header, *(",".join(str(row[key]) for key in ("n", "seed", "value")) for row in rows)]
    (folder / "curve.csv").write_text("\n".join(lines) + "\n")
    return folder / "curve.csv"


def test_a_json_and_a_csv_of_the_same_curve_agree(tmp_path: Path) -> None:
    (one,) = radii.forecast(str(as_json(tmp_path)), 0.65, at=[80_000], factors=[2.0])
    (two,) = forecast(as_csv(tmp_path), 0.65, at=[80_000], factors=[2.0], classes=10, test_points=10_000)
    assert one.title == "cifar10, 1-Lipschitz: certified accuracy"
    assert one.rows() == two.rows()
    assert [row["n"] for row in one.rows()] == [80_000, 100_000]
    assert one.needed == two.needed
    assert one.needed is not None
    assert one.needed.low < 80_000 < (one.needed.high or 1e9)
    assert one.verdict.startswith("Reaching 65.0% takes")
    summary = one.summary()
    assert summary["last_doubling"]["low"] < 0.05 < summary["last_doubling"]["high"]
    json.dumps(summary, allow_nan=False)


def test_sizes_beyond_the_factor_are_refused_in_words(tmp_path: Path) -> None:
    (found,) = forecast(as_json(tmp_path), factors=[2, 1000])
    fine, refused = found.rows()
    assert fine["refused"] is None
    assert fine["low"] < fine["median"] < fine["high"]
    assert refused["low"] is None
    assert "1e+03 times the largest size" in refused["refused"]
    assert found.needed is None
    assert found.verdict.startswith("Sizes up to")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("not json", "not a JSON file of scaling curves"),
        ("[]", "not a JSON file of scaling curves"),
        ("[" * 5000, "nested too deeply"),
        ('{"scaling": []}', "has no scaling curves"),
        ('{"scaling": [3]}', "curve 1 needs classes, test_points and observations"),
        ('{"scaling": [{"classes": 10, "observations": []}]}', "curve 1 needs classes, test_points"),
        ('{"scaling": [{"classes": 10, "test_points": 9, "observations": [{"n": 1}]}]}', "numbers n, seed and value"),
        ('{"scaling": [{"classes": 10, "test_points": 9, "observations": [1]}]}', "curve 1 needs"),
    ],
)
def test_bad_json(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(InputError, match=words):
        read_curves(tmp_path / "bad.json")


def test_bad_csv_and_bad_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="add --classes and --test-points"):
        read_curves(as_csv(tmp_path))
    with pytest.raises(InputError, match="needs a header with the columns n, seed, value"):
        read_curves(as_csv(tmp_path, header="size,seed,accuracy"), 10, 10_000)
    with pytest.raises(InputError, match="line 2 needs numbers"):
        read_curves(as_csv(tmp_path, [{"n": "many", "seed": 0, "value": 0.5}]), 10, 10_000)
    with pytest.raises(InputError, match=r"There is no file .*missing\.csv"):
        read_curves(tmp_path / "missing.csv", 10, 10_000)
    with pytest.raises(InputError, match=r"There is no file .*missing\.json"):
        read_curves(tmp_path / "missing.json")
    with pytest.raises(InputError, match=r"No study is called 'data-scalin'\. Did you mean 'data-scaling'"):
        read_curves("data-scalin")


def test_a_study_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radii.studies.results.find", lambda name: None)
    with pytest.raises(InputError, match="has no result yet; run `radii study run data-scaling`"):
        read_curves("data-scaling")


def test_subset_curve_of_an_assessment(tmp_path: Path) -> None:
    """Nested sizes, equal steps; short trainings are enough to see the parts work together."""
    from radii.runs.executors import run_steps
    from radii.studies.assessment_defaults import LIPSCHITZ, classifiers

    store = Store(tmp_path)
    spec = data_spec("digits", store)
    data = spec.load()
    training = classifiers(spec, data, radii.Ball("l2", 0.5), epochs=1, seed=0)[LIPSCHITZ]
    plan = subset_curve(training, data, radii.Ball("l2", 0.1), LIPSCHITZ)
    assert plan is not None
    assert sorted({n for n, _ in plan.steps}) == [len(data.train) // part for part in PARTS]
    assert len({step.model.recipe.steps for step in plan.steps.values()}) == 1, "equal compute"
    run_steps(list(plan.steps.values()), store, workers=0)
    curve = plan.measured(store)
    assert curve.test_points == len(data.test)
    assert len(curve.observations) == 8
    told = plan.forecast(store)
    assert isinstance(told, Forecast | str)
    assert subset_curve(training, _few(data), radii.Ball("l2", 0.1), LIPSCHITZ) is None, "too little data"


def _few(data: radii.Data) -> radii.Data:
    from dataclasses import replace

    return replace(data, train=data.train.subset(100))


def test_a_target_above_one_is_no_target() -> None:
    curve = ScalingCurve("a", "b", "c", 10, 100, tuple({"n": n, "seed": 0, "value": 0.97} for n in (1, 2, 4, 8)))
    with pytest.raises(InputError, match="below 1"):
        forecast(curve, 1.02)
