"""How far each feature of a row may move, and what a move counts: the form of a ball that exact answers work with."""

from __future__ import annotations

from dataclasses import dataclass

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
    """

    center: Floats
    low: Floats
    high: Floats
    scale: Floats
    norm: Norm

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
        return cls(center, np.minimum(low, center), np.maximum(high, center), ball.scales(rows)[0].numpy(), ball.norm)

    @property
    def largest(self) -> Floats:
        """The largest size of each feature [n, d]; infinite without a limit."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def rows(self, keep: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Reach:
        """The rows ``keep``."""
        return Reach(self.center[keep], self.low[keep], self.high[keep], self.scale, self.norm)
