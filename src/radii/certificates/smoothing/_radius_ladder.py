"""A ladder of radii for smoothing: one exact sequential test each, all on the same votes.

An input climbs as far as its tests pass. The hypotheses are nested (a class
too rare for one radius is too rare for all larger ones), and a radius counts
only if all smaller ones passed, so an error needs the first true hypothesis to
be rejected: the whole ladder errs as rarely as one test. A rival, a class of
at most one half, may pass as well; what all rivals can spend on the first
radius, without which no radius counts, is taken off the level of every test.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from radii.certificates.smoothing._noise import GRID, GridNoise
from radii.certificates.smoothing._sequential_binomial import (
    DOWN,
    SequentialTest,
    fewest_samples,
    look_sizes,
    sequential_test,
)
from radii.errors import InputError


@dataclass(frozen=True)
class Ladder:
    """Growing radii and one sequential test for each, over common looks."""

    radii: tuple[float, ...]
    looks: tuple[int, ...]
    tests: tuple[SequentialTest, ...]

    @classmethod
    def of(cls, sigma: float, radii: Sequence[float], dimensions: int, classes: int, alpha: float, most: int) -> Ladder:
        """Tests of P > Phi((r + half a grid cell's diagonal) / sigma) + the generator's missing tails."""
        if not radii or min(radii) <= 0:
            raise InputError(f"Radii to certify must be positive numbers, got {list(radii)} instead.")
        shift = math.sqrt(dimensions) * GRID / 2
        tails = GridNoise(sigma).tails(dimensions)
        rising = sorted(set(radii))
        levels = {r: float(norm.cdf((r + shift) / sigma)) / DOWN + tails for r in rising}
        fewest = fewest_samples(levels[rising[0]], alpha)
        if levels[rising[0]] >= 1:
            raise InputError(
                f"Radius {rising[0]:g} is out of reach at sigma {sigma:g}: the votes would have to be surer than the "
                "noise generator's tails allow. Choose a smaller radius or a larger sigma."
            )
        if fewest > most:
            raise InputError(
                f"Radius {rising[0]:g} at sigma {sigma:g} needs {fewest:,} samples even if none of them fails "
                f"(alpha {alpha:g}), got {most:,} instead. Allow more, or choose a smaller radius or a larger sigma."
            )
        within = [r for r in rising if levels[r] < 1 and fewest_samples(levels[r], alpha) <= most]
        looks = look_sizes([levels[r] for r in within], alpha, most)
        first = sequential_test(levels[within[0]], alpha, looks, classes - 1)
        left = alpha - (classes - 1) * first.spent_at_half  # a rival passes no radius without passing the first
        rest = tuple(sequential_test(levels[r], left, looks) for r in within[1:])
        return cls(tuple(within), looks, (first, *rest))


class LadderPosition:
    """How far one input has come on the ladder."""

    def __init__(self, ladder: Ladder) -> None:
        self.ladder, self.look, self.top = ladder, 0, -1
        self.passed = [False] * len(ladder.radii)
        self.due = ladder.looks[0]
        self.done = False

    @property
    def height(self) -> int:
        """Radii proved: passed, and all smaller ones too."""
        return (*self.passed, False).index(False)

    def judge(self, votes: NDArray[np.int64]) -> None:
        """All samples of this look are in: pass radii, then stop or ask for more."""
        look, tests = self.look, self.ladder.tests
        top = int(votes.argmax()) if self.top < 0 else self.top
        failures = self.ladder.looks[look] - int(votes[top])
        for number, test in enumerate(tests):
            if failures <= test.allowed[look]:
                self.passed[number], self.top = True, top  # from now on the ladder is this class's
        height = self.height
        self.look += 1
        self.done = (
            height == len(tests) or failures >= tests[height].hopeless[look] or self.look == len(self.ladder.looks)
        )
        if not self.done:
            self.due = self.ladder.looks[self.look] - self.ladder.looks[look]


def rounds(positions: list[LadderPosition], batch: int) -> Iterator[list[tuple[int, int]]]:
    """Full batches of ``batch`` samples over all ``positions`` that still need samples: (row, samples) of each."""
    waiting = deque(range(len(positions)))
    while waiting:
        wanted: list[tuple[int, int]] = []
        room = batch
        while waiting and room:
            row = waiting.popleft()
            take = min(positions[row].due, room)
            positions[row].due -= take
            room -= take
            wanted.append((row, take))
        yield wanted
        unfinished = [row for row, _ in wanted if not positions[row].done]
        waiting.extendleft(reversed(unfinished))  # first come, first done: few inputs are under way at once
