"""The step of complete verification: does an input of a network meet a VNN-LIB property?

This module imports no torch: an answer that a store has is read at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from radii.runs.component_specs import FileSpec
from radii.runs.step import Step
from radii.runs.step_results import VerifyResult
from radii.runs.store import Workspace
from radii.verification.network_files import networks_digest


class InterruptedSearchError(KeyboardInterrupt):
    """The user ended a search; ``found`` says how far it came. No run is made of it."""

    def __init__(self, found: VerifyResult) -> None:
        self.found = found
        super().__init__()


class NetworkFile(FileSpec):
    """An ONNX file with the files of its weights, or several by name: ``[('f', 'a.onnx'), ('g', 'b.onnx')]``."""

    @classmethod
    def digest(cls, path: Path) -> str:
        """The digest of the content."""
        return networks_digest(path)


class Verify(Step):
    """A property of a network, proved or refuted within limits."""

    kind: ClassVar[str] = "verify"
    Result: ClassVar[type[VerifyResult]] = VerifyResult

    network: NetworkFile
    query: FileSpec = Field(description="a VNN-LIB file, plain or gzipped")
    seconds: float = Field(300.0, gt=0, description="the time limit")
    nodes: int | None = Field(None, ge=1, description="the most regions to bound; no limit by default")
    seed: int = 0

    def describe(self) -> str:
        """``verify net.onnx: prop_3.vnnlib``."""
        return f"verify {Path(self.network.path).name}: {Path(self.query.path).name}"

    def perform(self, work: Workspace) -> VerifyResult:  # noqa: ARG002
        """Search until the property is decided or a limit is reached."""
        return self.search()

    def search(self, proof: Path | None = None, state: Path | None = None) -> VerifyResult:
        """As :meth:`perform`; ``proof`` and ``state`` are files as of :func:`radii.verify`."""
        from radii.verification.verify import verify

        answer = verify(
            self.network.unchanged(),
            self.query.unchanged(),
            seconds=self.seconds,
            nodes=self.nodes or 1 << 62,
            seed=self.seed,
            proof=proof,
            state=state,
        )
        point, outputs = (None, None) if answer.written is None else map(tuple, answer.written)
        found = VerifyResult(
            verdict=answer.verdict,
            seconds=answer.seconds,
            method=answer.method,
            nodes=answer.nodes,
            open=answer.open,
            bound=answer.bound,
            counterexample=point,
            outputs=outputs,
            tensors=() if point is None else answer.tensors,
        )
        if answer.interrupted:
            raise InterruptedSearchError(found)
        return found
