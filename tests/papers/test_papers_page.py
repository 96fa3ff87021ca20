"""The page on the papers says what the ledger says."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from radii.papers.claims.claim import all_claims
from radii.papers.claims.coverage import coverage
from radii.papers.claims.judgment import Verdict, ledger
from radii.runs.store import Store

PAGE = (Path(__file__).parents[2] / "docs" / "papers.md").read_text()
SECTIONS = {
    "holds": r"\*\*Holds\.\*\*.*?(?=\n\n)",
    "elsewhere": r"\*\*(?:Depends on the budget|In the text)\.\*\*.*?(?=\n\n)",
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    return {verdict.claim.id: verdict for verdict in ledger(all_claims(), Store(tmp_path_factory.mktemp("runs")))}


def named(kind: str) -> set[str]:
    """The claims that paragraphs of a kind name; ``ding-table5-*`` names all that begin so."""
    parts = re.findall(SECTIONS[kind], PAGE, re.S)
    words = {word for part in parts for word in re.findall(r"`([a-z]+-[a-z0-9-]+\*?)`", part)}
    return {claim.id for claim in all_claims() for word in words if fnmatch(claim.id, word)}


def test_every_claim_on_the_page_exists(verdicts: dict[str, Verdict]) -> None:
    papers = {name.split("-")[0] for name in verdicts}
    words = {name for name in re.findall(r"`([a-z]+-[a-z0-9-]+)`", PAGE) if name.split("-")[0] in papers}
    assert words <= set(verdicts), words - set(verdicts)


def test_what_holds_and_what_does_not(verdicts: dict[str, Verdict]) -> None:
    statuses = {name: verdicts[name].status for name in named("holds")}
    wrong = {n: s for n, s in statuses.items() if s not in ("holds", "finding") and n != "yang-svhn-separation"}
    assert not wrong, wrong
    left_out = {name for name, verdict in verdicts.items() if verdict.status in ("fails", "as printed", "not run")}
    assert left_out <= named("elsewhere") | named("holds"), left_out - named("elsewhere")
    parts = " ".join(re.findall(SECTIONS["elsewhere"], PAGE, re.S))
    single = {name for name in verdicts if f"`{name}`" in parts}  # a family may hold in part
    assert not {name for name in single if verdicts[name].status == "holds"}


def test_the_count_of_measured_figures(verdicts: dict[str, Verdict]) -> None:
    tables = coverage(verdicts.values())
    measured, published = sum(len(t.comparisons) for t in tables), sum(t.published for t in tables)
    assert f"{measured} of {published:,} published figures" in PAGE
