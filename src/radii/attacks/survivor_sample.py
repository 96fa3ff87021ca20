"""A bound on what a full run of a suite could still break, from a random sample of the survivors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import hypergeom
from torch import Tensor

from radii.randomness import stream

SAMPLE = 100
CONFIDENCE = 0.95


@dataclass(frozen=True)
class SurvivorBound:
    """With ``confidence``, attacks that ran on a sample only would break at most ``at_most`` of ``survivors``.

    The sample is drawn before any of its outcomes is known, uniformly and of a
    fixed size; nothing stops early. A point's outcome does not depend on the
    points beside it (see :mod:`radii.attacks.draws`), so the sample's outcomes
    are those of the full run, and the count in it is hypergeometric. The bound is
    about these survivors; it says nothing about attacks outside the suite.
    """

    survivors: int
    sampled: int
    broken_in_sample: int
    at_most: int
    confidence: float = CONFIDENCE

    def __str__(self) -> str:
        return (
            f"FAB-T and Square attacked {self.sampled} of {self.survivors} survivors, broke {self.broken_in_sample}; "
            f"with {self.confidence:.0%} confidence a full run breaks at most {self.at_most}."
        )


def draw_survivors(survivors: Tensor, size: int, seed: int) -> Tensor:
    """``size`` of the indices ``survivors``, drawn by ``seed`` without replacement: [m] -> [min(size, m)]."""
    order = torch.randperm(len(survivors), generator=stream(seed, "audit"))  # the name is part of stored results
    return survivors[order[:size].sort().values]


def survivor_bound(survivors: int, sampled: int, broken: int, confidence: float = CONFIDENCE) -> SurvivorBound:
    """The largest number of breakable survivors that the sample does not contradict.

    at_most = max {K : P(X <= broken | survivors, K, sampled) > 1 - confidence},
    X hypergeometric: the exact one-sided limit for a finite population of
    ``survivors``, of which ``sampled`` were attacked.
    """
    breakable = np.arange(broken, survivors - (sampled - broken) + 1)
    unlikely = hypergeom.cdf(broken, survivors, breakable, sampled) <= 1 - confidence  # not where there are none: NaN
    return SurvivorBound(survivors, sampled, broken, int(breakable[~unlikely].max()), confidence)
