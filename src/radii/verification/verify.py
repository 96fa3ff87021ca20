"""Prove or refute a VNN-LIB property of a network; see :func:`verify`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from time import monotonic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radii.bounds.bound_engine import Engine
from radii.errors import InputError, checked
from radii.verification._counterexample_search import search
from radii.verification._goal import Goal, goals
from radii.verification._input_split import split_inputs
from radii.verification._relu_split import split_relus
from radii.verification._runnable_network import Deployed
from radii.verification._search_state import SearchState, branches_of, subject_digest
from radii.verification._vnnlib_cases import Layout
from radii.verification.answer import Answer, Limits, OutOfTimeError, Verdict
from radii.verification.network_files import Files, files_of
from radii.verification.proof import ProofRecord, write_proof
from radii.verification.result_file import result_text
from radii.verification.vnnlib import Query, read_query, read_text

FEW_INPUTS = 20  # inputs that move, up to which boxes of inputs are split
SOME_INPUTS = 128  # up to which this is tried first, if fewer inputs move than hidden values have no known sign
SHARE = 0.3  # of the limits, for that


@dataclass(frozen=True)
class Verification:
    """The answer to a property.

    ``sat``: ``counterexample`` lies in the bounds, and the float32 network's ``outputs`` there meet a case (for ONNX
    files both torch and onnxruntime compute them so). ``written`` gives both as decimals that meet the file's own
    decimals exactly, strict inequalities strictly; float32 rounds them to the counterexample. ``unsat``: no input
    does, proved for the float32 network with the sums of each layer in any order. ``nodes`` regions were bounded;
    ``open`` is the share of the search left, ``bound`` the least bound of an open region (0 would prove it).
    ``interrupted``: the user ended the search, and this is how far it came.
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
    written: tuple[list[str], list[str]] | None = None
    layout: Layout | None = field(default=None, repr=False)

    def text(self) -> str:
        """The result file that competitions ask for; see :func:`result_text`."""
        return result_text(self.verdict, self.written, self.tensors)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors that a property of VNN-LIB 2.0 declares, as :func:`result_text` takes them."""
        return () if self.layout is None else self.layout.tensors()


@checked
def verify(
    network: Files | nn.Module,
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
        network: an ONNX file, ONNX files by the names that the property gives their networks, or a torch module on
            inputs whose shape a :class:`GraphNetwork` knows.
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
    try:
        question = query if isinstance(query, Query) else read_query(Path(query), limits.check)
    except OutOfTimeError:
        return Verification("timeout", monotonic() - began, "reading the property", open=1.0)
    if proof is not None:
        _check_provable(network, query, question)
    if state is not None and (proof is not None or not isinstance(network, Path | str) or isinstance(query, Query)):
        raise InputError("A state is kept for an ONNX file and a VNN-LIB file, without a proof.")
    owner = "" if state is None else _subject(network, query)
    before = SearchState.read(Path(state), owner) if state is not None and Path(state).exists() else None
    running = _deployed(network, question)
    running.check_fits(question)
    method, total, answer = "no case", 0, Answer("unsat", open=0.0)
    records = list[tuple[Goal, ProofRecord]]()
    number = 0
    for number, goal in enumerate(goals(question)):
        if before is not None and number < before.goal:
            continue  # proved by the search that is continued
        records.append((goal, ProofRecord()))
        start = before if before is not None and number == before.goal else None
        method, answer = decided(running, goal, limits, seed, None if proof is None else records[-1][1], start, True)
        total += answer.nodes
        if answer.verdict != "unsat":
            break
    if state is not None:
        _keep_state(Path(state), owner, number, total + (0 if before is None else before.nodes), answer)
    if proof is not None and answer.verdict == "unsat":
        _write(Path(proof), network, query, records)
    point = answer.counterexample
    outputs = None if point is None else running.outputs(point[None])[0]
    found = Verification(
        answer.verdict,
        monotonic() - began,
        method,
        total,
        answer.open,
        bound=answer.bound,
        interrupted=answer.interrupted,
        layout=question.layout,
    )
    return found if point is None or outputs is None else _with_counterexample(found, goal, point, outputs)


def _deployed(network: Files | nn.Module, query: Query) -> Deployed:
    """The network of ``query`` as it runs: ``network`` itself, or a joined one where the property needs it."""
    if isinstance(network, nn.Module):
        if not query.layout.is_plain:
            raise InputError("A property of several networks, inputs or outputs, or with ties, needs ONNX files.")
        return Deployed.of(network)
    files = files_of(network, query.layout)
    if query.layout.is_plain:
        (path,) = files.values()
        return Deployed.of(path)
    from radii.verification._joined_network import joined  # other properties need nothing of it

    return joined(files, query)


def _with_counterexample(found: Verification, goal: Goal, point: Tensor, outputs: Tensor) -> Verification:
    """The answer with the declared inputs and outputs of the point that was found."""
    assert found.layout is not None
    written = goal.written(point, outputs)
    inputs, answers = found.layout.declared(point.tolist(), outputs.tolist())
    return replace(
        found,
        counterexample=np.array(inputs, dtype=np.float32),
        outputs=np.array(answers, dtype=np.float32),
        written=None if written is None else found.layout.declared(*written),
    )


def _subject(network: Files | nn.Module, query: Path | str | Query) -> str:
    assert isinstance(network, Path | str)
    assert not isinstance(query, Query)
    return subject_digest(Path(network), read_text(Path(query)), version("radii"))


def _keep_state(path: Path, owner: str, goal: int, nodes: int, answer: Answer) -> None:
    """Write the open regions of an undecided search; the file of a decided one is removed."""
    if answer.verdict in ("sat", "unsat"):
        path.unlink(missing_ok=True)
    elif answer.left is not None:
        kind, arrays = answer.left()
        SearchState(goal, kind, nodes, arrays).write(path, owner)


def _check_provable(network: Files | nn.Module, query: Path | str | Query, question: Query) -> None:
    """Refuse a proof that its checker could not read, before anything is searched."""
    if not isinstance(network, Path | str) or isinstance(query, Query):
        raise InputError("A proof is written for an ONNX file and a VNN-LIB file.")
    if not question.layout.is_plain:
        raise InputError("A proof is written for one network of one input and one output, without ties between them.")
    from radii.verification.checker.plain_network import ProofError, read_plain

    try:
        read_plain(Path(network).read_bytes())
    except (OSError, ProofError) as error:
        raise InputError(f"No proof of {network} can be written: {error}") from error


def _write(
    path: Path, network: Files | nn.Module, query: Path | str | Query, records: list[tuple[Goal, ProofRecord]]
) -> None:
    assert isinstance(network, Path | str)
    assert not isinstance(query, Query)
    from radii.verification.checker.plain_network import ProofError

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
        seed: of the search; None leaves the search out.
        integers: let an integer program look for an input of a small network, which takes up to 30 seconds.
    """
    try:
        return _decided(deployed, goal, limits, seed, record, state, integers)
    except OutOfTimeError:
        return "first bounds", Answer("timeout")


