"""One of each kind that a package can add to radii."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from radii import Ball, Certificate
from radii.attacks.attack import AttackResult
from radii.attacks.square import Square
from radii.budget import Budget
from radii.models.classifier import predict
from radii.runs.component_specs import DataSpec
from radii.runs.step import Step
from radii.runs.step_results import StepResult
from radii.runs.steps import AuditStep
from radii.runs.store import Workspace
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import listing
from radii.training.objectives.objective import Loss, TrainingProgress


class TwoLayers(nn.Sequential):
    """A model: built with the shape of an input and the number of classes; further arguments are settings."""

    def __init__(self, input_shape: tuple[int, ...], classes: int, width: int = 32) -> None:
        size = int(np.prod(input_shape))
        super().__init__(nn.Flatten(), nn.Linear(size, width), nn.ReLU(), nn.Linear(width, classes))


class LabelSmoothing:
    """A training method: the loss of a batch."""

    def __init__(self, amount: float = 0.1) -> None:
        self.amount = amount

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:  # noqa: ARG002
        """Cross-entropy with a share ``amount`` of the label spread over all classes."""
        logits = model(x)
        return Loss(nn.functional.cross_entropy(logits, y, label_smoothing=self.amount), logits)


@dataclass(frozen=True)
class Brightness:
    """An attack: the whole image brighter or darker, as far as the ball allows (Linf)."""

    steps: int = 8

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> AttackResult:  # noqa: ARG002
        """Try every brightness; a success must lie in the ball and be wrong."""
        x_adv, broken = x.clone(), predict(model, x) != y
        for shift in torch.linspace(-ball.radius, ball.radius, self.steps).tolist():
            point = ball.project(x + shift, x)
            hit = ~broken & (predict(model, point) != y) & ball.contains(point, x)
            x_adv[hit], broken = point[hit], broken | hit
        return AttackResult(x_adv, broken, torch.full_like(y, self.steps))


BRIGHTNESS_FIRST = {"brightness": Brightness(), "square": Square(queries=200)}


def nothing(model: nn.Module, x: Tensor, ball: Ball) -> Certificate:
    """A certificate: the honest one that proves nothing."""
    radius = torch.zeros(len(x), dtype=torch.float64)
    return Certificate(predict(model, x), radius, ball.norm, "deterministic", "nothing")


def invert(x: NDArray[Any]) -> NDArray[Any]:
    """A variant: the negative of an image."""
    return 255 - x if x.dtype == np.uint8 else 1 - x


class BrightnessResult(StepResult):
    """What :class:`MeasureBrightness` finds: a record that a run gives back equal."""

    mean: float
    by_class: dict[int, float]

    def headline(self) -> str:
        """The figure to remember, as ``radii runs`` shows it."""
        return f"mean {self.mean:.3f}"


class MeasureBrightness(Step):
    """A step: its fields say what is asked, its ``Result`` what comes out; the store does the rest."""

    kind: ClassVar[str] = "brightness"
    Result: ClassVar[type[BrightnessResult]] = BrightnessResult

    data: DataSpec

    def perform(self, work: Workspace) -> BrightnessResult:  # noqa: ARG002
        """The mean pixel of the test images, of all and of each class."""
        test = self.data.load().test
        images = np.asarray(test.x, dtype=np.float64).reshape(len(test), -1).mean(1)
        by_class = {label: images[test.y == label].mean() for label in np.unique(test.y).tolist()}
        return BrightnessResult(mean=images.mean(), by_class=by_class)


def _cells(budget: Budget) -> tuple[Cell, ...]:  # noqa: ARG001
    return tuple(
        Cell({"data": name}, AuditStep(data=DataSpec.of(name), norm="linf", epsilon=0.1))
        for name in ("digits", "digits+invert")
    )


def _analyze(results: Sequence[Measured]) -> Findings:
    rows = [(each.place["data"], each.read(AuditStep.Result).train.minimum) for each in results]
    return Findings(listing("Least distance between classes", ("data", "distance"), rows))


STUDY = Study("example", "Inverting moves no class closer", "an example", _cells, _analyze)
