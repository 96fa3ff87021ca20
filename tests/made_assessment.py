"""Assessments of made-up points: every count of a page can be chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch

import radii
from radii.data.dataset import Data, Dataset
from radii.evaluation.requirement import Requirement
from radii.evaluation.scores import MINIMUM_NORM, PointTable, Scores
from radii.runs.component_specs import Component, DataSpec
from radii.runs.step_results import TrainResult
from radii.runs.steps.train_step import Fit, Train
from radii.studies.assess import AssessedModel, Assessment, DataLimits
from radii.threat import Ball
from radii.training.history import Epoch

BALL = Ball("l2", 0.5)
KINDS = ("proved", "open", "broken", "wrong")


def made_scores(
    kinds: Sequence[str],
    labels: Sequence[int] | None = None,
    *,
    suite: str = "fast",
    radii: bool = True,
    certificate: str | None = "margin",
    proved_radius: float = 0.6,
) -> Scores:
    """Scores of points that are ``proved``, ``open``, ``broken`` or ``wrong``.

    Args:
        kinds: of each point.
        labels: of each point; 0 by default.
        suite: the attacks.
        radii: whether a minimum-norm attack ran, too.
        certificate: what proved the points; None: nothing was tried.
        proved_radius: of the proved points, at least the radius of the threat.
    """
    kind, n = np.array(kinds), len(kinds)
    label = np.zeros(n, np.int64) if labels is None else np.array(labels, np.int64)
    changed = np.where(kind == "broken", 0.3, np.where(radii, 0.9, np.inf))
    points = PointTable(
        label=label,
        prediction=np.where(kind == "wrong", label + 1, label),
        adversarial_prediction=label + 1,
        proved_radius=np.where(kind == "proved", proved_radius, 0.0),
        proved=kind == "proved",
        changed=changed <= BALL.radius,
        changed_radius=changed,
        broken_by=tuple("pgd" if own == "broken" else "" for own in kinds),
        queries=np.ones(n, np.int64),
    )
    passes = {"pgd": n} | ({MINIMUM_NORM: n} if radii else {})
    return Scores(BALL, suite, 0, points, passes, torch.zeros(n, 1, 4, 4), certificate)


def made_training(tested: Sequence[float | None], end: float = 0.9) -> Fit:
    """A training: the test accuracy after each epoch, None where it was not measured, and at the end."""
    history = tuple(Epoch(k, 1.0, 0.5 + k / 100, own) for k, own in enumerate(tested))
    data = DataSpec(source="made", train="1" * 64, test="2" * 64)
    step = Train(data=data, model=Component(name="mlp"), method=Component(name="natural"))
    return Fit(step, TrainResult(train_accuracy=0.9, test_accuracy=end, parameters=9, history=history), 1.0)


def made_assessment(
    scores: Mapping[str, Scores],
    *,
    classes: int = 10,
    require: Sequence[str] = (),
    images: bool = True,
    trainings: Mapping[str, Fit] | None = None,
    options: tuple[str, ...] = (),
) -> Assessment:
    """An assessment of these models; those called ``standard`` and ``1-Lipschitz`` are references."""
    n = max(len(own.points.label) for own in scores.values())
    shape = (n, 1, 4, 4) if images else (n, 16)
    names = tuple(f"class {k}" for k in range(classes + 1))
    x, y = np.zeros(shape, np.float32), np.arange(n, dtype=np.int64) % classes
    data = Data(Dataset(x, y, names, "made"), Dataset(x, y, names, "made"), "made")
    environment = {"versions": {"radii": radii.__version__}, "python": "3", "threads": 1}
    run = cast(
        Any,
        SimpleNamespace(
            environment=environment, id="evaluate-0", content={}, committed=datetime(2026, 1, 2, tzinfo=UTC)
        ),
    )
    models = tuple(
        AssessedModel(
            name,
            run if name in (trainings or {}) else None,
            run,
            own,
            np.arange(len(own.points.label)),
            (trainings or {}).get(name),
        )
        for name, own in scores.items()
    )
    floors = tuple(Requirement.parse(text) for text in require)
    made = Assessment(data, "made", BALL, BALL, run, models, 0, floors=floors, options=options)
    made.__dict__["limits"] = DataLimits(("Far apart.",), 1.0, 0, 0.5, {"test": np.ones(n), "train": np.ones(n)})
    return made
