"""Gradient regularization: small loss gradients at the data (Finlay & Oberman 2021; GR in Yang et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.attacks.pgd import steepest
from radii.errors import InputError, unknown_name
from radii.training.objectives.objective import Loss, TrainingProgress


@dataclass(frozen=True)
class Masks:
    """The state of the global random streams before a forward pass.

    With it a second pass draws the same dropout masks: finite differences must
    compare one network with itself.
    """

    cpu: Tensor
    device: torch.device
    accelerator: Tensor | None

    @classmethod
    def before(cls, x: Tensor) -> Masks:
        """Remember the masks that the next pass over ``x`` will draw."""
        on_device = torch.cuda.get_rng_state(x.device) if x.is_cuda else None
        return cls(torch.random.get_rng_state(), x.device, on_device)

    def again(self) -> None:
        """Let the next pass draw the same masks."""
        torch.random.set_rng_state(self.cpu)
        if self.accelerator is not None:
            torch.cuda.set_rng_state(self.accelerator, self.device)


Variant = Literal["double-backpropagation", "finite-difference", "reference"]


class GradientRegularization:
    """loss = mean of CE(f(x), y) + weight * ||grad_x CE(f(x), y)||_2^2.

    Args:
        weight: weight of the penalty.
        variant: ``double-backpropagation`` is the formula above.
            ``finite-difference`` replaces the squared norm by
            ((CE(x + h d) - CE(x)) / h)^2, d the unit gradient of the loss, held
            fixed (the slides of Yang et al. 2020 lose the square). ``reference`` is
            what their public code minimizes and their tables show:
            2 CE + weight/2 * difference^2, with h = 1.
        h: length of the finite difference.

    Raises:
        InputError: an unknown variant, or numbers outside their range.
    """

    def __init__(self, weight: float = 1.0, variant: Variant = "double-backpropagation", h: float = 0.01) -> None:
        if variant not in ("double-backpropagation", "finite-difference", "reference"):
            raise unknown_name("gradient regularization", variant, Variant.__args__)  # type: ignore[attr-defined]
        if not h > 0 or not weight >= 0:
            raise InputError(f"h must be positive and weight at least 0, got {h} and {weight} instead.")
        self.weight, self.variant, self.h = weight, variant, h

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:  # noqa: ARG002
        """Loss and penalty of one batch."""
        masks = Masks.before(x)
        x = x.detach().requires_grad_()
        logits = model(x)
        losses = F.cross_entropy(logits, y, reduction="none")
        double = self.variant == "double-backpropagation"
        (gradient,) = torch.autograd.grad(losses.sum(), x, create_graph=double, retain_graph=True)
        if double:
            penalty = gradient.flatten(1).square().sum(1).mean()
            return Loss(losses.mean() + self.weight * penalty, logits)
        masks.again()
        moved = F.cross_entropy(model(x.detach() + self.h * steepest(gradient, "l2")), y, reduction="none")
        penalty = ((moved - losses) / self.h).square().mean()
        if self.variant == "reference":
            return Loss(2 * losses.mean() + self.weight / 2 * penalty, logits)
        return Loss(losses.mean() + self.weight * penalty, logits)
