"""Robust self-training: clean plus adversarial cross-entropy, on unlabeled inputs too if there are any."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.data.dataset import as_float
from radii.data.sources import load
from radii.errors import InputError
from radii.models.classifier import predict
from radii.models.io.bundle import load_bundle
from radii.threat import Ball
from radii.training._frozen_for_attack import Mode
from radii.training._inner_maximization import Inner
from radii.training.objectives.adversarial import both_logits
from radii.training.objectives.objective import Loss, TrainingProgress


class RobustSelfTraining:
    """loss = mean CE(f(x), y) + weight * max over x' in the ball of CE(f(x'), y).

    This is all that the slides and the public code of Yang et al. 2020 call RST.
    The method of that name (Carmon et al. 2019; Uesato et al. 2019) also uses
    unlabeled inputs, with the predictions of a teacher as labels.

    Args:
        threat: the ball, for instance ``linf:0.3``.
        weight: weight of the adversarial term; 1/2, 1 and 2 in Yang et al. 2020.
        steps: ascent steps.
        step: length of a step, as a share of the radius.
        warmup: share of the training in which the radius grows to its full size.
        inner: mode of the network during the attack.
        unlabeled: a dataset of unlabeled inputs (its labels are not read); empty: none.
        teacher: folder of a naturally trained run that predicts their labels.
        ratio: unlabeled inputs per labeled point in every batch.

    Raises:
        InputError: only one of ``unlabeled`` and ``teacher``, or numbers outside their range.
    """

    def __init__(
        self,
        threat: str = "linf:0.3",
        weight: float = 1.0,
        steps: int = 10,
        step: float = 0.2,
        warmup: float = 0.0,
        inner: Mode = "eval",
        unlabeled: str = "",
        teacher: str = "",
        ratio: float = 1.0,
    ) -> None:
        if bool(unlabeled) != bool(teacher):
            raise InputError("Robust self-training needs both unlabeled (a dataset) and teacher (a run), or neither.")
        if not weight >= 0 or not ratio > 0:
            raise InputError(f"weight must be at least 0 and ratio positive, got {weight} and {ratio} instead.")
        self.weight, self.ratio, self.unlabeled, self.teacher = weight, ratio, unlabeled, teacher
        self.inner = Inner(Ball.parse(threat), steps, step, "uniform", warmup, inner)

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        """Both terms of one batch; the logits are those of its labeled points."""
        labeled = len(x)
        if self.unlabeled:
            more, guesses = self._drawn(x, progress)
            x, y = torch.cat([x, more]), torch.cat([y, guesses])
        worst = self.inner.maximize(model, x, progress, lambda logits: F.cross_entropy(logits, y, reduction="sum"))
        clean, moved = both_logits(model, x, worst)
        return Loss(F.cross_entropy(clean, y) + self.weight * F.cross_entropy(moved, y), clean[:labeled])

    def _drawn(self, x: Tensor, progress: TrainingProgress) -> tuple[Tensor, Tensor]:
        inputs, guesses = self.pseudo_labeled
        if inputs.shape[1:] != x.shape[1:]:
            raise InputError(
                f"Unlabeled inputs must have the shape {tuple(x.shape[1:])} of the labeled ones, "
                f"got {tuple(inputs.shape[1:])} instead."
            )
        count = max(1, round(self.ratio * len(x)))
        rows = torch.randint(len(inputs), (progress.world, count), generator=progress.generator("unlabeled"))[
            progress.rank
        ]
        return torch.from_numpy(as_float(inputs[rows].numpy())).to(x.device), guesses[rows].to(x.device)

    @cached_property
    def pseudo_labeled(self) -> tuple[Tensor, Tensor]:
        """The unlabeled inputs and the teacher's predictions for them."""
        data = load(self.unlabeled).train
        teacher, _ = load_bundle(Path(self.teacher))
        parts = [predict(teacher, data.tensors(slice(i, i + 1000))[0]) for i in range(0, len(data), 1000)]
        return torch.from_numpy(data.x.copy()), torch.cat(parts)
