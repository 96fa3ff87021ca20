"""The page on the papers says what the ledger says."""

from __future__ import annotations

import importlib.util
import re
from fnmatch import fnmatch
from inspect import signature
from itertools import takewhile
from pathlib import Path
from types import ModuleType

import pytest

from radii.runs.store import Store
from radii.studies.citations import cites
from radii.studies.results import find
from radii.studies.study import STUDIES, registered_study
from radii_papers.claims._method_checks import method_column
from radii_papers.claims._study_cells import StudyCells
from radii_papers.claims.claim import all_claims, choose
from radii_papers.claims.coverage import coverage
from radii_papers.claims.judgment import Verdict, ledger
from radii_papers.studies._yang_methods import METHODS
from radii_papers.theory.statements import STATEMENTS, search

PAPERS = Path(__file__).parents[2] / "docs" / "papers"
PAGE = (PAPERS / "index.md").read_text()
SECTIONS = {
    "holds": r"\*\*Holds\.\*\*.*?(?=\n\n(?:\*\*|#|\|)|\Z)",
    "not decided": r"\*\*Not decided\.\*\*.*?(?=\n\n(?:\*\*|#|\|)|\Z)",
    "elsewhere": r"\*\*(?:Depends on the budget|In the text)\.\*\*.*?(?=\n\n(?:\*\*|#|\|)|\Z)",
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


def test_what_is_not_decided(verdicts: dict[str, Verdict]) -> None:
    assert named("not decided") == {name for name, verdict in verdicts.items() if verdict.status == "not decided"}


def test_the_count_of_measured_figures(verdicts: dict[str, Verdict]) -> None:
    tables = coverage(verdicts.values())
    measured, published = sum(len(t.comparisons) for t in tables), sum(t.published for t in tables)
    by_value, constant, rank = (sum(getattr(t, k) for t in tables) for k in ("by_value", "by_constant", "in_rank"))
    text = " ".join(PAGE.split())
    assert f"{measured} of {published:,} published figures are held against a measurement." in text
    assert f"{by_value} agree by value ({by_value / measured:.1%}), within 3 points of a percentage" in text
    assert f"measured everywhere, would agree with {constant} of them" in text
    assert f"{rank} stand in a column whose order is the printed one" in text


def pages() -> ModuleType:
    """``docs/papers/write.py`` as a module."""
    spec = importlib.util.spec_from_file_location("write_papers", PAPERS / "write.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_of_papers_have_the_figures_of_the_ledger(verdicts: dict[str, Verdict]) -> None:
    """`python docs/papers/write.py` writes them again."""
    write = pages()
    assert {verdict.claim.paper for verdict in verdicts.values()} == set(write.PAGES.values())
    for name, paper in write.PAGES.items():
        page = (PAPERS / f"{name}.md").read_text()
        own = [verdict for verdict in verdicts.values() if verdict.claim.paper == paper]
        assert write.written(name, page, own) == page, name
        assert f"]({name}.md)" in PAGE


def test_commands_of_the_pages_mean_something() -> None:
    """What the pages' commands name exists; options belong to the one result that is meant."""
    for name in pages().PAGES:
        text = (PAPERS / f"{name}.md").read_text()
        for line in re.findall(r"^radii (.*?)(?: +#.*)?$", text, re.M):
            command, *words = line.split()
            plain = list(takewhile(lambda word: not word.startswith("--"), words))
            if command == "theory":
                meant, options = search(" ".join(plain)), {word[2:] for word in words if word.startswith("--")}
                assert meant, line
                if options:
                    (only,) = meant
                    assert options <= {key.replace("_", "-") for key in signature(only.simulation()).parameters}, line
            elif command == "claims":
                assert choose(plain[0]), line
            elif plain[:1] == ["list"]:
                assert any(cites(registered_study(study).source, plain[1:]) for study in STUDIES), line
            elif command == "study":
                assert plain[1] in STUDIES, line


def test_every_theorem_is_remembered_on_one_page() -> None:
    texts = [(PAPERS / f"{name}.md").read_text() for name in pages().PAGES]
    for statement in STATEMENTS.values():
        line = f"- [{statement.name}](theory/{statement.name}.md): {statement.takeaway}"
        assert sum(line in text for text in texts) == 1, statement.name


def test_sentences_on_the_methods_of_yang_are_those_of_the_table() -> None:
    """Means over three methods say what the means are; no sentence says it of each method."""
    evidence = find("yang-mnist", Store(Path("nowhere")), "cpu")
    assert evidence is not None
    cells, place = StudyCells(evidence.measured), {"network": "CNN1"}
    steep, kept = (method_column(cells, METHODS, column=name, place=place) for name in ("lipschitz", "adversarial"))
    rough, smooth = ("Natural", "GR", "LLR"), ("AT", "RST(lambda=2)", "TRADES(beta=6)")

    def mean(column: dict[str, float], methods: tuple[str, ...]) -> float:
        return sum(column[method] for method in methods) / len(methods)

    trades = [kept[method] for method in METHODS if method.startswith("TRADES")]
    tutored = [steep[method] for method in METHODS if method.startswith("RST")]
    for words in (
        f"on average {mean(steep, rough) / mean(steep, smooth):.2f} times as steep as AT, RST(2) and TRADES(6), and "
        f"{mean(kept, rough):.1%} of the points survive attacks instead of {mean(kept, smooth):.1%}",
        f"GR ({steep['GR']:.1f}) is less steep than RST ({min(tutored):.3g} to {max(tutored):.3g}), and survives more "
        f"attacks ({kept['GR']:.1%}) than AT ({kept['AT']:.1%}) and TRADES "
        f"({100 * min(trades):.1f} to {max(trades):.1%})",
    ):
        assert words in " ".join(PAGE.split()), words
    assert steep["GR"] < min(tutored)
    assert kept["GR"] > max(kept["AT"], *trades)
