"""Words of a user against the sources of studies and theorems."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from radii.studies.citations import cites
from radii.studies.study import STUDIES, registered_study

SOURCE = "Ding et al. 2019, Tables 1 and 6, Fig. 2a; Prach & Lampert 2025, Eq. 13 to 26, section D.2.2 and Theorem 2.1"


@pytest.mark.parametrize(
    "words",
    ["ding", "table 1", "table 6", "ding table 6", "Fig. 2", "fig.2a", "figure 2a", "prach eq 20", "section D.2.2",
     "equation 26", "theorem 2.1", "lampert theorem", "2019 tables 1 6"],
)  # fmt: skip
def test_found(words: str) -> None:
    assert cites(SOURCE, words.split())


@pytest.mark.parametrize(
    "words",
    ["", "yang", "table 2", "table 16", "prach table 6", "ding eq 20", "theorem 2", "theorem 1", "figure 2b", "eq 27",
     "eq 12", "figure 6", "din", "section 2"],
)  # fmt: skip
def test_not_found(words: str) -> None:
    assert not cites(SOURCE, words.split())


def test_a_huge_range_ends() -> None:
    assert not cites("Eq. 1 to 99999999999", ["eq", "5000"])
    assert cites("Eq. 1 to 99999999999", ["eq", "5"])


def test_the_list_of_studies_takes_words(radii: Callable) -> None:
    listed = json.loads(radii("study", "list", "ding", "table", "6", "--json", "-").out)["studies"]
    assert [entry["name"] for entry in listed] == ["geometry"]
    shown = radii("study", "list", "figure", 99)
    assert shown.code == 2
    assert "No study is about 'figure 99'" in shown.err


def test_every_study_is_found_by_its_source() -> None:
    for name in STUDIES:
        source = registered_study(name).source
        assert cites(source, source.split(";")[0].split()), source
