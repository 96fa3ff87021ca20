"""``radii forecast``: table, words, JSON, pictures, and one sentence for a mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from radii.forecasting._posterior import LINKS
from radii.randomness import numpy_stream
from simulated_curves import Truth


@pytest.fixture
def source(tmp_path: Path) -> Path:
    seen = Truth(LINKS[0], 0.85).observed([50_000 // 2**k for k in range(5, -1, -1)], numpy_stream(0, "files"))
    rows = [{"n": each.n, "seed": each.seed, "value": each.value} for each in seen]
    curve = {"data": "cifar10", "metric": "certified accuracy", "classes": 10, "test_points": 10_000}
    curves = [{**curve, "model": name, "observations": rows} for name in ("AOL", "CPL")]
    (tmp_path / "study.json").write_text(json.dumps({"scaling": curves}))
    return tmp_path / "study.json"


def test_table_words_and_json(radii: Callable, source: Path) -> None:
    done = radii("forecast", source, "--target", 0.65, "--at", 80_000, "--factor", 1000, "--json", "-")
    assert done.code == 0, done.err
    assert "Reaching 65.0% takes" in done.err, "with --json - people read stderr"
    assert "refused" in done.err
    found = json.loads(done.out)
    assert [curve["model"] for curve in found["curves"]] == ["AOL", "CPL"]
    needed = found["curves"][0]["needed"]
    assert needed["low"] < 80_000
    assert 0 <= needed["never"] <= 1
    fine, refused = found["curves"][0]["forecasts"]
    assert fine["low"] < fine["high"]
    assert refused["refused"].startswith("No forecast at 50,000,000")


def test_one_curve_is_drawn(radii: Callable, source: Path, tmp_path: Path) -> None:
    picture = tmp_path / "law.svg"
    done = radii("forecast", source, "--target", 0.65, "--curve", "aol", "--plot", picture)
    assert done.code == 0, done.err
    drawn = picture.read_text()
    assert "not forecast" in drawn
    assert "target 65.0%" in drawn
    assert radii("forecast", source, "--plot", tmp_path / "law.html").code == 0, "a page has all curves"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--target", 1.5), "--target must be an accuracy between 0 and 1"),
        (("--target", 70), "Did you mean 0.7?"),
        (("--target", 0.01), "A target must lie above chance"),
        (("--curve", "soc"), "No curve of"),
        (("--plot", "law.png"), "A picture shows one curve"),
        (("--ceiling", 0.5), "Values must lie in"),
    ],
)
def test_mistakes_are_sentences(
    radii: Callable, source: Path, words: tuple, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    done = radii("forecast", source, *words)
    assert done.code == 2
    assert complaint in done.err


def test_a_missing_source(radii: Callable) -> None:
    done = radii("forecast", "nonsense")
    assert done.code == 2
    assert "No study is called 'nonsense'" in done.err
