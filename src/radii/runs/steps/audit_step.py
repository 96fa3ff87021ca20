"""The audit step: what robustness the data itself allows, with everything that tables and charts need."""

from __future__ import annotations

import logging
import math
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from radii.data.dataset import Data
from radii.environment import search_threads
from radii.errors import InputError
from radii.geometry.astuteness import Astuteness
from radii.geometry.audit import Audit, DataShape, audit
from radii.geometry.audit_memory import AuditSize, planned_bytes
from radii.geometry.dimension import Dimension
from radii.geometry.equal_inputs import EqualInputs
from radii.geometry.interclass import InterclassDistance
from radii.geometry.neighbor_curve import NeighborCurve
from radii.geometry.search.engine import Work
from radii.geometry.separation import Separation
from radii.geometry.spectrum import Spectrum
from radii.models.io.tensor_files import read_tensors, write_tensors
from radii.runs.inputs import DataSpec
from radii.runs.step import Effort, Step
from radii.runs.store import Run, Workspace
from radii.tables import Estimate
from radii.threat import Norm

DISTANCES, DETAILS = "distances.safetensors", "audit.safetensors"
LARGE = 10_000  # training points from which finished blocks are kept, so that a killed audit continues


class AuditStep(Step):
    """What the data itself allows: separation of the classes, label noise, the nearest-neighbor rule."""

    kind: ClassVar[str] = "audit"
    neutral: ClassVar[dict[str, Any]] = {"deep": False}

    data: DataSpec
    norm: Norm = "l2"
    epsilon: float = Field(0.5, gt=0)
    deep: bool = Field(False, description="measure the data's shape, too: dimension, spectrum, neighbor curve")

    def describe(self) -> str:
        """``audit mnist in linf``."""
        return f"audit {self.data.source} in {self.norm}"

    def effort(self) -> Effort:
        """One audit of this data in this norm."""
        level = (self.data.source, self.norm)
        return Effort.of("audit", (*level, "deep") if self.deep else level)

    def perform(self, work: Workspace) -> dict[str, Any]:
        """Audit both splits; distances of all points and the details are saved beside the figures."""
        data = self.data.load()
        _warn_of_memory(data)
        blocks = work.folder / "blocks"
        search = Work(search_threads(), blocks if len(data.train) >= LARGE else None)
        result = audit(data, norm=self.norm, epsilon=self.epsilon, deep=self.deep, work=search)
        shutil.rmtree(blocks, ignore_errors=True)
        splits = {"train": result.train, "test": result.test}
        distances = {name: torch.from_numpy(split.distance) for name, split in splits.items() if split is not None}
        write_tensors(work.folder / DISTANCES, distances, durable=False)
        save_audit(result, work.folder / DETAILS)
        return result.summary()


def _warn_of_memory(data: Data) -> None:
    """Say it before hours of work where the audit plans more memory than is free."""
    from radii.runs.executors.memory_limits import available

    shape = math.prod(data.shape)
    planned = planned_bytes(AuditSize(len(data.train), len(data.test), shape, data.train.x.itemsize), search_threads())
    if planned > available():
        logging.getLogger("radii").warning(
            f"The audit of {data.name} plans {planned / 1e9:.1f} GB of memory and {available() / 1e9:.1f} GB are free: "
            f"take fewer points ({data.name}+subset:1000) or, of images, smaller ones ({data.name}+resize:64)."
        )


def save_audit(result: Audit, path: Path) -> None:
    """Write the audit ``result`` to ``path``: arrays as tensors, the rest as JSON facts beside them."""
    arrays: dict[str, NDArray[Any]] = {"train": result.train.distance, "train.neighbor": result.train.neighbor}
    if result.test is not None:
        arrays |= {"test": result.test.distance, "test.neighbor": result.test.neighbor}
    if result.rule is not None:
        arrays |= {"rule.same": result.rule.same, "rule.other": result.rule.other}
    if result.volume is not None:
        arrays["volume"] = result.volume
    facts: dict[str, Any] = {
        "name": result.name,
        "norm": result.norm,
        "epsilon": result.epsilon,
        "dimensions": result.dimensions,
        "classes": result.classes,
        "equal": [asdict(group) for group in result.equal],
    }
    if (shape := result.shape) is not None:
        arrays["spectrum"] = shape.spectrum.variance
        facts["intrinsic"] = [asdict(dimension) for dimension in shape.dimensions]
        facts["interclass"] = None if shape.interclass is None else asdict(shape.interclass)
        if shape.curve is not None:
            arrays["curve"] = shape.curve.distance
            facts["curve"] = {"sizes": shape.curve.sizes, "norm": shape.curve.norm}
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    write_tensors(path, tensors, facts, durable=False)


def load_audit(run: Run) -> Audit:
    """The audit of a run.

    Raises:
        InputError: the run was made by a version of radii that did not save the details.
    """
    path = run.folder / DETAILS
    if not path.is_file():
        raise InputError(
            f"The run {run.id} was made by an older version of radii, which kept no neighbors; "
            f"`radii runs delete {run.id}` lets the audit be computed again."
        )
    tensors, facts = read_tensors(path)
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    norm = facts["norm"]
    return Audit(
        name=facts["name"],
        norm=norm,
        epsilon=facts["epsilon"],
        dimensions=facts["dimensions"],
        classes=tuple(facts["classes"]),
        train=Separation(arrays["train"], arrays["train.neighbor"], norm, within=True),
        test=Separation(arrays["test"], arrays["test.neighbor"], norm, within=False) if "test" in arrays else None,
        rule=Astuteness(arrays["rule.same"], arrays["rule.other"]) if "rule.same" in arrays else None,
        equal=tuple(EqualInputs(tuple(each["indices"]), tuple(each["labels"])) for each in facts["equal"]),
        volume=arrays.get("volume"),
        shape=_shape(facts, arrays) if "spectrum" in arrays else None,
    )


def _shape(facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> DataShape:
    curve, interclass = facts.get("curve"), facts["interclass"]
    return DataShape(
        None if curve is None else NeighborCurve(tuple(curve["sizes"]), arrays["curve"], curve["norm"]),
        tuple(_dimension(content) for content in facts["intrinsic"]),
        None if interclass is None else InterclassDistance(*(tuple(values) for values in interclass.values())),
        Spectrum(arrays["spectrum"]),
    )


def _dimension(content: dict[str, Any]) -> Dimension:
    return Dimension(**(content | {"estimate": Estimate(**content["estimate"])}))
