"""Learning-rate search: log-uniform draws, judged on points held out of the training split."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from radii.data.dataset import Data, balanced_order
from radii.errors import InputError
from radii.randomness import numpy_stream


@dataclass(frozen=True)
class Trial:
    """One rate and what it reached."""

    lr: float
    validation_accuracy: float | None  # None: the training diverged
    train_accuracy: float | None
    run: str | None


@dataclass(frozen=True)
class Search:
    """All trials, by rate."""

    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial:
        """The trial of highest validation accuracy; of equals the smallest rate."""
        finished = [trial for trial in self.trials if trial.validation_accuracy is not None]
        if not finished:
            raise InputError("Every learning rate of the search diverged; search lower with --low and --high.")
        return max(finished, key=lambda trial: (trial.validation_accuracy or 0.0, -trial.lr))

    def rows(self) -> list[dict[str, Any]]:
        """Tidy rows for tables and charts."""
        return [asdict(trial) for trial in self.trials]


def rates(trials: int, low: float, high: float, seed: int) -> list[float]:
    """``trials`` rates with log(rate) uniform in [log low, log high], one in each of as many equal slices, rising.

    Slices keep every draw log-uniform and leave no gap by bad luck; three
    significant digits keep the commands that repeat them short.
    """
    if trials < 1 or not 0 < low < high:
        raise InputError(f"A search needs trials and 0 < low < high, got {trials} trials in [{low:g}, {high:g}].")
    place = (np.arange(trials) + numpy_stream(seed, "learning rates").random(trials)) / trials
    return [float(f"{low * (high / low) ** part:.3g}") for part in place]


def held_out(data: Data, share: float, seed: int) -> Data:
    """The training split in two, class-balanced: what is left of it, and ``share`` of it in place of the test split."""
    count = round(share * len(data.train))
    if not 0 < count < len(data.train):
        raise InputError(f"The validation share must leave points on both sides, got {share:g} of {len(data.train)}.")
    order = balanced_order(data.train.y, seed)
    name = f"{data.train.name} (validation)"
    return Data(data.train.take(np.sort(order[count:])), data.train.take(np.sort(order[:count]), name), data.name)
