"""How to train, as data: length, batches, augmentation, and the optimizer.

Learning rate and momentum are functions of the step, with no state to save.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from radii.data.augmentation import Augmentation
from radii.spec import Spec

if TYPE_CHECKING:
    import torch
    from torch import nn


Precision = Literal["float32", "bfloat16"]


class Optimizer(Spec):
    """SGD with Nesterov momentum, Adam, or orthogonalized momentum, under one of four schedules.

    ``one-cycle``: the rate rises to ``lr`` by a cosine, then falls to almost
    nothing by another. ``lr`` is reached after ``warmup`` of the steps, starting
    at ``lr/25`` and ending at ``lr/25e4``; momentum runs from 0.95 to 0.85 and
    back when ``cycle_momentum`` (what torch's OneCycleLR does by default, and so
    what Prach & Lampert 2025 trained with, although the text says 0.9).
    ``steps``: ``lr``, divided by 10 at each of ``drops`` (shares of the
    training). ``linear``: up to ``lr`` within ``warmup`` of the steps, then down to
    zero. ``constant``: ``lr`` throughout.

    ``kind="manifold"`` is :class:`radii.training.optimizers.Manifold`: ``lr`` moves
    orthogonal matrices, Adam moves the rest at ``others_lr``, and both follow the schedule.
    ``kind="orthogonalized"`` is :class:`radii.training.optimizers.Orthogonalized`: ``lr`` and ``weight_decay`` are
    those of inner matrices and kernels, SGD moves the rest at ``others_lr``.
    """

    omit_if_default: ClassVar[dict[str, Any]] = {
        "kind": "sgd",
        "schedule": "one-cycle",
        "drops": (),
        "nesterov": True,
        "others_lr": 2e-3,
    }

    lr: float = Field(0.1, gt=0)
    warmup: float = Field(0.3, ge=0, le=1)
    momentum: float = Field(0.9, ge=0, lt=1)
    cycle_momentum: bool = False
    weight_decay: float = Field(0.0, ge=0)
    clip_gradient: float = Field(0.0, ge=0, description="largest gradient norm; 0 for no limit")
    kind: Literal["sgd", "adam", "manifold", "orthogonalized"] = "sgd"
    schedule: Literal["one-cycle", "steps", "linear", "constant"] = "one-cycle"
    drops: tuple[float, ...] = ()
    nesterov: bool = True
    others_lr: float = Field(2e-3, gt=0, description="rate of what is not orthogonal or orthogonalized")

    @field_validator("drops")
    @classmethod
    def _ordered_shares(cls, drops: tuple[float, ...]) -> tuple[float, ...]:
        if list(drops) != sorted(drops) or not all(0 < drop < 1 for drop in drops):
            raise ValueError(f"drops must be rising shares of the training between 0 and 1, got {list(drops)} instead")
        return drops

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        if self.cycle_momentum and self.momentum != 0.9:
            raise ValueError("momentum is not used when cycle_momentum is true; leave it out")
        if self.cycle_momentum and (self.schedule != "one-cycle" or self.kind != "sgd"):
            raise ValueError("cycle_momentum belongs to SGD under the one-cycle schedule")
        if self.drops and self.schedule != "steps":
            raise ValueError("drops belong to the schedule steps; write optimizer.schedule=steps")
        if self.kind == "manifold" and self.weight_decay:
            raise ValueError("weight_decay would pull orthogonal matrices off their manifold; leave it out")
        if self.kind not in ("manifold", "orthogonalized") and self.others_lr != 2e-3:
            raise ValueError("others_lr belongs to optimizer.kind=manifold and orthogonalized")
        return self

    def at(self, step: int, total: int) -> tuple[float, float]:
        """Learning rate and momentum of ``step`` (0-based) of ``total``."""
        if self.schedule == "linear":
            part, turn = (step + 1) / total, max(self.warmup, 1 / total)
            return self.lr * (part / turn if part <= turn else (1 - step / total) / (1 - turn)), self.momentum
        if self.schedule != "one-cycle":
            passed = sum(step >= round(drop * total) for drop in self.drops)
            return self.lr * 0.1**passed, self.momentum
        turn = self.warmup * total - 1
        low, lowest = self.lr / 25, self.lr / 25e4
        if step <= turn:
            part = step / turn if turn > 0 else 1.0
            rate, momentum = _cosine(low, self.lr, part), _cosine(0.95, 0.85, part)
        else:
            part = (step - turn) / max(total - 1 - turn, 1e-12)
            rate, momentum = _cosine(self.lr, lowest, part), _cosine(0.85, 0.95, part)
        return rate, momentum if self.cycle_momentum else self.momentum

    def make(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The torch optimizer; :meth:`set` gives it the rate of each step."""
        import torch

        if self.kind == "adam":
            return torch.optim.Adam(parameters, lr=self.lr, weight_decay=self.weight_decay)
        if self.kind == "manifold":
            from radii.training.optimizers import Manifold

            return Manifold(parameters, self.lr, momentum=self.momentum, others_lr=self.others_lr)
        if self.kind == "orthogonalized":
            from radii.training.optimizers import Orthogonalized

            rest = {"others_lr": self.others_lr, "weight_decay": self.weight_decay}
            return Orthogonalized(parameters, self.lr, momentum=self.momentum, **rest)
        return torch.optim.SGD(parameters, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)

    def set(self, optimizer: torch.optim.Optimizer, step: int, total: int) -> float:
        """Prepare ``optimizer`` for ``step`` of ``total``; returns the learning rate."""
        rate, momentum = self.at(step, total)
        for group in optimizer.param_groups:
            group["lr"] = rate if group.get("orthogonal", True) else rate * self.others_lr / self.lr
            if self.kind == "sgd":
                group["momentum"] = momentum
                group["nesterov"] = self.nesterov and momentum > 0  # Nesterov without momentum is plain SGD
        return rate


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * part))


