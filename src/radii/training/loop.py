"""The training loop: plain torch, in-memory batches, bit-exact resume.

Everything random has an address (see :mod:`radii.randomness`) and the schedule
is a function of the step, so the state of a training is its weights, the
optimizer's buffers and the number of steps done. Killed at any moment, the
same call continues from the last checkpoint and ends with the same bits, on
the same machine type, versions and thread count.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radii import progress
from radii.data.batches import Batches
from radii.data.dataset import Dataset
from radii.data.joined_batches import JoinedBatches
from radii.errors import InputError
from radii.models.classifier import predict
from radii.models.initializations import start_from
from radii.models.io.tensor_files import write_tensors
from radii.models.memory_order import channels_last
from radii.randomness import stream_seed
from radii.training import checkpoint as checkpoints
from radii.training.distributed import Team, team
from radii.training.events import curves
from radii.training.objectives.objective import Loss, Moment, Objective
from radii.training.optimizers import WeightAverage
from radii.training.schedule import Optimizer, Recipe


@dataclass(frozen=True)
class Epoch:
    """The results of one pass over the data.

    Args:
        number: the number of the pass, from 0.
        loss: mean training loss.
        train_accuracy: mean accuracy of the batches, each measured during its own training step.
        test_accuracy: accuracy in eval mode after the pass; None if it was not measured.
    """

    number: int
    loss: float
    train_accuracy: float
    test_accuracy: float | None


@dataclass(frozen=True)
class History:
    """The training so far.

    Args:
        epochs: one entry per pass over the data.
        seconds: time spent, over all resumed parts.
    """

    epochs: tuple[Epoch, ...]
    seconds: float

    def rows(self) -> list[dict[str, Any]]:
        """Tidy rows for tables and charts."""
        return [asdict(epoch) for epoch in self.epochs]


@dataclass
class _Tally:
    """Sums over the current epoch; part of the checkpoint."""

    loss: float = 0.0
    correct: float = 0
    seen: float = 0

    def add(self, loss: float, correct: float, seen: float) -> None:
        self.loss += loss
        self.correct += correct
        self.seen += seen


@dataclass
class _Course:
    """The state of a training: everything that a checkpoint holds."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    settings: Optimizer
    path: Path | None
    average: WeightAverage | None = None
    done: int = 0
    history: list[Epoch] = field(default_factory=list)
    tally: _Tally = field(default_factory=_Tally)
    earlier: float = 0.0  # seconds spent before the last kill
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return self.earlier + time.monotonic() - self.started

    def resume(self) -> None:
        """Continue from the checkpoint, if there is one."""
        stored = None if self.path is None else checkpoints.latest(self.path)
        if stored is None:
            return
        tensors, meta = stored
        checkpoints.restore(self.model, self.optimizer, tensors)
        if self.average is not None:
            self.average.restore(checkpoints.section(tensors, "average"))
        self.done, self.history = meta["done"], [Epoch(**row) for row in meta["history"]]
        self.tally, self.earlier = _Tally(**meta["tally"]), meta["seconds"]

    def save(self) -> None:
        """Write the checkpoint, unless a weight is not finite: then the last good checkpoint stays."""
        if not all(bool(torch.isfinite(parameter).all()) for parameter in self.model.parameters()):
            raise self.diverged(f"the weights are not finite after step {self.done}")
        if self.path is not None:
            meta = {
                "done": self.done,
                "history": [asdict(epoch) for epoch in self.history],
                "tally": asdict(self.tally),
                "seconds": self.seconds,
            }
            tensors = checkpoints.state_of(self.model, self.optimizer)
            if self.average is not None:
                tensors |= {f"average/{key}": value for key, value in self.average.tensors.items()}
            write_tensors(self.path, tensors, meta)

    def diverged(self, what: str) -> InputError:
        """The error of a training whose numbers are no longer finite."""
        return InputError(
            f"Training diverged: {what}. Lower optimizer.lr, now {self.settings.lr:g}, "
            "or set optimizer.clip_gradient. The last checkpoint is kept."
        )


