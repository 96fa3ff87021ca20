"""A study's table, charts and page."""

from __future__ import annotations

from pathlib import Path

from radii.report.study_page import page, save
from radii.runs.step_results import StepResult
from radii.studies.results import Evidence
from radii.studies.study import Findings, Measured, Study
from radii.tables import ChartSpec, Field, table

COLUMNS = (Field("n", "points"), Field("accuracy", "accuracy", percent=True, low="low", high="high"))
ROWS = (
    {"n": 100, "accuracy": 0.5, "low": 0.4, "high": 0.6, "net": "<b>"},
    {"n": 200, "accuracy": None, "low": None, "high": None, "net": "<b>"},
)


def findings() -> Findings:
    drawings = tuple(
        ChartSpec(kind, ROWS[:1], Field("n", log=kind != "bars"), COLUMNS[1], "net", f"Drawn as {kind}", "A note.")
        for kind in ("curves", "bars", "points")
    )
    return Findings(table(ROWS, COLUMNS), drawings)


STUDY = Study("it", "Title", "Source 2026", lambda budget: (), lambda measured: findings())
FOUND = Evidence(
    "it", "smoke", 2, (Measured({"n": 100}, StepResult(), "run", 1.0),), {"python": "3", "versions": {"torch": "2"}}
)


def test_the_table_writes_shares_with_their_interval() -> None:
    made = findings().table
    assert made.headings == ("points", "accuracy")
    assert made.cells[0] == ("100", "50.0% [40.0, 60.0]")
    assert made.cells[1][1] == "–"


def test_the_page_has_table_charts_and_command() -> None:
    made = page(STUDY, FOUND, findings(), "radii study run it --budget smoke")
    assert [section.title for section in made.sections] == ["Findings", "Charts", "How to reproduce"]
    assert "1 of 2 cells measured" in made.subtitle
    assert len(made.sections[1].blocks) == 3


def test_a_page_or_a_picture_for_each_chart(tmp_path: Path) -> None:
    assert save(STUDY, FOUND, findings(), "radii …", tmp_path / "it.html") == [tmp_path / "it.html"]
    assert "&lt;b&gt;" in (tmp_path / "it.html").read_text() or "\\u003cb" in (tmp_path / "it.html").read_text()
    written = save(STUDY, FOUND, findings(), "radii …", tmp_path / "it.svg")
    assert written == [tmp_path / "it.svg", tmp_path / "it-2.svg", tmp_path / "it-3.svg"]
    assert all(path.is_file() for path in written)
    nothing = Findings(table((), COLUMNS))
    assert save(STUDY, FOUND, nothing, "radii …", tmp_path / "no.svg") == []
