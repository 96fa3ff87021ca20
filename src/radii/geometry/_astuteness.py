"""The distance classifier of Yang et al. on real data: its accuracy, and its accuracy within a radius.

f_i(x) = dist(x, X_i) / r and argmin over i (Yang et al. 2020, Thm. 1) is
1/r-Lipschitz and, when the classes' supports are 2r apart, right within r of
every point of the support. In a finite sample X_i is only the training points,
so the classifier is the nearest-neighbor rule, and its result on a test set
shows how much more data the support would need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.geometry.search.engine import Work
from radii.geometry.search.neighbors import nearest
from radii.geometry.separation import Separation


@dataclass(frozen=True)
class Astuteness:
    """Per point, distances to the nearest reference of its own class and of another: [n] each.

    Each class distance changes by at most the size of a perturbation, so the
    rule is right within (other - same) / 2, exactly for the open ball.
    """

    same: NDArray[np.float64]
    other: NDArray[np.float64]

    @property
    def radius(self) -> NDArray[np.float64]:
        """The proved radius of each point [n]; negative where the rule is wrong."""
        return (self.other - self.same) / 2

    @property
    def accuracy(self) -> float:
        """The share of points the rule gets right."""
        return float(np.mean(self.same < self.other))

    def astuteness(self, epsilon: float) -> float:
        """The share proved right on the open ball of ``epsilon``: a lower bound on the rule's robust accuracy."""
        return float(np.mean((self.same < self.other) & (self.other - self.same >= 2 * epsilon)))


def astuteness(x: Any, y: Any, within: tuple[Any, Any], others: Separation, work: Work | None = None) -> Astuteness:
    """Evaluate the distance classifier of the references ``within`` on the points ``x``, ``y``.

    Args:
        x: points [n, …].
        y: labels [n].
        work: threads and folder of the search; default: all cores, no folder.
    """
    own = nearest(x, y, within, norm=others.norm, label="same", work=work)
    return Astuteness(own.distance[:, 0], others.distance)
