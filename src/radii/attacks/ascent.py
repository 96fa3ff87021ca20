"""The step of attacks and of adversarial training: along the gradient, then back into the ball."""

from __future__ import annotations

import torch
from torch import Tensor

from radii.errors import InputError
from radii.threat import Ball, Norm, length, per_row


def steepest(gradient: Tensor, norm: Norm) -> Tensor:
    """The direction of unit ``norm`` along which a linear function with this ``gradient`` rises most.

    Linf: sign(g). L2: g / ||g||_2, and 0 where the gradient is 0. [n, …] -> [n, …].
    """
    if norm == "linf":
        return gradient.sign()
    if norm == "l2":
        norms = length(gradient, "l2")
        return gradient * per_row(torch.where(norms > 0, 1 / norms.clamp_min(1e-30), 0), gradient)
    raise InputError(f"Gradient steps are defined for l2 and linf balls, got {norm!r} instead.")


def ascend(point: Tensor, gradient: Tensor, center: Tensor, ball: Ball, size: float | Tensor) -> Tensor:
    """One projected ascent step: Pi_ball(point + size * steepest(gradient)) (Madry et al. 2018, Sec. 2.1).

    The ball is the ``ball`` around ``center``; ``size`` is in units of the input, one number or one per row [n].
    """
    scale = per_row(size, point) if isinstance(size, Tensor) else size
    return ball.project(point + scale * steepest(gradient, ball.norm), center)
