"""How far each feature of a row may move, and what a move counts: the form of a ball that exact answers work with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from radii.errors import InputError
from radii.threat import Ball, Norm

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reach:
    """Rows x' with low <= x' <= high; their distance from the center is the ``norm`` of (x' - center) / scale.

    Attributes:
        center: rows [n, d].
        low: the least value of each feature [n, d]; the center's where the feature is fixed.
        high: the greatest value [n, d].
        scale: what counts as a move of 1, for each feature [d].
        norm: of distances.
        groups: features of which one is 1, where the 1 may swap places; there low and high are 0 and 1.
        whole: features that are whole numbers, or keep their value.
    """

    center: Floats
    low: Floats
    high: Floats
    scale: Floats
    norm: Norm
    groups: tuple[tuple[int, ...], ...] = ()
    whole: tuple[int, ...] = ()

    @classmethod
    def of(cls, ball: Ball, x: Tensor) -> Reach:
        """The rows that ``ball`` allows around ``x`` [n, …], at any distance.

        There may be more of them than whole numbers and relations allow. Norm, scale, box, fixed features, ranges and
        directions are those of ``ball``.
        """
        rows = x.detach().cpu().flatten(1).double()
        center = rows.numpy()
        count = center.shape[1]
        if ball.fixed and max(ball.fixed) >= count:
            raise InputError(f"The ball fixes feature {max(ball.fixed)}, and the inputs have {count} features.")
        least, greatest = ball.ends
        low, high = np.full_like(center, least), np.full_like(center, greatest)
        if not ball.limits.all_allowed:
            own_low, own_high = ball.limits.room(rows)
            low, high = np.maximum(low, own_low.numpy()), np.minimum(high, own_high.numpy())
        fixed = list(ball.fixed)
        low[:, fixed], high[:, fixed] = center[:, fixed], center[:, fixed]
        low, high, scale = np.minimum(low, center), np.maximum(high, center), ball.scales(rows)[0].numpy()
        return cls(center, low, high, scale, ball.norm, ball.limits.groups, ball.limits.whole)

    @property
    def largest(self) -> Floats:
        """The largest size of each feature [n, d]; infinite without a limit."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def rows(self, keep: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Reach:
        """The rows ``keep``."""
        return replace(self, center=self.center[keep], low=self.low[keep], high=self.high[keep])

    @cached_property
    def swap_length(self) -> Floats:
        """What a swap of each group counts, in the norm: [groups]. Two features move by 1 of one scale."""
        first = [group[0] for group in self.groups]
        return {"l1": 2.0, "l2": np.sqrt(2.0), "linf": 1.0}[self.norm] / self.scale[first]

    @cached_property
    def swaps(self) -> NDArray[np.bool_]:
        """Which rows may swap the 1 of each group: [n, groups]."""
        first = [group[0] for group in self.groups]
        return self.low[:, first] < self.high[:, first]

    @property
    def units(self) -> Floats:
        """What a move by 1 counts for features that are whole numbers [n, d]; 0 for others."""
        units = np.zeros_like(self.center)
        whole = list(self.whole)
        units[:, whole] = (self.center[:, whole] == np.rint(self.center[:, whole])) / self.scale[whole]
        return units

    @property
    def stepped(self) -> list[int]:
        """The features that are whole numbers or of groups."""
        return [*self.whole, *self.grouped]

    @property
    def grouped(self) -> list[int]:
        """The features of all groups."""
        return [feature for group in self.groups for feature in group]
