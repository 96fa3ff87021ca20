"""Boxes cut to where a row may still hold (relaxed clipping of Clip-and-Verify, Zhou et al. 2025).

On a box, a row is at least a line s . x + c. With ``least`` the least value of the line, this is
least + sum_i |s_i| d_i, where d_i is the distance of x_i from the end at which the line is least. So the row is at
most 0 only where d_i <= -least / |s_i| for every i.
"""

from __future__ import annotations

import torch
from torch import Tensor

from radii.verification._goal import Goal

ROUNDS = 3  # the cuts of one row help the others
UP = 1 + 2.0**-40  # more than the rounding of a cut in float64


def clipped(low: Tensor, high: Tensor, least: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """The ends of boxes [..., inputs] in which a line can be at most 0, given its ``least`` value [...] on each."""
    reach = least.neg().clamp_min(0)[..., None] * UP / slopes.abs()  # infinite or NaN where a slope is 0
    slack = 2.0**-50 * (low.abs() + high.abs())
    return (
        torch.where(slopes < 0, torch.maximum(low, high - reach - slack), low),
        torch.where(slopes > 0, torch.minimum(high, low + reach + slack), high),
    )


def clipped_to_cases(
    goal: Goal, lower: Tensor, upper: Tensor, least: Tensor, slopes: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes [B, inputs] cut to where all rows of some case may hold.

    Args:
        least: of every row's line on the box [B, rows].
        slopes: of the lines [B, rows, inputs].

    Returns:
        Lower and upper ends [B, inputs], and in which boxes a case is left [B].
    """
    count, inputs = lower.shape
    low, high = (end[:, None].repeat(1, goal.cases, 1) for end in (lower, upper))  # of each case
    owner = goal.case[None, :, None].expand(count, -1, inputs)
    spare = goal.limit.abs() * 2.0**-49  # the rounding of the limit
    gone = torch.zeros(count, goal.cases, dtype=torch.bool)
    for _ in range(ROUNDS):
        own_low, own_high = low[:, goal.case], high[:, goal.case]
        moved = torch.where(slopes > 0, own_low - lower[:, None], upper[:, None] - own_high)
        now = least + (slopes.abs() * moved).sum(2) / UP - spare
        gone |= torch.zeros_like(gone, dtype=torch.int64).index_add_(1, goal.case, (now > 0).long()) > 0
        own_low, own_high = clipped(own_low, own_high, now, slopes)
        low.scatter_reduce_(1, owner, own_low, "amax")
        high.scatter_reduce_(1, owner, own_high, "amin")
    gone |= (low > high).any(2)
    low, high = torch.where(gone[:, :, None], torch.inf, low), torch.where(gone[:, :, None], -torch.inf, high)
    return low.amin(1), high.amax(1), ~gone.all(1)
