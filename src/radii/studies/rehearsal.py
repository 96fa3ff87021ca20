"""The time of a step that nobody has measured: a few optimizer steps or points of it are done first.

Two rehearsals of different lengths give a fixed cost and a cost per unit:
seconds = t(2) + (amount - 2) (t(6) - t(2)) / 4. The network of a rehearsed
measurement has had one optimizer step, so an attack may end sooner on it
than on a trained one: the figure is an estimate.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from radii.errors import InputError
from radii.progress import display
from radii.runs.step import Step, plan
from radii.runs.steps import Train
from radii.runs.store import Store

FEW, MORE = 2, 6


def rehearse(step: Step, device: str = "cpu") -> float | None:
    """The expected seconds of ``step``, from two short versions of it in a temporary store.

    Args:
        step: a training, or a measurement of test points of a trained network.
        device: where it will be computed.

    Returns:
        Seconds, or None where the step has no short version, its data is not on this machine, or it cannot run.
    """
    with TemporaryDirectory() as folder, display(None):
        store = Store(Path(folder), device)
        try:
            amount = _amount(step)
            if amount is None or not _registered(step):
                return None
            _seconds(step, 1, store)  # the first one also loads libraries and compiles
            few, more = (_seconds(step, count, store) for count in (FEW, MORE))
        except InputError:
            return None
    return few + max(0.0, amount - FEW) * max(0.0, more - few) / (MORE - FEW)


def _seconds(step: Step, count: int, store: Store) -> float:
    """The time of the short version with ``count`` units, its inputs not counted."""
    short = _shortened(step, count)
    for needed in plan([short])[:-1]:
        store.ensure(needed)
    start = perf_counter()
    store.ensure(short)
    return perf_counter() - start


def _shortened(step: Step, count: int) -> Step:
    """``count`` optimizer steps of a training, or points of a measurement of a network after one step."""
    if isinstance(step, Train):
        recipe = step.recipe.model_copy(update={"steps": count, "test_every": 0})
        return step.model_copy(update={"recipe": recipe})
    model = getattr(step, "model")  # noqa: B009  (only some steps have one)
    return step.model_copy(update={"points": count, "model": _shortened(model, 1)})


def _amount(step: Step) -> float | None:
    """Optimizer steps of a training, points of a measurement; None for other steps."""
    if isinstance(step, Train):
        recipe = step.recipe
        return float(recipe.steps or recipe.epochs * -(-len(step.data.load().train) // recipe.batch_size))
    points, model, data = (getattr(step, name, None) for name in ("points", "model", "data"))
    if points is None or data is None or not isinstance(model, Train):
        return None
    return float(min(points, len(data.load().test)))


def _registered(step: Step) -> bool:
    """Whether the step names only what the package knows: no user's code runs while a study is planned."""
    trainings = [needed for needed in plan([step]) if isinstance(needed, Train)]
    return not any(":" in part.name for training in trainings for part in (training.model, training.method))
