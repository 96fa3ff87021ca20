"""The record that every result fills."""

from __future__ import annotations

import math

import pytest

from radii.errors import InputError
from radii_papers.theory._lines import (
    assume,
    assume_positive,
    at_least,
    at_most,
    equals,
    proportion_error,
    reports,
    standard_error,
)
from radii_papers.theory.result import Result, Simulation, chart, measured, predicted, theorem


def test_relations() -> None:
    assert equals("q", 1.0, 1.1, 0.11).holds
    assert not equals("q", 1.0, 1.1, 0.09).holds
    assert at_most("q", 1.0, 0.9, 0.2).holds
    assert not at_most("q", 1.0, 0.9).holds
    assert at_least("q", 1.0, 1.1, 0.2).holds
    assert not at_least("q", 1.0, 1.1).holds
    assert reports("q", math.nan).holds


@pytest.mark.parametrize("row", [equals("q", math.nan, 0, 1), at_most("q", math.nan, 0), at_least("q", math.nan, 0)])
def test_nan_agrees_with_nothing(row) -> None:
    assert row.verdict == "fails"


def test_a_simulation_becomes_a_result() -> None:
    @theorem("facets")
    def simulate(n: int = 3, sizes: tuple[int, ...] = (1, 2)) -> Simulation:
        picture = chart("t", "x", "y", [measured(1, math.inf, "s")])
        return Simulation((equals("n", n, 3, 0), reports("r", math.inf)), picture)

    result: Result = simulate(sizes=(4,))
    assert result.parameters == {"n": 3, "sizes": (4,)}
    assert result.holds
    assert simulate(4).verdict == "fails"
    plain = result.to_dict()
    assert plain["parameters"]["sizes"] == [4]
    assert plain["rows"][1]["measured"] is None
    assert plain["chart"]["marks"][0] == {"x": 1, "y": None, "series": "s", "kind": "measured"}


def test_dots_are_measured_lines_predicted_and_words_make_bars() -> None:
    both = chart("t", "x", "y", [predicted(1, 2, "s"), measured(1, 3, "s")], log_x=True)
    assert (both.kind, both.x.log, [row["y"] for row in both.rows], [row["y"] for row in both.fit]) == (
        "points", True, [3.0], [2.0],
    )  # fmt: skip
    words = chart("t", "x", "y", [measured("1-NN", 0.5, "robust"), predicted("1-NN", 0.6, "bound")])
    assert (words.kind, words.levels[0].at, words.levels[0].label) == ("bars", 0.6, "bound")
    assert chart("t", "x", "y", [predicted(1, 2, "s")]).kind == "curves"


def test_assumptions_are_named() -> None:
    assume(True, "anything", 0)
    with pytest.raises(InputError, match="The theorem needs x > 0, got x = -1 instead"):
        assume(False, "The theorem needs x > 0", "x = -1")
    with pytest.raises(InputError, match="count must be positive, got 0 instead"):
        assume_positive(count=0)


def test_standard_errors() -> None:
    assert standard_error([1.0, 3.0]) == pytest.approx(1.0)
    assert standard_error([1.0]) == math.inf
    assert proportion_error(0.5, 100) == pytest.approx(0.05)
    assert proportion_error(1 + 1e-12, 100) == 0
