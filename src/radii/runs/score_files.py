"""The table of an evaluation's points on disk: written by the step, read by reports."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from radii.attacks.alarms import Alarm
from radii.attacks.suite import SurvivorBound
from radii.errors import InputError
from radii.evaluation.scores import PointTable, Scores
from radii.models.io.tensor_files import read_tensors, write_tensors
from radii.runs.store import Run
from radii.threat import Ball

ARRAYS = (
    "label",
    "prediction",
    "adversarial_prediction",
    "proved_radius",
    "proved",
    "changed",
    "changed_radius",
    "queries",
)


def save_scores(scores: Scores, rows: NDArray[np.int64], path: Path) -> None:
    """Write the arrays of all points, the worst inputs of the attacks and the facts about the evaluation.

    Args:
        scores: the scores.
        rows: which rows of the split the points are.
        path: the safetensors file.
    """
    tensors = {name: torch.from_numpy(np.ascontiguousarray(getattr(scores.points, name))) for name in ARRAYS}
    tensors |= {"rows": torch.from_numpy(rows), "x_adv": scores.x_adv.cpu().contiguous()}
    meta = {
        "ball": scores.ball.model_dump(mode="json"),
        "suite": scores.suite,
        "seed": scores.seed,
        "broken_by": scores.points.broken_by,
        "passes": scores.passes,
        "certificate_method": scores.certificate_method,
        "notes": scores.notes,
        "alarms": [asdict(alarm) for alarm in scores.alarms],
        "survivor_bound": None if scores.survivor_bound is None else asdict(scores.survivor_bound),
        "local_lipschitz": scores.local_lipschitz,
    }
    write_tensors(path, tensors, meta, durable=False)


def load_scores(run: Run) -> tuple[Scores, NDArray[np.int64]]:
    """The scores of an evaluation run and the rows of the split that they are about.

    Raises:
        InputError: the file is not a table of points.
    """
    path = run.folder / "points.safetensors"
    tensors, meta = read_tensors(path)
    if missing := [name for name in (*ARRAYS, "rows", "x_adv") if name not in tensors]:
        raise InputError(f"{path} is not a table of points: {missing[0]} is missing.")
    arrays = {name: tensors[name].numpy() for name in ARRAYS}
    bound = meta.get("survivor_bound", meta.get("audit"))  # its former name
    rows, x_adv = tensors["rows"].numpy(), tensors["x_adv"]
    points = PointTable(broken_by=tuple(meta["broken_by"]), **arrays)
    scores = Scores(
        ball=Ball(**meta["ball"]),
        suite=meta["suite"],
        seed=meta["seed"],
        points=points,
        passes=meta["passes"],
        x_adv=x_adv,
        certificate_method=meta["certificate_method"],
        notes=tuple(meta["notes"]),
        alarms=tuple(Alarm(**alarm) for alarm in meta["alarms"]),
        survivor_bound=None if bound is None else SurvivorBound(**bound),
        local_lipschitz=meta["local_lipschitz"],
    )
    return scores, rows
