"""The training loop: plain torch, in-memory batches, bit-exact resume.

Everything random has an address (see :mod:`radii.randomness`) and the schedule
is a function of the step, so the state of a training is its weights, the
optimizer's buffers and the number of steps done. Killed at any moment, the
same call continues from the last checkpoint and gives the same bits, on
the same machine type, versions and thread count.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radii import progress
from radii.data.batches import Batches, JoinedBatches
from radii.data.dataset import Dataset
from radii.errors import InputError
from radii.models.classifier import channels_last, predict
from radii.models.io.bundle import start_from
from radii.models.io.weights import read_tensors, write_tensors
from radii.randomness import stream_seed
from radii.training import logs
from radii.training.distributed import ProcessGroup, current_group
from radii.training.history import Epoch, History, Watched
from radii.training.objectives.objective import Loss, Objective, TrainingProgress
from radii.training.optimizers import WeightAverage
from radii.training.overfitting import HeldOut
from radii.training.precision import computed_in
from radii.training.schedule import Optimizer, Recipe


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
    watched: list[Watched] = field(default_factory=list)
    earlier: float = 0.0  # seconds spent before the last kill
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return self.earlier + time.monotonic() - self.started

    def resume(self) -> None:
        """Continue from the checkpoint, if there is one."""
        stored = None if self.path is None else _latest_checkpoint(self.path)
        if stored is None:
            return
        tensors, meta = stored
        _restore_state(self.model, self.optimizer, tensors)
        if self.average is not None:
            self.average.restore(section(tensors, "average"))
        self.done, self.history = meta["done"], [Epoch(**row) for row in meta["history"]]
        self.tally, self.earlier = _Tally(**meta["tally"]), meta["seconds"]
        self.watched = [Watched(**row) for row in meta.get("watched", ())]

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
                "watched": [asdict(look) for look in self.watched],
            }
            tensors = _state_of(self.model, self.optimizer)
            if self.average is not None:
                tensors |= {f"average/{key}": value for key, value in self.average.tensors.items()}
            write_tensors(self.path, tensors, meta)

    def look(self, held_out: HeldOut, now: TrainingProgress, group: ProcessGroup) -> None:
        """Watch for catastrophic overfitting; once seen, it counts until the end of the training."""
        look = held_out.look(self.model, now)
        seen = look.overfits or any(earlier.overfits for earlier in self.watched)
        self.watched.append(replace(look, overfits=group.agreed(seen)))

    def log(self, group: ProcessGroup, **values: float) -> None:
        """Tell the logs of this context; the folder of the checkpoint is the run's."""
        name = "training" if self.path is None else self.path.parent.name
        for log in logs.current() if group.is_main_process else ():
            log.add(name, self.done, values)

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
        seed: the seed of shuffles, augmentation and attacks; default 0.
        test: points on which accuracy is measured after every ``recipe.test_every`` epochs; default none.
        checkpoint: file of the state; training continues from it if it exists; default none.
        checkpoint_seconds: seconds between two checkpoints; default 30.
        extra: more training points, of which every batch has the same share; default none.
    """
    group, device = current_group(), next(model.parameters()).device
    held_out = HeldOut.of(objective, data, recipe.watch, seed) if recipe.watch else None
    data = data if held_out is None else held_out.rest
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
        computed_in(recipe.precision, model),
    ):
        step = group.joined(model, objective)
        bar.advance(course.done)
        for x, y in _remaining(batches, total, course.done):
            several = bool(course.watched) and course.watched[-1].overfits
            now = TrainingProgress(course.done, total, seed, group.rank, group.size, several)
            x, y = group.share(x).to(device), group.share(y).to(device)
            seen = _descend(step, course, x, y, now, group)
            course.tally.add(*seen)
            course.done += 1
            if average is not None:
                average.follow(model, course.done)
            if held_out is not None and held_out.is_due(course.done, total):
                course.look(held_out, TrainingProgress(course.done, total, seed), group)
            course.log(group, loss=seen[0] / seen[2], accuracy=seen[1] / seen[2])
            if course.done % len(batches) == 0 or course.done == total:
                watched = recipe.test_every and (len(course.history) + 1) % recipe.test_every == 0
                course.history.append(_finished_epoch(course, test if group.is_main_process and watched else None))
                course.tally = _Tally()
                course.log(group, **_figures(course.history[-1]))
            speed = (course.done - begun) * batches.batch_size / (time.monotonic() - course.started)
            bar.advance(1, _note(course, speed))
            if group.is_main_process and time.monotonic() - saved >= checkpoint_seconds:
                course.save()
                saved = time.monotonic()
        if group.is_main_process:
            course.save()
    if average is not None:
        average.give(model)  # after the checkpoint, which keeps the weights that were trained
    return History(tuple(course.history), course.seconds, tuple(course.watched))


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
    step: nn.Module, course: _Course, x: Tensor, y: Tensor, now: TrainingProgress, group: ProcessGroup
) -> tuple[float, float, float]:
    """One optimizer step; returns the sum of losses, the correct answers and the points, over all processes."""
    course.model.train()
    settings = course.settings
    settings.set(course.optimizer, now.number, now.total)
    # dropout draws from the global stream; every process from its own
    torch.manual_seed(stream_seed(now.seed, "forward", now.number, *([group.rank] if group.rank else [])))
    loss: Loss = step(x, y, now)
    correct = int((loss.logits.detach().argmax(1) == y).sum())
    summed, correct_, seen = group.total(float(loss.value.detach()) * len(y), correct, len(y))
    if not math.isfinite(summed):
        raise course.diverged(f"the loss is {summed / seen} at step {now.number} of {now.total}")
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


def _figures(epoch: Epoch) -> dict[str, float]:
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


def _latest_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and JSON data of the checkpoint ``path``; None without one, or if it is damaged, which renames it."""
    if not path.exists():
        return None
    try:
        tensors, meta = read_tensors(path)
        if not meta:
            raise InputError(f"{path} is not a checkpoint of radii.")
        return tensors, meta
    except InputError as error:
        with suppress(FileNotFoundError):  # another process of the same training was faster
            path.rename(_damaged(path))
        logging.getLogger("radii").warning("%s It is renamed; the training starts from the beginning.", error)
        return None


def _damaged(path: Path) -> Path:
    """The new name of the checkpoint ``path`` if it cannot be read."""
    return path.with_name(f"damaged-{path.name}")


def _state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights and buffers of ``model`` and the tensors of ``optimizer``, each under one flat name."""
    tensors = {f"model/{key}": value for key, value in model.state_dict().items()}
    for number, state in optimizer.state_dict()["state"].items():
        for key, value in state.items():
            if value is not None:
                tensors[f"optimizer/{number}/{key}"] = torch.as_tensor(value)
    return tensors


def _restore_state(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Copy ``tensors``, which :func:`_state_of` collected, into ``model`` and ``optimizer``."""
    model.load_state_dict(section(tensors, "model"))
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer/"):
            _, number, name = key.split("/", 2)
            state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def section(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """Those ``tensors`` of a checkpoint whose names begin with ``name``, without that prefix."""
    return {key.removeprefix(f"{name}/"): value for key, value in tensors.items() if key.startswith(f"{name}/")}
