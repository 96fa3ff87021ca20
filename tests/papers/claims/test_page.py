"""The page of the ledger: counts, every statement, hostile words inert, and a filter that works."""

from __future__ import annotations

from pathlib import Path

import pytest

from chromium import launched, needs_chromium
from radii.report import html
from radii.report.html import Entry, Ledger
from radii.runs.step_results import StepResult
from radii.studies.results import Evidence
from radii.studies.study import Measured
from radii_papers.claims.claim import Claim, Figure
from radii_papers.claims.judgment import judge
from radii_papers.claims.page import page

HOSTILE = "</script><img src=x onerror=alert(1)>"


def claim(number: int, value: float) -> Claim:
    return Claim(
        f"claim-{number}",
        f"Number {number} is 1, {HOSTILE}.",
        "Nobody & Sons 2020",
        "Table <1>",
        "values",
        (Figure("it", value, "=", 0.1),),
        "because",
        "separation",
        arguments={"path": ["it"]},
        corrects="It says <b>2</b>.",
    )


class One(StepResult):
    it: float


@pytest.fixture
def report() -> html.Report:
    found = Evidence("separation", "cpu", 1, (Measured({}, One(it=1.0), "audit-1"),), {}, "file")
    return page([judge(claim(1, 1.0), found), judge(claim(2, 3.0), found), judge(claim(3, 1.0), None)])


def test_counts_and_statements(report: html.Report) -> None:
    assert report.verdict == "3 claims: 1 fail, 1 hold, 0 as printed, 0 findings, 0 not decided, 1 not run."
    text = html.render(report)
    assert "fails by 1.9" in text
    assert "measured 1, published = 3 ± 0.1" in text
    assert "Read from audit-1." in text
    assert "<img src=x" not in text
    assert "<b>2</b>" not in text
    assert "Table &lt;1&gt;" in text
    assert [entry.mark for entry in report.sections[0].blocks[0].entries] == ["fails", "holds", "open"]


@needs_chromium
def test_the_filter_hides_what_does_not_match(report: html.Report, tmp_path: Path) -> None:
    path = html.write(report, tmp_path / "claims.html")
    script = """(() => {
      const box = document.querySelector(".filter");
      box.value = "fails";
      box.dispatchEvent(new Event("input"));
      return [...document.querySelectorAll(".ledger > li")].map((entry) => entry.hidden).join();
    })()"""
    with launched() as browser:
        shown = browser.open(path, until="")
        assert shown.run(script) == "false,true,true"
        assert not shown.complaints


@needs_chromium
def test_a_click_on_a_count_shows_these_claims_only_and_a_second_all(report: html.Report, tmp_path: Path) -> None:
    path = html.write(report, tmp_path / "claims.html")
    script = """(() => {
      const hidden = () => [...document.querySelectorAll(".ledger > li")].map((entry) => entry.hidden).join();
      const card = document.querySelector("[data-choice='not run']"), states = [];
      card.click(); states.push(hidden());
      document.querySelector("[data-choice='holds']").click(); states.push(hidden());
      document.querySelector("[data-choice='holds']").click(); states.push(hidden());
      return states.join(" ");
    })()"""
    with launched() as browser:
        shown = browser.open(path, until="")
        assert shown.run(script) == "true,true,false true,false,true false,false,false"
        assert not shown.complaints


@needs_chromium
def test_the_printed_page_has_every_statement(report: html.Report, tmp_path: Path) -> None:
    path = html.write(report, tmp_path / "claims.html")
    script = "[...document.querySelectorAll('.ledger .statement')].filter((e) => e.offsetHeight > 0).length"
    with launched() as browser:
        shown = browser.open(path, until="")
        shown.page.emulate_media(media="print")
        assert shown.run(script) == 3


def test_an_entry_may_stand_alone() -> None:
    text = html.render(html.Report("t", (html.Section("", (Ledger((Entry("open", "?", "It is.", "me"),)),)),)))
    assert "It is." in text
