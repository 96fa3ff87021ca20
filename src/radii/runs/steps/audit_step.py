"""The audit step: what robustness the data itself allows, with everything that tables and charts need."""

from __future__ import annotations

import logging
import math
import shutil
from typing import Any, ClassVar, Literal

from pydantic import Field

from radii.data.dataset import Data
from radii.data.threat_on_data import ball_on
from radii.errors import InputError
from radii.geometry.audit import Audit, AuditSize, audit, planned_bytes
from radii.geometry.search.engine import Work
from radii.process import search_threads
from radii.runs.audit_record import AuditResult
from radii.runs.component_specs import DataSpec
from radii.runs.record_files import read_record, write_record
from radii.runs.step import Step
from radii.runs.store import Run, Workspace
from radii.threat import Ball, Norm

DETAILS = "audit.safetensors"  # the Audit itself, with the distances of all points
LARGE = 10_000  # training points from which finished blocks are kept, so that a killed audit continues


class AuditStep(Step):
    """What the data itself allows: separation of the classes, label noise, the nearest-neighbor rule."""

    kind: ClassVar[str] = "audit"
    Result: ClassVar[type[AuditResult]] = AuditResult
    omit_if_default: ClassVar[dict[str, Any]] = {"deep": False, "unit": ""}

    data: DataSpec
    norm: Norm = "l2"
    epsilon: float = Field(0.5, gt=0)
    unit: Literal["", "sd"] = Field("", description="sd: epsilon counts standard deviations of the training columns")
    deep: bool = Field(False, description="measure the data's shape, too: dimension, spectrum, neighbor curve")

    def describe(self) -> str:
        """``audit mnist in linf``."""
        return f"audit {self.data.source} in {self.norm}"

    def setup(self) -> str:
        """``mnist in linf, epsilon 0.1``."""
        return f"{self.data.source} in {self.norm}, epsilon {self.epsilon:g}"

    def perform(self, work: Workspace) -> AuditResult:
        """Audit both splits; the whole audit is saved beside the figures."""
        data = self.data.load()
        ball = ball_on(Ball(self.norm, self.epsilon, unit=self.unit), data)
        _warn_of_memory(data)
        blocks = work.folder / "blocks"
        search = Work(search_threads(), blocks if len(data.train) >= LARGE else None)
        result = audit(data, norm=self.norm, epsilon=self.epsilon, scale=ball.scale, deep=self.deep, work=search)
        shutil.rmtree(blocks, ignore_errors=True)
        write_record(work.folder / DETAILS, result)
        return AuditResult.model_validate(result.summary())


def _warn_of_memory(data: Data) -> None:
    """Say it before hours of work where the audit plans more memory than is free."""
    from radii.runs.executors._memory_limits import available

    shape = math.prod(data.shape)
    planned = planned_bytes(AuditSize(len(data.train), len(data.test), shape, data.train.x.itemsize), search_threads())
    if planned > available():
        logging.getLogger("radii").warning(
            f"The audit of {data.name} plans {planned / 1e9:.1f} GB of memory and {available() / 1e9:.1f} GB are free: "
            f"take fewer points ({data.name}+subset:1000) or, of images, smaller ones ({data.name}+resize:64)."
        )


def load_audit(run: Run) -> Audit:
    """The audit of a run."""
    try:
        return read_record(run.folder / DETAILS, Audit)
    except InputError as error:
        raise InputError(
            f"The run {run.id} was made by an older version of radii; "
            f"`radii runs delete {run.id}` lets the audit be computed again."
        ) from error
