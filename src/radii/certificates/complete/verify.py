"""Prove or refute a VNN-LIB property of a network; see :func:`verify`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radii.certificates.bounds.bound_engine import Engine
from radii.certificates.bounds.network import build
from radii.certificates.bounds.program import compiled
from radii.certificates.bounds.rows import Domain
from radii.certificates.bounds.tracing import example, trace
from radii.certificates.checker.plain_network import ProofError, read_plain
from radii.certificates.complete.answer import Answer, Limits, Verdict
from radii.certificates.complete.goal import Goal, goals
from radii.certificates.complete.input_split import split_inputs
from radii.certificates.complete.proof import ProofRecord, write_proof
from radii.certificates.complete.query import Query, read_query, read_text
from radii.certificates.complete.relu_split import split_relus
from radii.certificates.complete.search import search
from radii.certificates.complete.tournament import without_pools
from radii.errors import InputError, checked
from radii.models.classifier import frozen
from radii.models.graph import GraphNetwork
from radii.models.io.foreign import OnnxRuntime
from radii.models.onnx_reader import load_onnx

FEW_INPUTS = 20  # inputs that move, up to which boxes of inputs are split
SOME_INPUTS = 40  # up to which this is tried first
SHARE = 0.1  # of the limits, for that
CHECKS = 6  # random inputs on which bounds and network must agree


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
) -> Verification:
    """Prove that no input meets a property's constraints, or find one that does.

    Args:
        network: an ONNX file, or a torch module on inputs whose shape a :class:`GraphNetwork` knows.
        query: a VNN-LIB file (may be gzipped), or a :class:`Query` that :func:`read_query` returned.
        seconds: the time limit; default 300.
        nodes: the largest number of regions to bound; default: no limit.
        seed: seed of the search for counterexamples; default 0.
        proof: a file for the proof of ``unsat``, which :func:`radii.check_proof` checks; both arguments must be files.

    Returns:
        The verdict, and for ``sat`` an input with its outputs.

    Raises:
        InputError: a file or an operator is not understood, or network and property do not fit each other.
    """
    start = monotonic()
    limits = Limits.of_seconds(seconds, nodes)
    question = query if isinstance(query, Query) else read_query(Path(query))
    if proof is not None:
        _check_provable(network, query)
    deployed = Deployed.of(network)
    deployed.check_fits(question)
    method, total, answer = "no case", 0, Answer("unsat", open=0.0)
    records = list[tuple[Goal, ProofRecord]]()
    for goal in goals(question):
        records.append((goal, ProofRecord()))
        method, answer = decided(deployed, goal, limits, seed, None if proof is None else records[-1][1])
        total += answer.nodes
        if answer.verdict != "unsat":
            break
    if proof is not None and answer.verdict == "unsat":
        _write(Path(proof), network, query, records)
    point = answer.counterexample
    return Verification(
        answer.verdict,
        monotonic() - start,
        method,
        total,
        answer.open,
        None if point is None else point.numpy(),
        None if point is None else deployed.outputs(point[None])[0].numpy(),
        answer.bound,
        answer.interrupted,
    )


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


@dataclass(frozen=True)
class Deployed:
    """A network as it runs: in torch with gradients, and for ONNX files by onnxruntime too."""

    module: nn.Module
    input_shape: tuple[int, ...]
    runtime: OnnxRuntime | None = None
    engines: dict[tuple[torch.dtype, bool], Engine] = field(default_factory=dict)  # that were made

    @classmethod
    def of(cls, network: Path | str | nn.Module, input_shape: tuple[int, ...] | None = None) -> Deployed:
        """A network from a file, a graph, or any module whose input shape is given."""
        if isinstance(network, nn.Module):
            shape = network.graph.input_shape if isinstance(network, GraphNetwork) else input_shape
            if shape is None:
                raise InputError("The shape of the network's inputs must be given.")
            return cls(network, shape)
        module = load_onnx(Path(network))
        return cls(module, module.graph.input_shape, OnnxRuntime(Path(network)))

    def run(self, x: Tensor) -> Tensor:
        """Outputs [n, outputs] of flat float32 inputs [n, inputs] in torch, with gradients."""
        with frozen(self.module):
            return self.module(x.clone().view(len(x), *self.input_shape)).flatten(1)

    def outputs(self, x: Tensor) -> Tensor:
        """Outputs as deployed: by onnxruntime for ONNX files."""
        if self.runtime is not None:
            return self.runtime(x)
        with torch.no_grad():
            return self.run(x)

    def check_fits(self, query: Query) -> None:
        """Refuse a property of another network."""
        inputs = int(np.prod(self.input_shape))
        outputs = self.run(torch.zeros(1, inputs)).shape[1]
        if (inputs, outputs) != (query.inputs, query.outputs):
            raise InputError(
                f"The property has {query.inputs} inputs and {query.outputs} outputs, "
                f"the network {inputs} and {outputs}."
            )

    def engine(self, goal: Goal, dtype: torch.dtype, keep_forms: bool = False) -> Engine:
        """Bounds of this network, after they agreed with it on random inputs of the first goal's box."""
        if (dtype, keep_forms) in self.engines:
            return self.engines[dtype, keep_forms]
        if example(self.module).dtype == torch.float64:
            raise InputError("The network must be float32: model.float().")
        with torch.no_grad():
            traced = trace(self.module, self.input_shape)
            engine = Engine(compiled(without_pools(build(traced, dtype)), dtype), keep_forms=keep_forms)
            self._check(engine, goal)
        self.engines[dtype, keep_forms] = engine
        return engine

    def _check(self, engine: Engine, goal: Goal) -> None:
        """Bounds at single points hold what torch and onnxruntime compute there, and no more than rounding."""
        low, high = goal.inside()
        draws = torch.rand(CHECKS, len(low), generator=torch.Generator().manual_seed(0))
        x = (low + (high - low) * draws).clamp(low, high)
        known = engine.bounds(Domain(x.double(), x.double()))
        width = engine.program.sizes[engine.program.output]
        rows = torch.eye(width, dtype=engine.program.dtype).repeat(CHECKS, 1)
        dom = torch.arange(CHECKS).repeat_interleave(width)
        least = engine.lower(known, engine.program.output, rows, dom).view(CHECKS, width)
        most = -engine.lower(known, engine.program.output, -rows, dom).view(CHECKS, width)
        results = [self.run(x)] if self.runtime is None else [self.run(x), self.runtime(x)]
        for outputs in results:
            if not bool(((outputs >= least) & (outputs <= most)).all()):
                raise InputError("The network cannot be verified: bounds of its layers disagree with what it computes.")


