"""Train and test scores side by side: their gap shows memorization (Yang et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from radii.data.dataset import Dataset, balanced_order
from radii.evaluation.scores import Scores


@dataclass(frozen=True)
class SplitScores:
    """The same evaluation on train and test points."""

    train: Scores
    test: Scores

    @property
    def gaps(self) -> dict[str, float | None]:
        """Train minus test: of clean, proved and unbroken accuracy, stability and the Lipschitz constant."""
        pairs = {
            "clean": (self.train.clean.value, self.test.clean.value),
            "proved": (self.train.robust.proved.value, self.test.robust.proved.value),
            "unbroken": (self.train.robust.unbroken.value, self.test.robust.unbroken.value),
            "unbroken predictions": (self.train.stable.unbroken.value, self.test.stable.unbroken.value),
        }
        gaps: dict[str, float | None] = {name: train - test for name, (train, test) in pairs.items()}
        one, two = self.train.local_lipschitz, self.test.local_lipschitz
        return {**gaps, "local Lipschitz": None if one is None or two is None else one - two}

    def summary(self) -> dict[str, Any]:
        """Both splits and the gaps as JSON data."""
        return {"train": self.train.summary(), "test": self.test.summary(), "gaps": self.gaps}


def choose(dataset: Dataset, points: int | None, seed: int) -> tuple[Tensor, Tensor]:
    """Class-balanced points of a dataset, in the dataset's order.

    Args:
        dataset: where to choose from.
        points: how many; None: all.
        seed: of the choice.

    Returns:
        Inputs [n, …] float32 and labels [n].
    """
    if points is None or points >= len(dataset):
        return dataset.tensors()
    return dataset.tensors(np.sort(balanced_order(dataset.y, seed)[:points]))
