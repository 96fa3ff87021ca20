"""``radii verify``: prove or refute VNN-LIB properties of ONNX networks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from radii.cli import options, terminal

if TYPE_CHECKING:
    from radii.runs.executors import Executor
    from radii.runs.step_results import VerifyResult
    from radii.runs.steps.verify_step import Verify
    from radii.runs.store import Run, Store

UNDECIDED, INTERRUPTED = 3, 130


def verify(
    network: Annotated[
        Path | None, typer.Argument(help="An ONNX file, or files by name: \"[('f', 'a.onnx'), ('g', 'b.onnx')]\".")
    ] = None,
    query: Annotated[Path | None, typer.Argument(help="A VNN-LIB property, plain or .gz.")] = None,
    seconds: options.OptionalSearchSeconds = None,
    nodes: Annotated[
        int | None, typer.Option(help="At most so many regions are bounded.", callback=options.between(1, options.MOST))
    ] = None,
    result: Annotated[Path | None, typer.Option(help="Write verdict and counterexample as VNN-COMP does.")] = None,
    proof: Annotated[Path | None, typer.Option(help="Write the proof of unsat, for `radii check`.")] = None,
    state: Annotated[
        Path | None, typer.Option(help="Keep an undecided search here, and continue it from here.")
    ] = None,
    instances: Annotated[Path | None, typer.Option(help="A CSV list of NETWORK,PROPERTY,SECONDS instead.")] = None,
    table: Annotated[
        Path, typer.Option(metavar="FILE", help="For a list: the CSV table of verdicts, continued if it exists.")
    ] = Path("verdicts.csv"),
    workers: options.Workers = None,
    executor: options.ExecutorName = "processes",
    address: options.Address = None,
    store: options.StoreFolder = None,
    seed: options.Seed = 0,
    json: options.Json = None,
) -> None:
    """Prove that no input meets a property (`unsat`), or find one that does (`sat`).

    Exit code 0: unsat. 1: sat (for a list: a verdict differs from the expected one). 3: not decided in time.
    Ctrl-C ends the search and says how far it came (130). The same command again finds the answer.
    """
    from radii.errors import InputError

    folder = options.open_store(store)
    if instances is not None:
        if network is not None:
            raise InputError("Give a network and a property, or --instances FILE.csv, not both.")
        if proof is not None or result is not None or state is not None:
            raise InputError("--proof, --result and --state are for one network and property, not for --instances.")
        from radii.runs.executors import executor_named

        _several(instances, table, folder, executor_named(executor, workers, address), seconds, nodes, seed, json)
        return
    if executor != "processes" or address is not None:
        raise InputError("--executor and --address spread the instances of a list: --instances FILE.csv.")
    if network is None or query is None:
        raise InputError("Give a network and a property: radii verify NET.onnx PROP.vnnlib.")
    from radii.files import check_writable
    from radii.untrusted_text import check_file

    for path in (result, proof, state):
        if path is not None:
            check_writable(path)
    from radii.verification.network_files import named_files

    named = named_files(network)
    for path in (*(named.values() if isinstance(named, dict) else (named,)), query):
        check_file(path)
    from radii.runs.component_specs import FileSpec
    from radii.runs.steps.verify_step import NetworkFile, Verify

    files = {"network": NetworkFile.of(network), "query": FileSpec.of(query)}
    step = Verify(**files, seconds=300.0 if seconds is None else seconds, nodes=nodes, seed=seed)
    _single(step, folder, result, proof, state, json)


def _single(
    step: Verify, store: Store, result: Path | None, proof: Path | None, state: Path | None, json: str | None
) -> None:
    from radii.files import write_whole
    from radii.runs.step_results import VerifyResult
    from radii.runs.steps.verify_step import InterruptedSearchError

    run, interrupted, known = None, False, store.is_done(step)
    with terminal.progress_shown():
        try:
            if proof is not None or state is not None:  # the search itself is asked for, not its answer alone
                answer = step.search(proof, state)
            else:
                run = store.ensure(step)
                answer = run.read(VerifyResult)
        except InterruptedSearchError as ended:
            answer, interrupted = ended.found, True
    console = terminal.show(json)
    console.print(_sentence(answer, interrupted))
    if run is not None:
        console.print(f"run {run.id}" + (terminal.FOUND if known else ""), soft_wrap=True)
    if proof is not None and answer.verdict == "unsat":
        console.print(f"Proof: {proof}; radii check {proof} checks it.", soft_wrap=True)
    if state is not None and not answer.is_decided:
        console.print(f"The open regions are kept in {state}; the same command continues.", soft_wrap=True)
    if answer.counterexample is not None and json is None and result is None and len(answer.counterexample) <= 20:
        console.print(answer.result_file().split("\n", 1)[1].rstrip())
    elif answer.counterexample is not None and answer.outputs is not None and json is None and result is None:
        outputs = ", ".join(answer.outputs[:20])
        console.print(f"Its {len(answer.counterexample)} numbers: --result FILE writes them. Outputs: {outputs}")
    if result is not None:
        write_whole(result, answer.result_file().encode())
    terminal.write_json(_content(step, answer, run, interrupted), json)
    code = {"unsat": 0, "sat": 1}.get(answer.verdict, INTERRUPTED if interrupted else UNDECIDED)
    if code:
        raise typer.Exit(code)


def _content(step: Verify, answer: VerifyResult, run: Run | None, interrupted: bool) -> dict[str, Any]:
    def numbers(decimals: tuple[str, ...] | None) -> list[float] | None:
        return None if decimals is None else [float(number) for number in decimals]

    return {
        "network": step.network.path,
        "property": step.query.path,
        "verdict": answer.verdict,
        "seconds": answer.seconds,
        "method": answer.method,
        "nodes": answer.nodes,
        "open": answer.open,
        "bound": answer.bound,
        "interrupted": interrupted,
        "counterexample": numbers(answer.counterexample),
        "outputs": numbers(answer.outputs),
        "run": None if run is None else run.id,
    }


def _sentence(answer: VerifyResult, interrupted: bool) -> str:
    spent = f"{answer.seconds:.1f} s, {answer.nodes} regions, by {answer.method}"
    if answer.verdict == "unsat":
        return (
            f"unsat: no input meets the property, proved for the float32 network of the file, node by node ({spent})."
        )
    if answer.verdict == "sat":
        return f"sat: an input meets the property, replayed in float32 against the file's decimals ({spent})."
    ended = "interrupted, " if interrupted else ""
    worst = (
        "" if answer.bound is None else f"; the worst open region is bounded by {answer.bound:.3g}, 0 would prove it"
    )
    return f"{answer.verdict}: {ended}{answer.open:.2%} of the search is left{worst} ({spent})."


def _several(
    instances: Path,
    table: Path,
    store: Store,
    executor: Executor,
    seconds: float | None,
    nodes: int | None,
    seed: int,
    json: str | None,
) -> None:
    from radii.files import check_writable
    from radii.runs.instances import ERROR, read_instances, read_table, row_key, run_instances
    from radii.tables import listing

    check_writable(table)
    read_table(table)  # a file of somebody else is refused before anything is verified
    entries = read_instances(instances, seconds)
    with terminal.progress_shown():
        found = run_instances(instances.resolve().parent, entries, table, store, executor, nodes=nodes, seed=seed)
    wanted = {entry.key for entry in entries}
    rows = [row for row in read_table(table) if row_key(row) in wanted]
    shown = [tuple(row[name] for name in ("onnx", "vnnlib", "verdict", "seconds", "nodes", "expected")) for row in rows]
    console = terminal.show(json)
    columns = ("network", "property", "verdict", "seconds", "regions", "expected")
    console.print(terminal.table(listing(str(instances), columns, shown)))
    wrong = [row for row in rows if row["verdict"] in ("sat", "unsat") and row["expected"] not in ("", row["verdict"])]
    for row in rows:
        if row["verdict"] == ERROR:
            console.print(row["method"], soft_wrap=True, markup=False)
    decided = sum(row["verdict"] in ("sat", "unsat") for row in rows)
    again = f" ({found} found, not computed again)" if found else ""
    console.print(f"{decided} of {len(rows)} decided, {len(wrong)} against the expected verdict{again}.")
    terminal.write_json({"instances": rows, "decided": decided, "wrong": len(wrong)}, json)
    if wrong or decided < len(rows):
        raise typer.Exit(1 if wrong else UNDECIDED)