class Recipe(Spec):
    """How to train: length, batches, optimizer, augmentation.

    Attributes:
        epochs: passes over the data; not used if ``steps`` is set.
        batch_size: points in one batch.
        optimizer: optimizer and learning rate schedule.
        augmentation: random changes of training images.
        steps: length in batches; 0: ``epochs`` counts.
        test_every: epochs between two test accuracies in the history; 0: none.
        average: above 0, training ends with the exponential moving average of the
            weights with this decay per step; 0: with the last weights.
        init: the weights at the start: the network's own, or ``orthogonal``, ``identity`` or ``kaiming``.
        extra_share: the share of extra points in a batch; 0: their share of all points.
        watch: training points that are held out and attacked ten times during the training, to see catastrophic
            overfitting of a single-step method; 0: none.
        precision: of the network's products during training; ``bfloat16`` where the processor has such products,
            which halves their time. Weights and the trained network are float32.
    """

    omit_if_default: ClassVar[dict[str, Any]] = {
        "steps": 0,
        "test_every": 1,
        "average": 0.0,
        "init": "own",
        "extra_share": 0.0,
        "watch": 0,
        "precision": "float32",
    }

    epochs: int = Field(20, ge=1)
    batch_size: int = Field(256, ge=1)
    optimizer: Optimizer = Optimizer()
    augmentation: Augmentation = Augmentation()
    steps: int = Field(0, ge=0)
    test_every: int = Field(1, ge=0, description="epochs between test accuracies in the history; 0: none")
    average: float = Field(0.0, ge=0, lt=1)
    init: Literal["own", "orthogonal", "identity", "kaiming"] = "own"
    extra_share: float = Field(0.0, ge=0, lt=1)
    precision: Precision = "float32"
    watch: int = Field(0, ge=0, description="held-out points on which single steps are compared with several")

    def length(self, batches: int) -> int:
        """Number of steps, with ``batches`` in one pass over the data."""
        return self.steps or self.epochs * batches
