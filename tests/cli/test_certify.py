"""``radii certify`` and ``radii export`` as a user runs them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from radii.cli import terminal
from radii.models.io.bundle import Architecture, save_bundle
from radii.tables import ChartSpec


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """An untrained 1-Lipschitz network for digits, saved."""
    torch.manual_seed(0)
    architecture = Architecture(
        name="lipschitz-convnet",
        arguments={"width": 4, "depth": 1},
        input_shape=(1, 8, 8),
        classes=tuple("0123456789"),
        mean=(0.3,),
    )
    model = architecture.build()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    save_bundle(tmp_path / "model", model, architecture)
    return tmp_path / "model"


def test_certify_prints_and_writes(radii: Callable, bundle: Path, tmp_path: Path) -> None:
    target = tmp_path / "found.json"
    plot = tmp_path / "curve.svg"
    outcome = radii(
        "certify", bundle, "digits", "--points", 50, "--threat", "l2:0.01", "--threat", "l2:36/255",
        "--layers", "--json", target, "--plot", plot,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "Lipschitz constant proved" in outcome.out
    found = json.loads(target.read_text())
    assert found["points"] == 50
    (margin,) = found["certificates"]
    assert (margin["name"], margin["kind"]) == ("margin", "deterministic")
    assert margin["lipschitz"]["value"] <= 1.00001
    accuracies = [found["accuracy"], *[row["accuracy"] for row in margin["certified"]]]
    assert accuracies == sorted(accuracies, reverse=True)
    assert all(row["accuracy"] >= row["by_sqrt2"] for row in margin["certified"])
    again = radii("certify", bundle, "digits", "--points", 50, "--threat", "l2:0.01", "--threat", "l2:36/255")
    assert "found, not computed again" in again.out
    assert plot.read_text().lstrip().startswith("<svg")


def test_chart_and_table_agree_at_the_radii_that_were_asked(
    radii: Callable, bundle: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn: list[ChartSpec] = []
    monkeypatch.setattr(terminal, "draw", lambda chart, _: drawn.append(chart))
    threats = [word for radius in ("0.0123", "36/255", "0.7") for word in ("--threat", f"l2:{radius}")]
    words = ("certify", bundle, "digits", "--points", 50, *threats, "--json", tmp_path / "c.json")
    assert radii(*words, "--plot", tmp_path / "c.svg").code == 0
    (margin,) = json.loads((tmp_path / "c.json").read_text())["certificates"]
    line = {row["radius"]: row["accuracy"] for row in drawn[0].rows}
    assert {row["radius"]: line[row["radius"]] for row in margin["certified"]} == {
        row["radius"]: row["accuracy"] for row in margin["certified"]
    }
    assert drawn[0].x.heading == "L2 radius"


def test_the_cheaper_bound(radii: Callable, bundle: Path) -> None:
    outcome = radii("certify", bundle, "digits", "--points", 10, "--no-prove", "--json", "-")
    assert outcome.code == 0
    assert json.loads(outcome.out)["certificates"][0]["lipschitz"]["proved"] is False


def test_mistakes_are_sentences(radii: Callable, bundle: Path, tmp_path: Path) -> None:
    assert radii("certify", bundle, "digits", "--threat", "one").code == 2
    assert radii("certify", tmp_path / "nothing", "digits").code == 2
    outcome = radii("export", bundle, tmp_path / "model.zip")
    assert outcome.code == 2
    assert ".onnx or .pt2" in outcome.err
    exported = radii("export", bundle, tmp_path / "model.pt2")
    assert exported.code == 0, exported.err
    assert (tmp_path / "model.pt2").is_file()
    again = radii("export", tmp_path / "model.pt2", tmp_path / "again.pt2", "--trust", tmp_path / "model.pt2")
    assert again.code == 2
    assert "exported already" in again.err


def test_what_cannot_be_certified_is_told_in_a_sentence(radii: Callable, bundle: Path, tmp_path: Path) -> None:
    linf = radii("certify", bundle, "digits", "--points", 5, "--norm", "linf", "--method", "margin")
    assert (linf.code, "certifies l2 balls" in linf.err) == (2, True)
    program = tmp_path / "model.pt2"
    assert radii("export", bundle, program).code == 0
    outcome = radii("certify", program, "digits", "--points", 5, "--method", "margin", "--trust", program)
    assert (outcome.code, "GraphModule" in outcome.err) == (2, True)
    by_noise = ("--points", 2, "--method", "smoothing", "--sigma", "0.1", "--trust", program)
    smoothed = radii("certify", program, "digits", *by_noise)
    assert smoothed.code == 0, smoothed.err
