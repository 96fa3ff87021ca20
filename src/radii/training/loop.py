"""The training loop: plain torch, in-memory batches, bit-exact resume.

Everything random has an address (see :mod:`radii.randomness`) and the schedule
is a function of the step, so the state of a training is its weights, the
optimizer's buffers and the number of steps done. Killed at any moment, the
same call continues from the last checkpoint and ends with the same bits, on
the same machine type, versions and thread count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from radii import progress
from radii.data.batches import Augmentation, Batches
from radii.data.dataset import Dataset
from radii.errors import InputError
from radii.models.classifier import predict
from radii.randomness import stream_seed
from radii.spec import Spec
from radii.training import checkpoint as checkpoints
from radii.training.objectives.objective import Loss, Moment, Objective
from radii.training.schedule import Optimizer


class Recipe(Spec):
    """How to train: length, batches, optimizer, augmentation."""

    epochs: int = Field(20, ge=1)
    batch_size: int = Field(256, ge=1)
    optimizer: Optimizer = Optimizer()
    augmentation: Augmentation = Augmentation()


@dataclass(frozen=True)
class Epoch:
    """What one pass over the data showed."""

    number: int
    loss: float
    train_accuracy: float  # while training: running mean over the epoch's batches
    test_accuracy: float | None


@dataclass(frozen=True)
class History:
    """The training so far, one row an epoch."""

    epochs: tuple[Epoch, ...]
    seconds: float

    def rows(self) -> list[dict[str, Any]]:
        """Tidy rows for tables and charts."""
        return [asdict(epoch) for epoch in self.epochs]


@dataclass
class _Tally:
    """Sums over the epoch in progress; part of the checkpoint."""

    loss: float = 0.0
    correct: int = 0
    seen: int = 0

    def add(self, loss: Loss, y: Tensor) -> None:
        self.loss += float(loss.value.detach()) * len(y)
        self.correct += int((loss.logits.detach().argmax(1) == y).sum())
        self.seen += len(y)


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
) -> History:
    """Train ``model`` in place on its own device; continues from ``checkpoint`` if it exists.

    A loss that is not a number stops the training with a sentence and leaves
    the last good checkpoint where it is.
    """
    device = next(model.parameters()).device
    batches = Batches(data, recipe.batch_size, seed=seed, augment=recipe.augmentation)
    settings = recipe.optimizer
    optimizer = torch.optim.SGD(
        model.parameters(), lr=settings.lr, momentum=0.9, nesterov=True, weight_decay=settings.weight_decay
    )
    total = recipe.epochs * len(batches)
    done, history, tally, earlier = 0, [], _Tally(), 0.0
    if checkpoint is not None and checkpoint.exists():
        tensors, meta = checkpoints.read(checkpoint)
        checkpoints.restore(model, optimizer, tensors)
        done, history = meta["done"], [Epoch(**row) for row in meta["history"]]
        tally, earlier = _Tally(**meta["tally"]), meta["seconds"]
    started = saved = time.monotonic()

    def save() -> None:
        if checkpoint is not None:
            meta = {
                "done": done,
                "history": [asdict(epoch) for epoch in history],
                "tally": asdict(tally),
                "seconds": earlier + time.monotonic() - started,
            }
            checkpoints.write(checkpoint, checkpoints.state_of(model, optimizer), meta)

    with progress.task(f"training on {data.name}", total, "steps") as bar, torch.random.fork_rng(devices=[]):
        bar.advance(done)
        for x, y in _remaining(batches, recipe.epochs, done):
            moment = Moment(done, total, seed)
            torch.manual_seed(stream_seed(seed, "forward", done))  # dropout draws from the global stream
            loss = _descend(model, objective, optimizer, settings, x.to(device), y.to(device), moment)
            tally.add(loss, y.to(device))
            done += 1
            if done % len(batches) == 0:
                history.append(_finished_epoch(len(history), tally, model, test))
                tally = _Tally()
            bar.advance(1, _note(history, tally))
            if time.monotonic() - saved >= checkpoint_seconds:
                save()
                saved = time.monotonic()
        save()
    return History(tuple(history), earlier + time.monotonic() - started)


def _remaining(batches: Batches, epochs: int, done: int) -> Iterator[tuple[Tensor, Tensor]]:
    first, start = divmod(done, len(batches))
    for epoch in range(first, epochs):
        yield from batches.epoch(epoch, start if epoch == first else 0)


def _descend(
    model: nn.Module,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    settings: Optimizer,
    x: Tensor,
    y: Tensor,
    moment: Moment,
) -> Loss:
    model.train()
    rate, momentum = settings.at(moment.number, moment.total)
    for group in optimizer.param_groups:
        group["lr"], group["momentum"] = rate, momentum
        group["nesterov"] = momentum > 0  # Nesterov without momentum is plain SGD
    loss = objective.loss(model, x, y, moment)
    if not bool(torch.isfinite(loss.value)):
        raise InputError(
            f"Training diverged: the loss is {float(loss.value.detach())} at step {moment.number} of {moment.total}. "
            f"Lower optimizer.lr, now {settings.lr:g}, or set optimizer.clip_gradient. The last checkpoint is kept."
        )
    optimizer.zero_grad(set_to_none=True)
    loss.value.backward()
    if settings.clip_gradient:
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip_gradient)
    optimizer.step()
    return loss


def _finished_epoch(number: int, tally: _Tally, model: nn.Module, test: Dataset | None) -> Epoch:
    accuracy = None if test is None else accuracy_on(model, test)
    return Epoch(number, tally.loss / tally.seen, tally.correct / tally.seen, accuracy)


def accuracy_on(model: nn.Module, data: Dataset) -> float:
    """Share of ``data`` that ``model`` classifies correctly, in eval mode."""
    device = next(model.parameters()).device
    correct = 0
    for start in range(0, len(data), 1000):
        x, y = data.tensors(slice(start, start + 1000))
        correct += int((predict(model, x.to(device)).cpu() == y).sum())
    return correct / len(data)


def _note(history: list[Epoch], tally: _Tally) -> str:
    if tally.seen:
        return f"loss {tally.loss / tally.seen:.3f}, accuracy {tally.correct / tally.seen:.1%}"
    last = history[-1]
    return f"loss {last.loss:.3f}, accuracy {last.train_accuracy:.1%}"
