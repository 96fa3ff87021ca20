"""A study on paper: its table, its charts, and the page that holds both."""

from __future__ import annotations

from pathlib import Path

from radii.report import charts
from radii.report.charts import Chart
from radii.report.drawing import save as save_chart
from radii.report.html import Commands, Report, Section, write
from radii.report.rows import Field
from radii.report.table_html import Table, table
from radii.studies.results import Evidence
from radii.studies.study import Column, Drawing, Findings, Study


def tabulated(findings: Findings) -> Table:
    """The findings as a table."""
    return table(findings.rows, [_field(column) for column in findings.columns])


def drawn(drawing: Drawing) -> Chart:
    """A drawing of an analysis as a chart."""
    make = {"curves": charts.curves, "bars": charts.bars, "points": charts.points}[drawing.kind]
    x, y = _field(drawing.x), _field(drawing.y)
    return make(drawing.rows, x, y, drawing.series, title=drawing.title, note=drawing.note)


def page(study: Study, evidence: Evidence, findings: Findings, command: str) -> Report:
    """Table, charts, and how to make them again."""
    known = evidence.environment
    made_with = {key: str(value) for key, value in {**known, **known.get("versions", {})}.items() if key != "versions"}
    sections = [
        Section("Findings", (tabulated(findings),)),
        Section("Charts", tuple(drawn(drawing) for drawing in findings.drawings)),
        Section("How to reproduce", (Commands((command,), made_with),)),
    ]
    return Report(
        title=study.title,
        subtitle=f"{study.source} · budget {evidence.budget} · "
        f"{len(evidence.measured)} of {evidence.planned} cells measured",
        sections=tuple(section for section in sections if section.blocks),
    )


def save(study: Study, evidence: Evidence, findings: Findings, command: str, path: Path) -> list[Path]:
    """Write the page (.html), or the charts as pictures: the second and later ones beside ``path``, numbered."""
    if path.suffix.lower() == ".html":
        return [write(page(study, evidence, findings, command), path)]
    names = [path, *(path.with_stem(f"{path.stem}-{number}") for number in range(2, len(findings.drawings) + 1))]
    return [save_chart(drawn(drawing), name) for drawing, name in zip(findings.drawings, names, strict=False)]


def _field(column: Column) -> Field:
    return Field(column.name, column.title, column.percent, column.log, column.low, column.high)
