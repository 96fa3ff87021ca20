"""``radii certify --method …`` as a user runs it, on the bundled digits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from radii.models.io.bundle import Architecture, save_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A small ordinary network for digits whose head reads pixels plainly enough to be right at times."""
    torch.manual_seed(0)
    architecture = Architecture(
        name="wong-kolter", arguments={"widen": 0.25}, input_shape=(1, 8, 8), classes=tuple("0123456789")
    )
    save_bundle(tmp_path / "model", architecture.build(), architecture)
    return tmp_path / "model"


def test_auto_says_why_and_several_methods_share_a_chart(radii: Callable, bundle: Path, tmp_path: Path) -> None:
    target, plot = tmp_path / "found.json", tmp_path / "curve.svg"
    outcome = radii(
        "certify", bundle, "digits", "--method", "auto", "--method", "ibp",
        "--points", 20, "--threat", "linf:0.001", "--threat", "linf:0.01", "--json", target, "--plot", plot,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "Chosen: auto: for each point the strongest" in outcome.out
    found = json.loads(target.read_text())
    crown, ibp = found["certificates"]
    assert (crown["name"], ibp["name"]) == ("auto", "ibp")
    assert crown["kind"] == "deterministic"
    for strong, weak in zip(crown["certified"], ibp["certified"], strict=True):
        assert strong["accuracy"] >= weak["accuracy"]
        assert strong["interval"][0] <= strong["accuracy"] <= strong["interval"][1]
        assert strong["population_at_least"] <= strong["accuracy"]
    assert plot.read_text().lstrip().startswith("<svg")


def test_smoothing_and_its_estimate(radii: Callable, bundle: Path) -> None:
    outcome = radii(
        "certify", bundle, "digits", "--method", "smoothing", "--method", "estimate", "--sigma", "0.25",
        "--points", 5, "--threat", "l2:0.1", "--samples", 200, "--alpha", "0.01", "--simultaneous", "--json", "-",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    smoothed, estimated = json.loads(outcome.out)["certificates"]
    assert smoothed["kind"] == "probabilistic"
    assert smoothed["alpha"] == pytest.approx(0.002)
    assert 0 < smoothed["samples"] <= 200
    assert "together" in smoothed["assumptions"][-1]
    assert "certified" not in estimated
    assert "nothing about it is certified" in outcome.err


def test_nearest_needs_no_model(radii: Callable) -> None:
    outcome = radii(
        "certify", "nearest", "digits", "--points", 50, "--threat", "l2:0.1", "--threat", "l2:1", "--json", "-"
    )
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)["certificates"][0]["certified"]
    assert found[0]["accuracy"] > 0.9
    assert found[1]["accuracy"] < found[0]["accuracy"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--method", "crow"), "Did you mean 'crown'"),
        (("--method", "smoothing"), "sigma"),
        (("--method", "margin", "--method", "ibp", "--norm", "linf"), "l2"),
        (("--norm", "l3"), "No norm is called"),
        (("--method", "smoothing", "--sigma", "0.1", "--threat", "l2:0.4"), "samples even if none"),
    ],
)
def test_mistakes_are_sentences(radii: Callable, bundle: Path, options: tuple[str, ...], said: str) -> None:
    outcome = radii("certify", bundle, "digits", "--points", 3, *options)
    assert outcome.code == 2
    assert said in outcome.err


def test_exact_brackets_are_told(radii: Callable, bundle: Path, tmp_path: Path) -> None:
    target = tmp_path / "found.json"
    outcome = radii(
        "certify",
        bundle,
        "digits",
        "--exact",
        "--seconds",
        3,
        "--points",
        10,
        "--threat",
        "linf:0.05",
        "--json",
        target,
    )
    assert outcome.code == 0, outcome.err
    assert "True radius known to 1% for" in outcome.out
    (complete,) = json.loads(target.read_text())["certificates"]
    assert complete["method"] == "complete"
    assert complete["exact"]["total"] == 10
    refused = radii("certify", bundle, "digits", "--exact", "--method", "crown", "--threat", "linf:0.05")
    assert refused.code == 2
    assert "--exact is for --method complete" in refused.err
