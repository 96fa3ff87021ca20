"""The nearest point of an L1 ball cut by a box: one sort instead of an iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def nearest_in_l1(step: Tensor, radius: float | Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The point of {||u||_1 <= radius, low <= u <= high} nearest to ``step`` in L2: [n, d] each, low <= 0 <= high.

    It is u_j = sign(z_j) min(max(|z_j| - t, 0), c_j), where c_j is the box's room on the side of z_j and t >= 0 is
    the least number at which the length is at most the radius. The length falls in t and is linear between the
    2 d numbers |z_j| and |z_j| - c_j, so that sorted sums give t (Croce & Hein 2021, Proposition 2.1).
    """
    import torch

    radius = torch.as_tensor(radius, dtype=step.dtype, device=step.device).expand(len(step))[:, None]
    size, side = step.abs(), torch.where(step >= 0, high, -low).clamp_min(0)
    breaks = torch.cat([size, (size - side).clamp_min(0)], 1)  # a part grows between both, then it is c_j
    turns = torch.cat([torch.ones_like(size), -torch.ones_like(size)], 1)
    breaks, order = breaks.sort(dim=1, descending=True)
    growing = turns.gather(1, order).cumsum(1)  # how many parts grow just below each break
    gaps = breaks[:, :-1] - breaks[:, 1:]
    length = torch.cat([torch.zeros_like(size[:, :1]), (growing[:, :-1] * gaps).cumsum(1)], 1)  # at each break
    last = torch.searchsorted(length, radius.contiguous(), right=True).sub_(1)
    rate = growing.gather(1, last).clamp_min(1)
    level = (breaks.gather(1, last) - (radius - length.gather(1, last)) / rate).clamp_min(0)
    return step.sign() * torch.minimum((size - level).clamp_min(0), side)
