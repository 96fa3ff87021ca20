"""A study on paper: its table, its charts, and the page that holds both."""

from __future__ import annotations

from pathlib import Path

from radii.report import charts
from radii.report.html import Commands, Report, Section, write
from radii.studies.results import Evidence
from radii.studies.study import Findings, Study


def page(study: Study, evidence: Evidence, findings: Findings, command: str) -> Report:
    """The page of a study: table, charts, and how to make them again."""
    known = evidence.environment
    versions = {key: str(value) for key, value in {**known, **known.get("versions", {})}.items() if key != "versions"}
    sections = [
        Section("Findings", (findings.table,)),
        Section("Charts", findings.charts),
        Section("How to reproduce", (Commands((command,), versions),)),
    ]
    return Report(
        title=study.title,
        subtitle=f"{study.source} · budget {evidence.budget} · "
        f"{len(evidence.measured)} of {evidence.planned} cells measured",
        sections=tuple(section for section in sections if section.blocks),
    )


def save(study: Study, evidence: Evidence, findings: Findings, command: str, path: Path) -> list[Path]:
    """Write the page (.html), or the charts as pictures.

    Args:
        path: the page or the first chart; further charts are beside it, numbered.
    """
    if path.suffix.lower() == ".html":
        return [write(page(study, evidence, findings, command), path)]
    names = [path, *(path.with_stem(f"{path.stem}-{number}") for number in range(2, len(findings.charts) + 1))]
    return [charts.save(spec, name) for spec, name in zip(findings.charts, names, strict=False)]
