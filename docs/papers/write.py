"""Write tables and pictures of the papers' pages again from shipped results: ``python docs/papers/write.py``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from radii.report.charts import save
from radii.runs.store import Store
from radii_papers.claims.claim import all_claims
from radii_papers.claims.coverage import PublishedComparison, TableCoverage, agreement_chart, coverage
from radii_papers.claims.judgment import Verdict, ledger

HERE = Path(__file__).parent
PAGES = {
    "prach-lampert": "Prach & Lampert 2025",
    "yang": "Yang et al. 2020",
    "ding": "Ding et al. 2019",
    "bubeck": "Bubeck et al. 2021",
    "vardi": "Vardi et al. 2022",
    "schmidt": "Schmidt et al. 2018",
}
BLOCK = re.compile(r"(<!-- written by write\.py -->\n).*?(<!-- end -->)", re.DOTALL)
SHOWN = 2  # figures of each table


def block(paper: str, verdicts: Sequence[Verdict]) -> str:
    """Published figures beside ours: of the tables where there are some, else of the claims."""
    tables = [one for one in coverage(verdicts) if one.paper.startswith(paper)]
    measured = [one for one in tables if one.comparisons]
    return (_of_tables(tables, measured) if measured else "") + _of_claims(verdicts if not measured else [])


def _of_tables(tables: Sequence[TableCoverage], measured: Sequence[TableCoverage]) -> str:
    """A line for each table, then the first figures of each."""
    lines = [
        f"| {one.table} | {len(one.comparisons)} of {one.published} | {one.by_value} | {one.in_rank} |"
        for one in measured
    ]
    silent = [f"{one.table} ({one.published})" for one in tables if not one.comparisons]
    left = f"\nNot measured: {', '.join(silent)}.\n" if silent else ""
    figures = [_figure(one.table, c) for one in measured for c in one.comparisons[:SHOWN]]
    return (
        "| published | figures measured | agree by value | in printed order |\n| --- | --- | --- | --- |\n"
        + "\n".join(lines)
        + f"\n{left}\nThe first figures of each:\n\n"
        + "| where | what | published | ours |\n| --- | --- | --- | --- |\n"
        + "\n".join(figures)
        + "\n\n"
    )


def _figure(table: str, comparison: PublishedComparison) -> str:
    fact = comparison.figure.fact
    assert fact is not None
    what = ", ".join(word for word in (fact.dataset, fact.model, fact.method, fact.metric.replace("_", " ")) if word)
    scale = 100 if fact.metric.endswith("_pct") else 1
    return f"| {table} | {what} | {fact.number:.5g} | {scale * comparison.measured:.4g} |"


def _of_claims(verdicts: Sequence[Verdict]) -> str:
    """The paper's claims: expected, measured, status."""
    if not verdicts:
        return ""
    lines = [
        f"| {one.statement} | {one.expected} | {one.shown} | {one.outcome} |".replace("|η|", "η").replace("|δ|", "δ")
        for one in verdicts
    ]
    return "| statement | expected | ours | |\n| --- | --- | --- | --- |\n" + "\n".join(lines) + "\n\n"


def verdicts_by_page() -> dict[str, list[Verdict]]:
    """The ledger by page, from the shipped results alone."""
    known = ledger(all_claims(), Store(HERE / "no-runs"))
    return {name: [one for one in known if one.claim.paper == paper] for name, paper in PAGES.items()}


def written(name: str, page: str, verdicts: Sequence[Verdict]) -> str:
    """The page with its block."""
    text = "\n" + block(PAGES[name], verdicts)
    if (HERE / f"{name}.png").is_file():
        text += f"![Measured against published, percentages]({name}.png)\n\n"
    return BLOCK.sub(lambda match: match[1] + text + match[2], page)


if __name__ == "__main__":
    for name, verdicts in verdicts_by_page().items():
        picture = agreement_chart(verdicts)
        if picture is not None:
            path = save(picture, HERE / f"{name}.png")
            Image.open(path).convert("RGB").quantize(48).save(path, optimize=True)
        page = HERE / f"{name}.md"
        page.write_text(written(name, page.read_text(), verdicts))
        print(name)