def train(
    model: nn.Module,
    data: Dataset,
    objective: Objective,
    recipe: Recipe,
    *,
    seed: int = 0,
    test: Dataset | None = None,
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 30.0,
    extra: Dataset | None = None,
) -> History:
    """Train ``model`` in place, on its own device.

    Under torchrun each process takes its share of every batch
    (:mod:`radii.training.distributed`).

    Args:
        model: the network.
        data: the training points.
        objective: the loss, see :mod:`radii.training.objectives`.
        recipe: length, batches, optimizer, augmentation.
        seed: the seed of shuffles, augmentation and attacks; default 0.
        test: points on which accuracy is measured after every ``recipe.test_every`` epochs; default none.
        checkpoint: file of the state; training continues from it if it exists; default none.
        checkpoint_seconds: seconds between two checkpoints; default 30.
        extra: more training points, of which every batch has the same share; default none.

    Returns:
        Loss and accuracies of every epoch.

    Raises:
        InputError: the loss or a weight is not finite (the last good checkpoint
            stays), or a setting does not fit the data.
    """
    crew, device = team(), next(model.parameters()).device
    batches = _batches(data, extra, recipe, seed)
    total = recipe.length(len(batches))
    start_from(model, recipe.init, seed)
    average = WeightAverage(model, recipe.average) if recipe.average else None
    course = _Course(model, recipe.optimizer.make(model.parameters()), recipe.optimizer, checkpoint, average)
    course.resume()
    begun, saved = course.done, time.monotonic()
    with (
        progress.task(f"training on {data.name}", total, "steps") as bar,
        torch.random.fork_rng(devices=[]),
        channels_last(model, trained=True)(),
        curves(crew.leads) as plot,
    ):
        step = crew.joined(model, objective)
        bar.advance(course.done)
        for x, y in _remaining(batches, total, course.done):
            moment = Moment(course.done, total, seed, crew.rank, crew.size)
            x, y = crew.share(x).to(device), crew.share(y).to(device)
            seen = _descend(step, course, x, y, moment, crew)
            course.tally.add(*seen)
            course.done += 1
            if average is not None:
                average.follow(model, course.done)
            plot.add(course.done, loss=seen[0] / seen[2], accuracy=seen[1] / seen[2])
            if course.done % len(batches) == 0 or course.done == total:
                watched = recipe.test_every and (len(course.history) + 1) % recipe.test_every == 0
                course.history.append(_finished_epoch(course, test if crew.leads and watched else None))
                course.tally = _Tally()
                plot.add(course.done, **_curve_points(course.history[-1]))
            speed = (course.done - begun) * batches.batch_size / (time.monotonic() - course.started)
            bar.advance(1, _note(course, speed))
            if crew.leads and time.monotonic() - saved >= checkpoint_seconds:
                course.save()
                saved = time.monotonic()
        if crew.leads:
            course.save()
    if average is not None:
        average.give(model)  # after the checkpoint, which keeps the weights that were trained
    return History(tuple(course.history), course.seconds)


def _batches(data: Dataset, extra: Dataset | None, recipe: Recipe, seed: int) -> Batches | JoinedBatches:
    if extra is not None:
        return JoinedBatches(data, extra, recipe.batch_size, recipe.extra_share, seed, recipe.augmentation)
    if recipe.extra_share:
        raise InputError("extra_share belongs to extra points; name them with --extra, or leave it out.")
    return Batches(data, recipe.batch_size, seed=seed, augment=recipe.augmentation)


def _remaining(batches: Batches | JoinedBatches, total: int, done: int) -> Iterator[tuple[Tensor, Tensor]]:
    first, start = divmod(done, len(batches))
    for epoch in range(first, math.ceil(total / len(batches))):
        begin = start if epoch == first else 0
        for number, batch in enumerate(batches.epoch(epoch, begin), epoch * len(batches) + begin):
            if number == total:
                return
            yield batch


def _descend(
    step: nn.Module, course: _Course, x: Tensor, y: Tensor, moment: Moment, crew: Team
) -> tuple[float, float, float]:
    """One optimizer step; returns the sum of losses, the correct answers and the points, over all processes."""
    course.model.train()
    settings = course.settings
    settings.set(course.optimizer, moment.number, moment.total)
    # dropout draws from the global stream; every process from its own
    torch.manual_seed(stream_seed(moment.seed, "forward", moment.number, *([crew.rank] if crew.rank else [])))
    loss: Loss = step(x, y, moment)
    correct = int((loss.logits.detach().argmax(1) == y).sum())
    summed, correct_, seen = crew.total(float(loss.value.detach()) * len(y), correct, len(y))
    if not math.isfinite(summed):
        raise course.diverged(f"the loss is {summed / seen} at step {moment.number} of {moment.total}")
    course.optimizer.zero_grad(set_to_none=True)
    loss.value.backward()
    if settings.clip_gradient:
        nn.utils.clip_grad_norm_(course.model.parameters(), settings.clip_gradient)
    course.optimizer.step()
    return summed, correct_, seen


def _finished_epoch(course: _Course, test: Dataset | None) -> Epoch:
    tally = course.tally
    accuracy = None if test is None else accuracy_on(course.model, test)
    return Epoch(len(course.history), tally.loss / tally.seen, tally.correct / tally.seen, accuracy)


def _curve_points(epoch: Epoch) -> dict[str, float]:
    return {"epoch_loss": epoch.loss, "train_accuracy": epoch.train_accuracy} | (
        {} if epoch.test_accuracy is None else {"test_accuracy": epoch.test_accuracy}
    )


def accuracy_on(model: nn.Module, data: Dataset) -> float:
    """Share of ``data`` that ``model`` classifies correctly, in eval mode."""
    device = next(model.parameters()).device
    correct = 0
    for start in range(0, len(data), 1000):
        x, y = data.tensors(slice(start, start + 1000))
        correct += int((predict(model, x.to(device)).cpu() == y).sum())
    return correct / len(data)


def _note(course: _Course, speed: float) -> str:
    tally = course.tally
    if tally.seen:
        loss, accuracy = tally.loss / tally.seen, tally.correct / tally.seen
    else:
        loss, accuracy = course.history[-1].loss, course.history[-1].train_accuracy
    return f"loss {loss:.3f}, accuracy {accuracy:.1%}, {speed:,.0f} inputs/s"
