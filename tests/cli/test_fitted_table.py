"""Tables in terminals: at any width every figure can be read."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from radii.cli.terminal import table
from radii.studies.results import read, shipped_folders
from radii.studies.study import registered_study
from radii.tables import Table, listing

NUMBERS = st.sampled_from(["0.0%", "95.4%", "–", "-1.2", "1,234", "7.1e-05", "95.4% [93.1%, 97.0%]"])
WORDS = st.sampled_from(["1-16,513-3072", "a network", "TRADES(beta=1)", "certified at 36/255: train", ""])


def printed(content: Table, width: int) -> str:
    """What a terminal of ``width`` characters shows."""
    console = Console(file=io.StringIO(), width=width, highlight=False, emoji=False)
    console.print(table(content))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(shown, str)
    return shown


def cells(text: str) -> set[str]:
    """The texts between the lines of tables."""
    return {part.strip() for line in text.splitlines() for part in re.split("[│┃]", line)}


def pieces(texts: Iterable[str]) -> set[str]:
    """Values and their intervals, which may stand below them."""
    return {piece for text in texts for piece in text.replace(" [", "\n[").split("\n")}


@given(st.data(), st.integers(1, 12), st.integers(1, 4), st.sampled_from([40, 60, 80, 120, 200]))
@settings(max_examples=60, deadline=None)
def test_no_number_is_cut_off_or_broken(data: st.DataObject, columns: int, rows: int, width: int) -> None:
    headings = [data.draw(WORDS) for _ in range(columns + 1)]
    lines = [[f"row {k}", *(data.draw(NUMBERS) for _ in range(columns))] for k in range(rows)]
    shown = printed(listing("a title", headings, lines), width)
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    assert pieces(cell for line in lines for cell in line) <= pieces(cells(shown))


@pytest.mark.parametrize(
    "path", sorted(path for folder in shipped_folders() for path in folder.glob("*.json")), ids=lambda path: path.stem
)
def test_the_results_of_every_study_can_be_read_in_80_columns(path: Path) -> None:
    evidence = read(path)
    content = registered_study(evidence.study).analyze(evidence.measured).table
    shown = printed(content, 80)
    numbers = {row[k] for row in content.cells for k in range(1, len(content.fields)) if k not in content.words}
    assert pieces(numbers) <= pieces(cells(shown))
    assert max(map(len, shown.splitlines())) <= 80


def test_every_part_names_its_rows() -> None:
    lines = [[data, str(size), *["12.5%"] * 9] for data in ("mnist", "cifar10") for size in (100, 200)]
    shown = printed(listing("", ["data", "points", *["certified accuracy"] * 9], lines), 60)
    parts = shown.split("┏")[1:]
    assert len(parts) > 1
    assert all(part.count("mnist") == part.count("cifar10") == 2 for part in parts)
    assert all(part.count("points") == 1 for part in parts)


def test_intervals_stand_below_their_values_before_a_table_is_divided() -> None:
    lines = [["isometric", *["95.4% [93.1, 97.0]"] * 3, "0.25", "0.5"]]
    content = listing("", ["classifier", "clean", "proved", "unbroken", "proved radius", "broken radius"], lines)
    shown = printed(content, 80)
    assert shown.count("┏") == 1
    assert {"95.4%", "[93.1, 97.0]"} <= cells(shown)
    assert "95.4% [93.1, 97.0]" in cells(printed(content, 120))


def test_a_word_longer_than_the_line_is_broken_and_not_lost() -> None:
    path = "/" + "folder/" * 20
    shown = printed(listing("", ("", ""), [("folder", path)]), 40)
    assert "".join(re.findall(r"│ (\S+) +│$", shown, re.M)).endswith("folder/")
    assert "".join(line.split("│")[2].strip() for line in shown.splitlines() if "│" in line) == path


def test_phrases_read_left_and_numbers_right() -> None:
    contents = listing("", ("dataset", "contents", "size"), [("mnist", "70,000 digits, 28 x 28 grey", "1 MB")])
    assert contents.words == (0, 1)


def test_characters_that_steer_are_measured_as_they_are_shown() -> None:
    name = "cat" + "\x1b[2J" * 3
    shown = printed(listing("", ("class", "points"), [(name, "12"), ("a | [red] b", "3")]), 40)
    assert {name.replace("\x1b", "\\x1b"), "a | [red] b", "12"} <= cells(shown)
    assert len({len(line) for line in shown.splitlines()}) == 1


def test_an_empty_table_is_printed() -> None:
    assert "dataset" in printed(listing("none", ("dataset", "size"), []), 80)
    assert printed(listing("none", (), []), 80).strip() in ("", "none")
