"""Recipes, budgets, event files and the learning-rate search as a user types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


def test_a_recipe_at_the_smallest_budget(radii: Callable, tmp_path: Path) -> None:
    words = ("train", "digits", "--recipe", "ding-mnist", "--budget", "smoke", "steps=3")
    made = radii(
        *words,
        "--log",
        f"tensorboard:{tmp_path / 'tb'}",
        "--log",
        f"csv:{tmp_path / 'curve.csv'}",
        "--plot",
        tmp_path / "curve.svg",
        "--summary",
        "--json",
        "-",
    )
    assert made.code == 0, made.err
    run = json.loads(made.out)
    spec = json.loads((Path(run["folder"]) / "spec.json").read_text())["spec"]
    assert spec["method"]["name"] == "adversarial"
    assert spec["preprocessing"] == "none"
    assert spec["recipe"]["steps"] == 3
    assert spec["model"]["arguments"]["widen"] == 0.125
    assert list((tmp_path / "tb").glob("events.out.tfevents.*"))
    assert (tmp_path / "curve.svg").stat().st_size > 1000
    assert (tmp_path / "curve.csv").read_text().splitlines()[1].startswith(f"{run['run']},1,loss,")
    assert "multiply-adds" in made.err


def test_the_certified_recipe_follows_the_threat(radii: Callable) -> None:
    temperatures = []
    for threat in ("l2:0.25", "l2:1"):
        made = radii("train", "digits", "--recipe", "certified", "--threat", threat, "steps=2", "--json", "-")
        assert made.code == 0, made.err
        spec = json.loads((Path(json.loads(made.out)["folder"]) / "spec.json").read_text())["spec"]
        assert spec["model"]["name"] == "isometric"
        assert spec["recipe"]["optimizer"]["kind"] == "manifold"
        temperatures.append(spec["method"]["arguments"]["temperature"])
    assert temperatures[0] < temperatures[1]


def test_learning_rates_are_searched_and_drawn(radii: Callable, tmp_path: Path) -> None:
    words = ("digits", "--model", "mlp", "model.width=16", "epochs=1", "batch_size=64", "--trials", 2, "--workers", 0)
    made = radii("lr-search", *words, "--low", 1e-4, "--high", 1, "--plot", tmp_path / "lr.svg", "--json", "-")
    assert made.code == 0, made.err
    found = json.loads(made.out)
    assert [trial["lr"] for trial in found["trials"]] == sorted(trial["lr"] for trial in found["trials"])
    assert found["best"] == max(found["trials"], key=lambda trial: trial["validation_accuracy"])["lr"]
    assert "← best" in made.err
    assert (tmp_path / "lr.svg").exists()


def test_mistakes_are_sentences(radii: Callable) -> None:
    for words, says in (
        (("train", "digits", "--recipe", "ding-minst"), "Did you mean 'ding-mnist'"),
        (("train", "digits", "--recipe", "ding-mnist", "--budget", "gpu"), "No budget is called 'gpu'"),
        (("train", "digits", "--recipe", "certfied"), "Did you mean 'certified'"),
        (("train", "digits", "--recipe", "certified", "--budget", "paper"), "No budget is called 'paper'"),
        (("train", "digits", "--recipe", "certified", "--model", "mlp"), "leave --model and --method out"),
        (("train", "digits", "--threat", "l2:1"), "belongs to --recipe standard, robust and certified"),
        (("train", "digits", "optimizer.kind=manifold"), "needs a model with orthogonal parameters"),
        (("train", "digits", "optimizer.drops=[0.5]"), "optimizer.schedule=steps"),
        (("train", "digits", "--method", "adversarial", "method.threat=linf:x"), "is not a number"),
        (("lr-search", "digits", "--low", 2, "--high", 1), "0 < low < high"),
    ):
        made = radii(*words)
        assert made.code == 2
        assert says in made.err, made.err


def test_extra_points_and_starts_are_part_of_a_training(radii: Callable) -> None:
    """More points or another start make another run; what does not fit is one sentence."""
    words = ("train", "digits+subset:200", "steps=4", "batch_size=20", "--model", "lipschitz-mlp")
    runs = set()
    for more in ((), ("--extra", "digits+rest:200", "extra_share=0.7"), ("init=orthogonal",)):
        made = radii(*words, *more, "--json", "-")
        assert made.code == 0, made.err
        runs.add(json.loads(made.out)["run"])
    assert len(runs) == 3
    for wrong, sentence in (
        (("extra_share=0.5",), "extra_share belongs to extra points"),
        (("--extra", "nowhere"), "nowhere"),
        (("init=zeros",), "init"),
    ):
        refused = radii(*words, *wrong)
        assert refused.code == 2
        assert sentence in refused.err
        assert "Traceback" not in refused.err
