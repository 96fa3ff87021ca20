"""Learning-rate search: log-uniform rates, each a training of its own, judged on points held out of the train split.

Every training is a run, so a killed search continues and nothing is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from radii.errors import InputError
from radii.randomness import numpy_stream
from radii.runs.executors import Observer, executor_named, raise_failures
from radii.runs.step_results import TrainResult
from radii.runs.steps.train_step import Train
from radii.runs.store import Run, Store

DIVERGED = "Training diverged"


@dataclass(frozen=True)
class RateTrial:
    """One learning rate and the accuracies it reached; None if the training diverged."""

    lr: float
    validation_accuracy: float | None
    train_accuracy: float | None
    run: str | None


@dataclass(frozen=True)
class RateSearch:
    """All trials, by rising rate."""

    trials: tuple[RateTrial, ...]

    @property
    def best(self) -> RateTrial:
        """The trial of highest validation accuracy; of equals the smallest rate."""
        finished = [trial for trial in self.trials if trial.validation_accuracy is not None]
        if not finished:
            raise InputError("Every learning rate of the search diverged; search lower with --low and --high.")
        return max(finished, key=lambda trial: (trial.validation_accuracy or 0.0, -trial.lr))

    def rows(self) -> list[dict[str, Any]]:
        """Tidy rows for tables and charts."""
        return [asdict(trial) for trial in self.trials]


def draw_rates(trials: int, low: float, high: float, seed: int) -> list[float]:
    """Learning rates with log(rate) uniform in [log low, log high], one in each of ``trials`` equal slices, rising.

    Slices keep every draw log-uniform and leave no gap by chance. Rates have three
    significant digits, so that the commands that repeat them are short.
    """
    if trials < 1 or not 0 < low < high:
        raise InputError(f"A search needs trials and 0 < low < high, got {trials} trials in [{low:g}, {high:g}].")
    place = (np.arange(trials) + numpy_stream(seed, "learning rates").random(trials)) / trials
    return [float(f"{low * (high / low) ** part:.3g}") for part in place]


def _trial_steps(template: Train, rates: Sequence[float], validation: float) -> list[Train]:
    """One training for each rate.

    Args:
        validation: share of the train split that is held out and tested on.
    """
    steps = []
    for rate in rates:
        optimizer = template.recipe.optimizer.model_copy(update={"lr": rate})
        recipe = template.recipe.model_copy(update={"optimizer": optimizer})
        steps.append(template.model_copy(update={"recipe": recipe, "validation": validation}))
    return steps


def search_rates(
    template: Train, rates: Sequence[float], *, store: Store, validation: float = 0.1, workers: int | None = None
) -> RateSearch:
    """Train at every rate; a training that diverges is recorded as such and does not stop the others.

    Args:
        validation: share of the train split that is held out.
        workers: worker processes; 0 computes in this process, None takes one per core.
    """
    steps = _trial_steps(template, rates, validation)
    failures = executor_named("processes", workers).run(steps, store, Observer())
    raise_failures({run_id: error for run_id, error in failures.items() if DIVERGED not in str(error)})
    return RateSearch(tuple(_trial(step, store) for step in steps))


def _trial(step: Train, store: Store) -> RateTrial:
    rate = step.recipe.optimizer.lr
    if not store.is_done(step):
        return RateTrial(rate, None, None, None)
    run = Run(store.folder(step))
    result = run.read(TrainResult)
    return RateTrial(rate, result.test_accuracy, result.train_accuracy, run.id)
