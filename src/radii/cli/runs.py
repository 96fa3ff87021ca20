"""``radii runs``: what has been computed; show, compare, check, delete."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from radii import progress
from radii.cli import terminal
from radii.cli.options import Json, StoreFolder, open_store
from radii.errors import InputError
from radii.tables import listing

if TYPE_CHECKING:
    from radii.runs.store import Run

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The id of a run, or its beginning.")]

app = typer.Typer(
    help="List, show, compare and delete committed runs.", invoke_without_command=True, add_completion=False
)


@app.callback()
def runs(context: typer.Context, store: StoreFolder = None, json: Json = None) -> None:
    """List committed runs; `show`, `compare` and `delete` take a run's id or the beginning of it; `check` reads all."""
    if not context.invoked_subcommand:
        list_(store, json)


@app.command("list")
def list_(store: StoreFolder = None, json: Json = None) -> None:
    """List committed runs, as `radii runs` does."""
    folder = open_store(store)
    rows = [_row_or_damage(run) for run in folder.runs()]
    columns = ("run", "what", "main result", "seconds", "MB", "when")
    console = terminal.show(json)
    if rows:
        console.print(terminal.table(listing(f"Runs in {folder.root}", columns, [tuple(row.values()) for row in rows])))
    else:
        console.print(f"No runs in {folder.root} yet; `radii train digits` makes one.")
    terminal.write_json({"runs": rows}, json)


TIMES = ("environment.seconds", "environment.cpu_seconds", "environment.resumed")  # no result depends on them


@app.command()
def show(run: RunId, store: StoreFolder = None, json: Json = None) -> None:
    """The spec, result and environment of one run."""
    one = open_store(store).find(run)
    content = {"run": one.id, "spec": one.spec, "result": one.content, "environment": one.environment}
    if json is None:
        terminal.show().print_json(json_.dumps(content))
    terminal.write_json(content, json)


@app.command()
def compare(first: RunId, second: RunId, store: StoreFolder = None, json: Json = None) -> None:
    """Where two runs differ, in what was asked, in what came out, and in what they were computed with."""
    folder = open_store(store)
    one, two = folder.find(first), folder.find(second)
    rows = []
    parts = {  # the last one has what bits depend on beyond the spec
        "spec": (one.spec, two.spec),
        "result": (one.content, two.content),
        "environment": (one.environment, two.environment),
    }
    for part, both in parts.items():
        left, right = (_flat(content, part) for content in both)
        rows += [
            {"field": key, "first": left.get(key), "second": right.get(key)}
            for key in sorted(left.keys() | right.keys())
            if left.get(key) != right.get(key) and key not in TIMES
        ]
    cells = [(row["field"], row["first"], row["second"]) for row in rows]
    terminal.show(json).print(
        terminal.table(listing(f"{one.id} and {two.id}", ("differs in", "first", "second"), cells))
    )
    terminal.write_json({"differences": rows}, json)


@app.command()
def delete(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids of runs, or their beginnings.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    store: StoreFolder = None,
) -> None:
    """Delete runs of this store, and nothing else."""
    folder = open_store(store)
    for run in [folder.own(name) for name in runs]:
        if yes or typer.confirm(f"Delete {run.id}?"):
            folder.delete(run)
            terminal.show().print(f"deleted {run.id}")


@app.command()
def check(store: StoreFolder = None, json: Json = None) -> None:
    """Read every file of every run and compare it with its checksum; exit code 1 if a run is damaged."""
    folder, rows = open_store(store), []
    with terminal.progress_shown(), progress.task("reading", total=len(folder.runs()), unit="runs") as task:
        for run in folder.runs():
            reason = run.damage(fresh=True)
            rows += [] if reason is None else [{"run": run.id, "damage": reason}]
            task.advance()
    console = terminal.show(json)
    for row in rows:
        console.print(escape(f"{row['run']} is damaged: {row['damage']}."), soft_wrap=True)
    whole = len(folder.runs()) - len(rows)
    advice = " The commands that made damaged runs compute them again." if rows else ""
    console.print(f"{whole} of {len(folder.runs())} runs are as they were written.{advice}", soft_wrap=True)
    terminal.write_json({"runs": len(folder.runs()), "damaged": rows}, json)
    if rows:
        raise typer.Exit(1)


def _row_or_damage(run: Run) -> dict[str, Any]:
    """One line of the list; a run that cannot be read has its place in it, too."""
    try:
        return _row(run)
    except (InputError, LookupError, TypeError, ValueError, AttributeError):
        reason = f"damaged: {run.damage() or 'its files are not those of a run'}"
        return {"run": run.id, "what": reason, "main result": "", "seconds": None, "MB": None, "when": ""}


def _row(run: Run) -> dict[str, Any]:
    when = run.committed.strftime("%Y-%m-%d %H:%M")
    spec = run.spec["spec"]
    return {
        "run": run.id,
        "what": _what(spec),
        "main result": run.result.headline(),
        "seconds": run.environment.get("seconds"),
        "MB": round(run.size / 1e6, 2),
        "when": when,
    }


def _what(spec: dict[str, Any]) -> str:
    """Dataset, model, method and threat of a step's fields, and the names of its other files."""
    model = spec.get("model")
    inner = model if isinstance(model, dict) and "data" in model else spec  # the training of the model, if there is one
    data = spec.get("data") or inner.get("data") or {}
    parts = [str(data.get("source", ""))]
    if isinstance(model, dict):
        parts.append(Path(model.get("path", "")).name or model.get("factory", ""))
    parts += [
        part["name"] for key in ("model", "method") if isinstance(part := inner.get(key), dict) and "name" in part
    ]
    parts += [Path(part["path"]).name for key in ("network", "query") if isinstance(part := spec.get(key), dict)]
    if isinstance(threat := spec.get("ball"), dict):
        from radii.sparse_threat import stored_threat

        parts.append(str(stored_threat(threat)))
    return " ".join(part for part in parts if part)


def _flat(content: Any, name: str) -> dict[str, Any]:
    """Nested dictionaries as dotted names; long lists (histories) only by their length."""
    if isinstance(content, dict):
        return {key: value for part, inner in content.items() for key, value in _flat(inner, f"{name}.{part}").items()}
    if isinstance(content, list) and len(content) > 8:
        return {f"{name} (length)": len(content)}
    return {name: content}
