"""`radii gate` and `radii card`: exit codes, files for build servers, comparison with a former result."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
import yaml
from safetensors.torch import save_file
from torch import nn

from radii.data import sources

FACTORY = """
from torch import nn

def net(input_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """A good and a bad net on the digits: the words that name them on a command line."""
    (tmp_path / "gate_factory.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(tmp_path)
    x, y = sources.load("digits").train.tensors()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer, words = torch.optim.Adam(net.parameters(), 5e-3), {}
    for name, steps in (("bad", 15), ("good", 100)):
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        save_file(net.state_dict(), tmp_path / f"{name}.safetensors")
        words[name] = ["gate_factory:net", "digits", "--weights", str(tmp_path / f"{name}.safetensors")]
    return words


def test_a_gate_passes_fails_and_compares(
    radii: Callable[..., object], models: dict[str, list[str]], tmp_path: Path
) -> None:
    last, xml, note, badge = (tmp_path / name for name in ("last.json", "junit.xml", "note.md", "badge.json"))
    robust = ["--require", "robust(linf:0.02)>=0.5", "--suite", "fast", "--require", "proved(linf:0.02)>=0.3"]
    files = ["--json", last, "--junit", xml, "--markdown", note, "--badge", badge]
    good = radii("gate", *models["good"], "--require", "clean>=0.8", *robust, *files)
    assert good.code == 0, good.err
    assert "Decided on" in good.out
    content = json.loads(last.read_text())
    assert content["passed"] is True
    assert content["setup"]["suite"] == "fast"
    assert len(content["requirements"]) == 3
    suite = ElementTree.parse(xml).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("3", "0")
    assert "radii gate: passed" in note.read_text()
    assert json.loads(badge.read_text()) == {
        "schemaVersion": 1, "label": "robustness gate", "message": "3 of 3 pass", "color": "brightgreen",
        "isError": False,
    }  # fmt: skip

    worse = radii("gate", *models["bad"], "--require", "clean>=0.3", "--suite", "fast", "--against", last, *files[2:])
    assert worse.code == 1, worse.out
    assert "significant drop" in worse.out
    case = ElementTree.parse(xml).getroot().find("testsuite/testcase")
    assert case is not None
    assert "drop" in case.find("failure").get("message")  # type: ignore[union-attr, operator]
    below = radii("gate", *models["bad"], "--require", "clean>=0.95", "--suite", "fast", "--badge", badge)
    assert below.code == 1
    assert "FAIL: " in below.out
    assert json.loads(badge.read_text())["message"] == "fails 95%"

    card = tmp_path / "README.md"
    assert radii("card", last, "--out", card).code == 0
    _, front, text = card.read_text().split("---\n", 2)
    metrics = yaml.safe_load(front)["model-index"][0]["results"][0]["metrics"]
    assert [metric["type"] for metric in metrics] == ["accuracy", "robust_accuracy_upper", "robust_accuracy_lower"]
    assert "not a statement of conformity" in text


def test_a_card_of_an_evaluation(radii: Callable[..., object], models: dict[str, list[str]], tmp_path: Path) -> None:
    out, card = tmp_path / "scores.json", tmp_path / "card.md"
    words = ["--threat", "linf:0.1", "--suite", "pgd", "--points", "20", "--json", out]
    assert radii("evaluate", *models["good"], *words).code == 0
    assert radii("card", out, "--out", card).code == 0
    by_file = card.read_text()
    run = json.loads(out.read_text())["runs"]["test"]
    assert radii("card", run, "--out", card).code == 0
    figures = [line for line in by_file.splitlines() if line.startswith("|")]
    assert figures == [line for line in card.read_text().splitlines() if line.startswith("|")]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--require", "robust>=0.4"], "need a threat"),
        (["--require", "clean>=0.9", "--alpha", "0.9"], "--alpha must be from 1e-12 to 0.5"),
        (["--require", "clean>=0.9", "--against", "nothing.json"], "There is no file nothing.json"),
        (["--require", "clean>=0.9", "--suite", "nope"], "No suite"),
        (["--require", "clean>=0.03"], "margin must be above 0 and below the floor"),
        ([], "--require"),
    ],
)
def test_mistakes_are_one_sentence(
    radii: Callable[..., object], models: dict[str, list[str]], words: list[str], sentence: str
) -> None:
    outcome = radii("gate", *models["good"], *words)
    assert outcome.code == 2
    assert sentence in outcome.err


def test_a_card_needs_a_result(radii: Callable[..., object], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    assert "is not the result of radii evaluate" in radii("card", wrong, "--out", tmp_path / "card.md").err
