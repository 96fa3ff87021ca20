"""``radii claims``: which statements of the papers hold, with the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from radii.cli import options, terminal
from radii.errors import InputError

if TYPE_CHECKING:
    from radii.budget import Budget
    from radii.runs.store import Store
    from radii.tables import Table
    from radii_papers.claims.claim import Claim
    from radii_papers.claims.judgment import Verdict

COLORS = {
    "fails": "red",
    "holds": "green",
    "as printed": "cyan",
    "finding": "blue",
    "not decided": "yellow",
    "not run": "dim",
}
KINDS = {
    "paper": "a statement of the paper",
    "printed": "a sentence of the paper about its own printed table",
    "finding": "a finding of this project",
}
CHEAP = ("formulas", "theory", "separation", "geometry")  # minutes, nothing trained


def claims(
    what: Annotated[str | None, typer.Argument(help="A claim's id, a study, or a name in a paper: ding.")] = None,
    budget: options.OptionalBudget = None,
    run: Annotated[
        bool, typer.Option("--run", help="First compute the studies that train nothing, if missing.")
    ] = False,
    coverage: Annotated[
        bool,
        typer.Option("--coverage", help="For each published table: how many figures are measured, and how far off."),
    ] = False,
    html: options.Html = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if a claim fails.")] = False,
    store: options.StoreFolder = None,
    json: options.Json = None,
) -> None:
    """Which statements of the papers hold: measured beside published, with the evidence."""
    from radii_papers.claims.claim import choose

    chosen, at = choose(what), cast("Budget | None", budget)
    from radii_papers.claims.judgment import ledger, summary

    folder = options.open_store(store)
    if run:
        _compute(chosen, at or "cpu", folder)
    verdicts = ledger(chosen, folder, at)
    console = terminal.show(json)
    if coverage:
        from radii_papers.claims.coverage import coverage_table

        numbers = coverage_table(verdicts)
        _cover(console, numbers)
    elif len(verdicts) == 1:
        _explain(console, verdicts[0])
    else:
        _list(console, verdicts)
        console.print(f"\n[bold]{escape(summary(verdicts))}[/] `radii claims ID` explains one.")
    if html is not None:
        from radii.report.html import write
        from radii_papers.claims.page import page

        console.print(f"page: {escape(str(write(page(verdicts), html)))}")
    terminal.write_json(
        numbers.to_dict() if coverage else {"claims": [verdict.to_dict() for verdict in verdicts]}, json
    )
    if strict and any(verdict.status == "fails" for verdict in verdicts):
        raise typer.Exit(1)


def _compute(chosen: Sequence[Claim], budget: Budget, store: Store) -> None:
    """Run the studies of the chosen claims that train nothing and have no result at the budget yet."""
    from radii.runs.executors import run_steps
    from radii.studies import results
    from radii.studies.study import registered_study

    wanted = {claim.study for claim in chosen}
    with terminal.progress_shown():
        for name in [name for name in CHEAP if name in wanted and results.find(name, store, budget) is None]:
            study = registered_study(name)
            try:
                run_steps([cell.step for cell in study.cells(budget)], store, workers=0)
            except InputError as error:  # a dataset that is not here must not keep the others from being judged
                terminal.complain(f"{name} was not run: {error}")
                continue
            command = f"radii claims {name} --run --budget {budget}"
            results.save(results.collect(study, budget, store), study, command, store)


def _list(console: Console, verdicts: Sequence[Verdict]) -> None:
    """Two lines per claim, paper by paper."""
    paper = ""
    for verdict in verdicts:
        if verdict.claim.paper != paper:
            paper = verdict.claim.paper
            console.print(f"\n[bold underline]{escape(paper)}[/]")
        seen = f"measured {verdict.shown}, " if verdict.measured else ""
        facts = f"{seen}published {verdict.expected} · {verdict.evidence}"
        facts += f" · {verdict.note}" if verdict.status == "not decided" else ""
        facts += f" · {verdict.certainty}" if verdict.certainty and verdict.status != "not decided" else ""
        console.print(f"[{COLORS[verdict.status]}]{escape(verdict.outcome)}[/] [bold]{escape(verdict.claim.id)}[/]")
        console.print(Padding(escape(verdict.statement), (0, 0, 0, 4)))
        console.print(Padding(f"[dim]{escape(facts)}[/]", (0, 0, 0, 4)))


def _cover(console: Console, numbers: Table) -> None:
    """The coverage in narrow columns, paper by paper."""
    from radii.tables import listing

    last = ("by value", "by a constant", "in rank", "budget", "off by", "at most")
    cells = [dict(zip(numbers.headings, line, strict=True)) for line in numbers.cells]
    total = cells.pop()
    for paper in dict.fromkeys(line["paper"] for line in cells):
        lines = [
            (line["table"], f"{line['measured']} of {line['published']}", *(line[heading] for heading in last))
            for line in cells
            if line["paper"] == paper
        ]
        console.print(terminal.table(listing(paper, ("table", "measured", *last), lines)))
    console.print(
        f"[bold]{total['measured']} of {total['published']} published figures are measured; {total['by value']} agree "
        f"by value ({total['by a constant']} would by a constant), {total['in rank']} in rank.[/]"
    )
    console.print(escape(numbers.note))


def _explain(console: Console, verdict: Verdict) -> None:
    """Everything about one claim."""
    from radii_papers.claims.judgment import figure_table
    from radii_papers.claims.setup import setup

    claim = verdict.claim
    console.print(f"[bold]{escape(claim.id)}[/]  [{COLORS[verdict.status]}]{escape(verdict.outcome)}[/]")
    console.print(Padding(escape(verdict.statement), (0, 0, 0, 2)))
    lines = {
        "source": claim.source,
        "the text": claim.corrects,
        "kind": KINDS[claim.kind],
        "tolerance": verdict.reason,
        "judged at": ", ".join(claim.budgets),
        "evidence": verdict.evidence,
        "power": verdict.certainty,
        "setup": setup(verdict),
        "note": verdict.note,
        "file": verdict.origin,
        "runs": " ".join(verdict.runs),
    }
    for name, text in lines.items():
        if text:
            console.print(f"  [dim]{name}[/] {escape(text)}", soft_wrap=True)
    for title, figures in (("figure", claim.figures), ("needed to judge it", claim.conditions)):
        if figures:
            console.print(terminal.table(figure_table(verdict, figures, title)))
