"""The learning-rate search as a set of trainings: each a run, so a killed search continues and nothing is repeated."""

from __future__ import annotations

from collections.abc import Sequence

from radii.runs.executors import FailedStepsError, run_here, run_processes
from radii.runs.steps import Train
from radii.runs.store import Run, Store
from radii.training.rate_trials import Search, Trial

DIVERGED = "Training diverged"


def trial_steps(template: Train, rates: Sequence[float], validation: float) -> list[Train]:
    """``template`` with each of ``rates``, trained on a part and tested on the ``validation`` share held out."""
    steps = []
    for rate in rates:
        optimizer = template.recipe.optimizer.model_copy(update={"lr": rate})
        recipe = template.recipe.model_copy(update={"optimizer": optimizer})
        steps.append(template.model_copy(update={"recipe": recipe, "validation": validation}))
    return steps


def search(
    template: Train, rates: Sequence[float], *, validation: float = 0.1, store: Store, workers: int | None = None
) -> Search:
    """Train at every rate; one that diverges is told as such and does not stop the others."""
    steps = trial_steps(template, rates, validation)
    if workers == 0:
        for step in steps:
            _tolerant(step, store)
    else:
        try:
            run_processes(steps, store, workers)
        except Exception as error:
            if not _only_divergence(error):
                raise
    return Search(tuple(_trial(step, store) for step in steps))


def _tolerant(step: Train, store: Store) -> None:
    try:
        run_here([step], store)
    except ValueError as error:
        if DIVERGED not in str(error):
            raise


def _only_divergence(error: Exception) -> bool:
    failures = list(error.failures.values()) if isinstance(error, FailedStepsError) else [error]
    return all(DIVERGED in str(failure) for failure in failures)


def _trial(step: Train, store: Store) -> Trial:
    rate = step.recipe.optimizer.lr
    if not store.is_done(step):
        return Trial(rate, None, None, None)
    run = Run(store.folder(step))
    return Trial(rate, run.result["test_accuracy"], run.result["train_accuracy"], run.id)
