"""``radii verify``: prove or refute VNN-LIB properties of ONNX networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from radii.cli import terminal
from radii.cli.options import Json, OptionalSearchSeconds, Seed, Workers

if TYPE_CHECKING:
    from radii.certificates.complete.instances import Instance
    from radii.certificates.complete.verify import Verification

UNDECIDED, INTERRUPTED = 3, 130


def verify(
    network: Annotated[Path | None, typer.Argument(help="An ONNX file.")] = None,
    query: Annotated[Path | None, typer.Argument(help="A VNN-LIB property, plain or .gz.")] = None,
    seconds: OptionalSearchSeconds = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="At most so many regions are bounded.")] = None,
    result: Annotated[Path | None, typer.Option(help="Write verdict and counterexample as VNN-COMP does.")] = None,
    proof: Annotated[Path | None, typer.Option(help="Write the proof of unsat, for `radii check`.")] = None,
    state: Annotated[
        Path | None, typer.Option(help="Keep an undecided search here, and continue it from here.")
    ] = None,
    instances: Annotated[Path | None, typer.Option(help="A CSV list of NETWORK,PROPERTY,SECONDS instead.")] = None,
    table: Annotated[Path, typer.Option(help="For a list: the CSV table of verdicts, continued if it exists.")] = Path(
        "verdicts.csv"
    ),
    workers: Workers = None,
    executor: Annotated[str, typer.Option(help="processes, inline, ray or ray:local.")] = "processes",
    address: Annotated[str | None, typer.Option(help="HOST:PORT of a Ray head, with --executor ray.")] = None,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """Prove that no input meets a property (`unsat`), or find one that does (`sat`).

    Exit code 0: unsat. 1: sat (for a list: a verdict differs from the expected one). 3: not decided in time.
    Ctrl-C ends the search and says how far it came (130).
    """
    from radii.errors import InputError

    if instances is not None:
        if network is not None:
            raise InputError("Give a network and a property, or --instances FILE.csv, not both.")
        if proof is not None or result is not None or state is not None:
            raise InputError("--proof, --result and --state are for one network and property, not for --instances.")
        _several(instances, table, seconds, workers, executor, address, json)
        return
    if executor != "processes" or address is not None:
        raise InputError("--executor and --address spread the instances of a list: --instances FILE.csv.")
    if network is None or query is None:
        raise InputError("Give a network and a property: radii verify NET.onnx PROP.vnnlib.")
    _single(network, query, 300.0 if seconds is None else seconds, nodes, result, proof, state, seed, json)


def _single(
    network: Path,
    query: Path,
    seconds: float,
    nodes: int | None,
    result: Path | None,
    proof: Path | None,
    state: Path | None,
    seed: int,
    json: str | None,
) -> None:
    from radii.atomic import check_writable, write_whole
    from radii.certificates.complete.result_file import result_text
    from radii.certificates.complete.verify import verify as decide

    for path in (result, proof, state):
        if path is not None:
            check_writable(path)
    with terminal.progress_shown():
        answer = decide(network, query, seconds=seconds, nodes=nodes or 1 << 62, seed=seed, proof=proof, state=state)
    console = terminal.show(json)
    console.print(_sentence(answer))
    if proof is not None and answer.verdict == "unsat":
        console.print(f"Proof: {proof}; radii check {proof} checks it.", soft_wrap=True)
    if state is not None and answer.verdict not in ("sat", "unsat"):
        console.print(f"The open regions are kept in {state}; the same command continues.", soft_wrap=True)
    if answer.counterexample is not None and json is None and result is None and answer.counterexample.size <= 20:
        console.print(result_text(answer).split("\n", 1)[1].rstrip())
    if result is not None:
        write_whole(result, result_text(answer).encode())
    terminal.write_json(
        {
            "network": str(network),
            "property": str(query),
            "verdict": answer.verdict,
            "seconds": answer.seconds,
            "method": answer.method,
            "nodes": answer.nodes,
            "open": answer.open,
            "bound": answer.bound,
            "interrupted": answer.interrupted,
            "counterexample": None if answer.counterexample is None else answer.counterexample.tolist(),
            "outputs": None if answer.outputs is None else answer.outputs.tolist(),
        },
        json,
    )
    code = {"unsat": 0, "sat": 1}.get(answer.verdict, INTERRUPTED if answer.interrupted else UNDECIDED)
    if code:
        raise typer.Exit(code)


def _sentence(answer: Verification) -> str:
    spent = f"{answer.seconds:.1f} s, {answer.nodes} regions, by {answer.method}"
    if answer.verdict == "unsat":
        return f"unsat: no input meets the property, proved for the float32 network ({spent})."
    if answer.verdict == "sat":
        return f"sat: an input meets the property, replayed in float32 ({spent})."
    ended = "interrupted, " if answer.interrupted else ""
    worst = (
        "" if answer.bound is None else f"; the worst open region is bounded by {answer.bound:.3g}, 0 would prove it"
    )
    return f"{answer.verdict}: {ended}{answer.open:.2%} of the search is left{worst} ({spent})."


def _several(
    instances: Path,
    table: Path,
    seconds: float | None,
    workers: int | None,
    executor: str,
    address: str | None,
    json: str | None,
) -> None:
    from radii.atomic import check_writable
    from radii.certificates.complete.instances import ERROR, read_instances, read_table, run_instances
    from radii.tables import listing

    check_writable(table)
    entries = read_instances(instances, seconds)
    folder = instances.resolve().parent
    spread = _spread(folder, executor, address, workers)
    with terminal.progress_shown():
        for _ in run_instances(folder, entries, table, workers, spread):
            pass
    wanted = {(entry.network, entry.query) for entry in entries}
    rows = [row for row in read_table(table) if (row["onnx"], row["vnnlib"]) in wanted]
    shown = [tuple(row[name] for name in ("onnx", "vnnlib", "verdict", "seconds", "nodes", "expected")) for row in rows]
    console = terminal.show(json)
    columns = ("network", "property", "verdict", "seconds", "regions", "expected")
    console.print(terminal.table(listing(str(instances), columns, shown)))
    wrong = [row for row in rows if row["verdict"] in ("sat", "unsat") and row["expected"] not in ("", row["verdict"])]
    for row in rows:
        if row["verdict"] == ERROR:
            console.print(row["method"], soft_wrap=True, markup=False)
    decided = sum(row["verdict"] in ("sat", "unsat") for row in rows)
    console.print(f"{decided} of {len(rows)} decided, {len(wrong)} against the expected verdict.")
    terminal.write_json({"instances": rows, "decided": decided, "wrong": len(wrong)}, json)
    if wrong or decided < len(rows):
        raise typer.Exit(1 if wrong else UNDECIDED)


def _spread(
    folder: Path, executor: str, address: str | None, workers: int | None
) -> Callable[[list[Instance]], Iterator[dict[str, str]]] | None:
    """What verifies the instances on a cluster; None: processes of this machine do."""
    from radii.errors import InputError, unknown_name

    names = ("processes", "ray", "ray:local")
    if executor not in names:
        raise unknown_name("executor", executor, names)
    if (executor == "ray") != (address is not None):
        raise InputError("An address goes with --executor ray: --executor ray --address HOST:PORT.")
    if executor == "processes":
        return None
    from radii.runs.executors.ray_instances import verified_on_ray

    return lambda entries: verified_on_ray(folder, entries, address, workers)
