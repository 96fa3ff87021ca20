"""Brackets of evaluated points, closed by complete verification within a stated time."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radii.certificates.complete.true_radius import TOLERANCE, RadiusBracket, true_radii
from radii.errors import InputError
from radii.threat import Ball

FURTHEST = 4.0  # balls' radii up to which a radius is asked for where no attack found an error


def close_brackets(
    model: nn.Module,
    x: Tensor,
    ball: Ball,
    proved: NDArray[np.float64],
    broken: Tensor,
    nearest: Tensor,
    seconds: float,
) -> tuple[NDArray[np.float64], Tensor, Tensor, tuple[str, ...]]:
    """Move the proved and the broken radius of every point towards each other.

    Args:
        model: the network.
        x: inputs [n, …].
        ball: norm and box; points that no attack broke are asked up to four times its radius.
        proved: radii that are proved so far [n].
        broken: distances of the nearest errors found so far [n], inf where none is.
        nearest: these errors [n, …].
        seconds: for each point.

    Returns:
        Proved radii, broken radii, nearest errors, and what a reader must know.
    """
    if ball.norm == "l1":
        return proved, broken, nearest, ("Complete verification is for linf and l2 balls.",)
    start = RadiusBracket(
        torch.zeros(len(x), dtype=torch.int64),
        torch.from_numpy(proved).double(),
        broken.double().cpu(),
        nearest.float().cpu(),
    )
    largest = max(FURTHEST * ball.radius, *start.broken[start.broken.isfinite()].tolist())
    try:
        found = true_radii(
            model.cpu(), x.float().cpu(), largest, norm=ball.norm, box=ball.box, seconds=seconds, start=start
        )
    except InputError as refusal:
        return proved, broken, nearest, (f"Complete verification is not possible: {refusal}",)
    note = (
        f"Complete verification, {seconds:g} s a point at most: proved and broken radius are moved towards each other "
        f"until they meet to {TOLERANCE:.0%}."
    )
    device = broken.device
    return found.proved.numpy(), found.broken.to(device), found.nearest.to(device), (note,)
