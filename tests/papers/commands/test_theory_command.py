"""``radii theory`` as a user types it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from radii_papers.theory.statements import STATEMENTS


def test_the_list_names_every_result_and_its_source(radii: Callable) -> None:
    shown = radii("theory")
    assert shown.code == 0
    for says in STATEMENTS.values():
        assert says.name in shown.out
        assert says.source in shown.out
    listed = json.loads(radii("theory", "--json", "-").out)["results"]
    assert [entry["name"] for entry in listed] == list(STATEMENTS)


def test_options_come_from_the_signature(radii: Callable) -> None:
    shown = radii("theory", "max-margin-bias", "--help")
    assert shown.code == 0
    for flag in ("--d", "--n", "--width", "--seed", "--json", "--plot"):
        assert flag in shown.out


def test_a_result_ends_with_its_verdict(radii: Callable) -> None:
    shown = radii("theory", "half-spaces", "--d", 10, "--d", 20, "--epsilon", "8/255", "--samples", 500)
    assert shown.code == 0
    assert shown.out.rstrip().endswith(f"holds\n{STATEMENTS['half-spaces'].takeaway}")
    assert "d = 10 20" in shown.out
    assert "epsilon = 0.0313725" in shown.out


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("ding", "theorem", "d.1"), "facets"),
        (("Theorem D.1",), "facets"),
        (("ball", "1997"), "facets"),
        (("prach", "fig.", "12"), "neighbor-distances"),
        (("eq.", "35"), "neighbor-distances"),
    ],
)
def test_a_place_in_a_paper_is_a_name(radii: Callable, words: tuple, name: str) -> None:
    small = ("--largest", 2) if name == "facets" else ("--n", 1000, "--queries", 50)
    shown = radii("theory", *words, *small, "--json", "-")
    assert json.loads(shown.out)["name"] == name
    assert json.loads(shown.out)["takeaway"] == STATEMENTS[name].takeaway


def test_several_results_of_a_paper_are_listed(radii: Callable) -> None:
    listed = json.loads(radii("theory", "vardi", "--json", "-").out)["results"]
    assert [entry["name"] for entry in listed] == [s.name for s in STATEMENTS.values() if "Vardi" in s.source]
    assert "bernoulli-model" in radii("theory", "schmidt").out


def test_every_theorem_has_one_take_away() -> None:
    sentences = [statement.takeaway for statement in STATEMENTS.values()]
    assert len(set(sentences)) == len(sentences)
    assert all(sentence.endswith(".") and 40 < len(sentence) < 200 for sentence in sentences)


def test_json_and_picture(radii: Callable, tmp_path: Path) -> None:
    picture, numbers = tmp_path / "facets.svg", tmp_path / "facets.json"
    assert radii("theory", "facets", "--largest", 3, "--plot", picture, "--json", numbers).code == 0
    result = json.loads(numbers.read_text())
    assert result["verdict"] == "holds"
    assert result["parameters"]["largest"] == 3
    assert picture.read_text().startswith("<svg")
    assert json.loads(radii("theory", "facets", "--json", "-").out)["name"] == "facets"


@pytest.mark.parametrize("name", ["robust-network", "neighbor-distances", "concentration", "r-separation"])
def test_every_kind_of_picture_is_drawn(radii: Callable, tmp_path: Path, name: str) -> None:
    assert radii("theory", name, "--plot", tmp_path / "picture.png").code == 0
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_bars_over_words(radii: Callable, tmp_path: Path) -> None:
    small = ("--n", 4, "--precision", 0.01, "--trained-functions", 0)
    assert radii("theory", "no-free-robustness", *small, "--plot", tmp_path / "bars.png").code == 0
    assert (tmp_path / "bars.png").exists()


def test_a_failing_theorem_exits_with_one(radii: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radii_papers.theory._facets.facet_bound", lambda n, distance: 1e9)
    shown = radii("theory", "facets", "--largest", 2)
    assert shown.code == 1
    assert shown.out.rstrip().endswith("fails")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("facet",), "Did you mean 'facets'"),
        (("prach", "theorem", 7), "Or name a place in a paper"),
        (("half-spaces", "--epsilon", 0.7), "so 0 < epsilon < 1/2, got epsilon = 0.7 instead"),
        (("half-spaces", "--epsilon", "x"), "--epsilon"),
        (("facets", "--largest", "many"), "--largest"),
        (("facets", "--smallest", 3), "--smallest"),
        (("facets", "--largest", 2, "--plot", "picture.bmp"), ".png"),
    ],
)
def test_mistakes_are_one_sentence(radii: Callable, arguments: tuple, complaint: str) -> None:
    shown = radii("theory", *arguments)
    assert shown.code == 2
    assert complaint in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.heavy
@pytest.mark.timeout(1200)
def test_all(radii: Callable) -> None:
    shown = radii("theory", "all", "--json", "-")
    assert shown.code == 0
    assert [result["verdict"] for result in json.loads(shown.out)["results"]] == ["holds"] * len(STATEMENTS)