def _decided(
    deployed: Deployed,
    goal: Goal,
    limits: Limits,
    seed: int | None,
    record: ProofRecord | None,
    state: SearchState | None,
    integers: bool,
) -> tuple[str, Answer]:
    met = None if seed is None or state is not None else search(goal, deployed, limits.check, seed)
    if met is not None:
        return "search", Answer("sat", met, 0, 1.0)
    moving = int((goal.upper > goal.lower).sum())
    few = goal.radius is None and moving <= FEW_INPUTS
    if goal.radius is None and FEW_INPUTS < moving <= SOME_INPUTS and record is None and state is None:
        with torch.no_grad():
            some = limits.part(SHARE)
            engine = deployed.engine(goal, torch.float32, limits.check, keep_forms=True).watched(some.check)
            fewer = moving < _open_signs(engine, goal)
            answer = split_inputs(engine, goal, deployed, some) if fewer else Answer("unknown")
        if answer.verdict in ("sat", "unsat") or answer.interrupted:
            return "input splitting", answer
    spent, start = 0, None if state is None else state.arrays
    for dtype in (torch.float32, torch.float64) if record is None else (torch.float64,):
        engine = deployed.engine(goal, dtype, limits.check, keep_forms=few)
        with torch.no_grad():
            if few:
                answer = split_inputs(engine, goal, deployed, limits, None if record is None else record.boxes, start)
            else:
                leaves = None if record is None else record.leaves
                open_ = None if start is None else branches_of(start)
                searched = not integers or open_ is not None
                answer = split_relus(engine, goal, deployed, limits, leaves, searched, open_)
        spent += answer.nodes
        if answer.verdict != "unknown" or answer.interrupted or spent >= limits.nodes:
            break
        start = None if answer.left is None else answer.left()[1]
    return "input splitting" if few else "ReLU splitting", replace(answer, nodes=spent)


def _open_signs(engine: Engine, goal: Goal) -> int:
    """How many values before an activation may be below and above 0 somewhere: so many ReLUs may be split."""
    known = engine.bounds(goal.domain())
    return sum(int(((known.lower[value] < 0) & (known.upper[value] > 0)).any(0).sum()) for value in engine.bent)
