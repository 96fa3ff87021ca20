"""``radii theory``: the papers' theorems, run and judged; each result's options are its function's parameters."""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer
from rich.markup import escape
from rich.padding import Padding
from typer.core import TyperGroup

from radii.cli import terminal
from radii.cli.options import Json, Plot, Seed, between
from radii.errors import unknown_name
from radii.tables import listing, parse_number
from radii_papers.theory.statements import STATEMENTS, Statement, search

if TYPE_CHECKING:
    from radii_papers.theory.result import Result

ALL = "all"


class Results(TyperGroup):
    """One command per result, by its name or its place; a result is imported when it is run, not when it is listed."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """The results in the order of the papers."""
        return [*STATEMENTS, ALL]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """What the list needs to know of a command: its name and its statement."""
        if cmd_name == ALL:
            return _as_command(ALL, run_all, "Run every result with its defaults.")
        statement = STATEMENTS.get(cmd_name)
        return None if statement is None else _as_command(statement.name, lambda: None, statement.says)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was asked for, with its options."""
        name = args[0]
        if name == ALL:
            return name, self.get_command(ctx, name), args[1:]
        words = [name] if name in STATEMENTS else list(takewhile(lambda word: not word.startswith("-"), args))
        meant = search(" ".join(words))
        if len(meant) == 1:
            only = meant[0]
            return only.name, _as_command(only.name, _runner(only), only.says), args[len(words) :]
        if not meant:
            hint = "Or name a place in a paper: `radii theory prach theorem 1`."
            raise unknown_name("result", " ".join(words), self.list_commands(ctx), hint)
        return words[0], _as_command(words[0], _lister(meant), "Several results fit."), args[len(words) :]


def _as_command(name: str, function: Any, says: str) -> Any:
    alone = typer.Typer(add_completion=False)
    alone.command(name, help=escape(says))(function)
    return typer.main.get_command(alone)


def _runner(statement: Statement) -> Any:
    """A function that typer can read: the simulation's parameters as options, then --json and --plot."""
    simulate = statement.simulation()
    hints = get_type_hints(simulate, include_extras=True)
    signature = inspect.signature(simulate)

    def run(**options: Any) -> None:
        json, plot = options.pop("json"), options.pop("plot")
        chosen = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
        with terminal.progress_shown():
            result = simulate(**chosen)
        _print(result, json, plot)

    options = [
        parameter.replace(
            annotation=Seed if name == "seed" else _option(hints[name]),
            default=list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default,
        )
        for name, parameter in signature.parameters.items()
    ]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in (("json", Json), ("plot", Plot))
    ]
    parameters = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options] + common
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _option(hint: Any) -> Any:
    """``Annotated[type, help]`` as typer spells it: tuples repeat their option, numbers may be fractions like 8/255."""
    kind, explanation = get_args(hint)
    many = get_origin(kind) is tuple
    member = get_args(kind)[0] if many else kind
    help_text = escape(f"{explanation}; repeat for several." if many else f"{explanation}.")
    option = typer.Option(help=help_text)
    if float in (member, *get_args(member)):
        option = typer.Option(help=help_text, parser=_number, metavar="NUMBER", callback=between(-1e18, 1e18))
    elif int in (member, *get_args(member)):
        option = typer.Option(help=help_text, callback=between(0, 10**8))
    return Annotated[list[member] if many else kind, option]  # type: ignore[valid-type]


def _number(text: str | float) -> float:
    """A decimal number or a fraction; typer passes defaults through here too."""
    return parse_number(str(text))


def _print(result: Result, json: str | None, plot: Path | None) -> None:
    """Table, picture, JSON, verdict; exit 1 if the theorem fails."""
    if plot is not None:
        terminal.draw(result.chart, plot)
    shown = terminal.show(json)
    shown.print(f"[bold]{escape(result.source)}[/]  {escape(result.statement)}")
    shown.print(terminal.table(result.table))
    shown.print(f"[bold]{'[green]' if result.holds else '[red]'}{result.verdict}[/][/]")
    if result.holds:
        shown.print(escape(result.takeaway), soft_wrap=True)
    terminal.write_json(result.to_dict(), json)
    if not result.holds:
        raise typer.Exit(1)


def run_all(seed: Seed = 0, json: Json = None) -> None:
    """Run every result with its defaults; ends with `holds` only if all do.

    Args:
        seed: seed of all random numbers; default 0.
        json: a file for the result as JSON, ``-`` for stdout; default: none.
    """
    results, rows = [], []
    with terminal.progress_shown():
        from radii import progress

        with progress.task("results", len(STATEMENTS)) as task:
            for statement in STATEMENTS.values():
                began = time.process_time()
                result = statement.simulation()(seed=seed)
                agreed = sum(row.holds for row in result.rows)
                took = f"{time.process_time() - began:.1f}"
                rows.append((statement.name, statement.source, f"{agreed}/{len(result.rows)}", took, result.verdict))
                results.append(result)
                task.advance(note=statement.name)
    shown = terminal.show(json)
    shown.print(terminal.table(listing("Results", ("result", "source", "rows", "CPU seconds", "verdict"), rows)))
    terminal.write_json({"results": [result.to_dict() for result in results]}, json)
    if not all(result.holds for result in results):
        shown.print("[bold red]fails[/]")
        raise typer.Exit(1)
    shown.print("[bold green]holds[/]")


app = typer.Typer(cls=Results, invoke_without_command=True, no_args_is_help=False, add_completion=False)


@app.callback()
def list_results(ctx: typer.Context, json: Json = None) -> None:
    """Simulate the papers' theorems; without a name, list them.

    `radii theory NAME --help` shows the parameters of a result. A place in a paper is a name, too: `radii theory prach
    theorem 1` runs the one result that it means, `radii theory vardi` lists several.
    """
    if ctx.invoked_subcommand is None:
        _list(list(STATEMENTS.values()), json)


def _lister(meant: Sequence[Statement]) -> Any:
    """A function that lists several results."""

    def run(json: Json = None) -> None:
        _list(meant, json)

    return run


def _list(statements: Sequence[Statement], json: str | None) -> None:
    """Name, source and statement of each."""
    shown = terminal.show(json)
    for statement in statements:
        shown.print(f"[bold]{statement.name}[/]  [dim]{escape(statement.source)}[/]", soft_wrap=True)
        shown.print(Padding(escape(statement.says), (0, 0, 0, 4)))
    known = [
        {
            "name": statement.name,
            "source": statement.source,
            "statement": statement.says,
            "takeaway": statement.takeaway,
        }
        for statement in statements
    ]
    terminal.write_json({"results": known}, json)