def decided(
    deployed: Deployed, goal: Goal, limits: Limits, seed: int | None, record: ProofRecord | None = None
) -> tuple[str, Answer]:
    """Search for a counterexample, then split inputs where few move, and ReLUs elsewhere.

    Args:
        deployed: the network.
        goal: what is to be proved.
        limits: of time and regions.
        seed: of the search; None leaves the search out.
        record: is filled with the proof of ``unsat``.

    Returns:
        The method that answered, and its answer.
    """
    met = None if seed is None else search(goal, deployed, seed)
    if met is not None:
        return "search", Answer("sat", met, 0, 1.0)
    moving = int((goal.upper > goal.lower).sum())
    few = goal.radius is None and moving <= FEW_INPUTS
    if goal.radius is None and FEW_INPUTS < moving <= SOME_INPUTS and record is None:
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
                answer = split_inputs(engine, goal, deployed, limits, None if record is None else record.boxes)
            else:
                leaves = None if record is None else record.leaves
                answer = split_relus(engine, goal, deployed, limits, leaves, searched=seed is None or spent > 0)
        spent += answer.nodes
        if answer.verdict != "unknown" or answer.interrupted or spent >= limits.nodes:
            break
    return "input splitting" if few else "ReLU splitting", replace(answer, nodes=spent)
