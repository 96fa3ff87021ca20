"""Prove or refute a VNN-LIB property of a network; see :func:`verify`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from time import monotonic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from radii.certificates.checker.plain_network import ProofError, read_plain
from radii.certificates.complete.answer import Answer, Limits, Verdict
from radii.certificates.complete.deployed import Deployed
from radii.certificates.complete.goal import Goal, goals
from radii.certificates.complete.input_split import split_inputs
from radii.certificates.complete.proof import ProofRecord, write_proof
from radii.certificates.complete.query import Query, read_query, read_text
from radii.certificates.complete.relu_split import split_relus
from radii.certificates.complete.search import search
from radii.certificates.complete.search_state import SearchState, branches_of, subject_digest
from radii.errors import InputError, checked, reason

FEW_INPUTS = 20  # inputs that move, up to which boxes of inputs are split
SOME_INPUTS = 40  # up to which this is tried first
SHARE = 0.1  # of the limits, for that


@dataclass(frozen=True)
class Verification:
    """The answer to a property.

    ``sat``: ``counterexample`` lies in the bounds, and the float32 network's ``outputs`` there meet a case (for ONNX
    files both torch and onnxruntime compute them so). ``unsat``: no input does, proved for the float32 network with
    the sums of each layer in any order. ``nodes`` regions were bounded; ``open`` is the share of the search left,
    ``bound`` the least bound of an open region (0 would prove it). ``interrupted``: the user ended the search, and
    this is how far it came.
    """

    verdict: Verdict
    seconds: float
    method: str
    nodes: int = 0
    open: float = 0.0
    counterexample: NDArray[np.float32] | None = None
    outputs: NDArray[np.float32] | None = None
    bound: float | None = None
    interrupted: bool = False


@checked
def verify(
    network: Path | str | nn.Module,
    query: Path | str | Query,
    *,
    seconds: float = 300.0,
    nodes: int = 1 << 62,
    seed: int = 0,
    proof: Path | str | None = None,
    state: Path | str | None = None,
) -> Verification:
    """Prove that no input meets a property's constraints, or find one that does.

    Args:
        network: an ONNX file, or a torch module on inputs whose shape a :class:`GraphNetwork` knows.
        query: a VNN-LIB file (may be gzipped), or a :class:`Query` that :func:`read_query` returned.
        seconds: the time limit; default 300.
        nodes: the largest number of regions to bound; default: no limit.
        seed: seed of the search for counterexamples; default 0.
        proof: a file for the proof of ``unsat``, which :func:`radii.check_proof` checks; both arguments must be files.
        state: a file that keeps the open regions of an undecided search; if it exists, the search continues from it.

    Returns:
        The verdict, and for ``sat`` an input with its outputs.

    Raises:
        InputError: a file or an operator is not understood, or network and property do not fit each other.
    """
    began = monotonic()
    limits = Limits.of_seconds(seconds, nodes)
    question = query if isinstance(query, Query) else read_query(Path(query))
    if proof is not None:
        _check_provable(network, query)
    if state is not None and (proof is not None or isinstance(network, nn.Module) or isinstance(query, Query)):
        raise InputError("A state is kept for an ONNX file and a VNN-LIB file, without a proof.")
    owner = "" if state is None else _subject(network, query)
    before = SearchState.read(Path(state), owner) if state is not None and Path(state).exists() else None
    deployed = Deployed.of(network)
    deployed.check_fits(question)
    method, total, answer = "no case", 0, Answer("unsat", open=0.0)
    records = list[tuple[Goal, ProofRecord]]()
    number = 0
    for number, goal in enumerate(goals(question)):
        if before is not None and number < before.goal:
            continue  # proved by the search that is continued
        records.append((goal, ProofRecord()))
        start = before if before is not None and number == before.goal else None
        method, answer = decided(deployed, goal, limits, seed, None if proof is None else records[-1][1], start, True)
        total += answer.nodes
        if answer.verdict != "unsat":
            break
    if state is not None:
        _keep_state(Path(state), owner, number, total + (0 if before is None else before.nodes), answer)
    if proof is not None and answer.verdict == "unsat":
        _write(Path(proof), network, query, records)
    point = answer.counterexample
    return Verification(
        answer.verdict,
        monotonic() - began,
        method,
        total,
        answer.open,
        None if point is None else point.numpy(),
        None if point is None else deployed.outputs(point[None])[0].numpy(),
        answer.bound,
        answer.interrupted,
    )


def _subject(network: Path | str | nn.Module, query: Path | str | Query) -> str:
    assert not isinstance(network, nn.Module)
    assert not isinstance(query, Query)
    try:
        return subject_digest(Path(network).read_bytes(), read_text(Path(query)).encode(), version("radii"))
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {reason(error)}.") from error


def _keep_state(path: Path, owner: str, goal: int, nodes: int, answer: Answer) -> None:
    """Write the open regions of an undecided search; the file of a decided one is removed."""
    if answer.verdict in ("sat", "unsat"):
        path.unlink(missing_ok=True)
    elif answer.left is not None:
        kind, arrays = answer.left()
        SearchState(goal, kind, nodes, arrays).write(path, owner)


def _check_provable(network: Path | str | nn.Module, query: Path | str | Query) -> None:
    """Refuse a proof that its checker could not read, before anything is searched."""
    if isinstance(network, nn.Module) or isinstance(query, Query):
        raise InputError("A proof is written for an ONNX file and a VNN-LIB file.")
    try:
        read_plain(Path(network).read_bytes())
    except (OSError, ProofError) as error:
        raise InputError(f"No proof of {network} can be written: {error}") from error


def _write(
    path: Path, network: Path | str | nn.Module, query: Path | str | Query, records: list[tuple[Goal, ProofRecord]]
) -> None:
    assert not isinstance(network, nn.Module)
    assert not isinstance(query, Query)
    try:
        write_proof(path, Path(network).read_bytes(), read_text(Path(query)), records)
    except ProofError as error:
        raise InputError(f"unsat was found, but no proof of it is written: {error}") from error


def decided(
    deployed: Deployed,
    goal: Goal,
    limits: Limits,
    seed: int | None,
    record: ProofRecord | None = None,
    state: SearchState | None = None,
    integers: bool = False,
) -> tuple[str, Answer]:
    """Search for a counterexample, then split inputs where few move, and ReLUs elsewhere.

    Args:
        deployed: the network.
        goal: what is to be proved.
        limits: of time and regions.
        seed: of the search; None leaves the search out.
        record: is filled with the proof of ``unsat``.
        state: what an earlier search of this goal left open.
        integers: let an integer program look for an input of a small network, which takes up to 30 seconds.

    Returns:
        The method that answered, and its answer.
    """
    met = None if seed is None or state is not None else search(goal, deployed, seed)
    if met is not None:
        return "search", Answer("sat", met, 0, 1.0)
    moving = int((goal.upper > goal.lower).sum())
    few = goal.radius is None and moving <= FEW_INPUTS
    if goal.radius is None and FEW_INPUTS < moving <= SOME_INPUTS and record is None and state is None:
        with torch.no_grad():
            engine = deployed.engine(goal, torch.float32, keep_forms=True)
            answer = split_inputs(engine, goal, deployed, limits.part(SHARE))
        if answer.verdict in ("sat", "unsat") or answer.interrupted:
            return "input splitting", answer
    spent = 0
    for dtype in (torch.float32, torch.float64) if record is None else (torch.float64,):
        engine = deployed.engine(goal, dtype, keep_forms=few)
        with torch.no_grad():
            if few:
                boxes = state.arrays if state is not None and state.kind == "boxes" and spent == 0 else None
                answer = split_inputs(engine, goal, deployed, limits, None if record is None else record.boxes, boxes)
            else:
                leaves = None if record is None else record.leaves
                open_ = (
                    branches_of(state.arrays) if state is not None and state.kind == "signs" and spent == 0 else None
                )
                searched = not integers or spent > 0 or open_ is not None
                answer = split_relus(engine, goal, deployed, limits, leaves, searched, open_)
        spent += answer.nodes
        if answer.verdict != "unknown" or answer.interrupted or spent >= limits.nodes:
            break
    return "input splitting" if few else "ReLU splitting", replace(answer, nodes=spent)
