"""Shuffled and augmented batches from memory; every random draw is a function of (seed, epoch, step).

There is no state to save: a run that resumes at epoch 7, step 31 asks for that
step and gets the same bits. Pixels stay uint8 until their batch is needed, and
augmentation is a few tensor operations on the whole batch, on its device.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from radii.data.augmentation import Augmentation
from radii.data.dataset import Dataset, as_float
from radii.errors import InputError
from radii.randomness import stream


class Batches:
    """Shuffled batches of a dataset: float32 inputs and int64 labels on ``device``.

    An incomplete last batch is left out; its points come back in another epoch. A
    dataset smaller than one batch is one batch.

    Args:
        augment: random changes of the images; default none.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        seed: int = 0,
        augment: Augmentation | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        if batch_size < 1:
            raise InputError(f"The batch size must be at least 1, got {batch_size} instead.")
        self.batch_size = min(batch_size, len(dataset))
        self.augment = augment or Augmentation()
        self.augment.check(dataset.shape)
        self._seed, self._device = seed, torch.device(device)
        x = dataset.x if dataset.x.flags.writeable else np.array(dataset.x)  # torch refuses read-only memory
        self._x, self._y = torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(np.array(dataset.y))

    def __len__(self) -> int:
        """Steps of one epoch."""
        return len(self._y) // self.batch_size

    @cached_property
    def mean(self) -> Tensor:
        """The mean of each channel (of each feature, for features), in [0, 1] units."""
        dims = [0, 2, 3] if self._x.dim() == 4 else [0]
        chunks = [part.double().sum(dims) for part in self._x.split(4096)]
        count = self._x.numel() // len(chunks[0])
        scale = 255 if self._x.dtype == torch.uint8 else 1
        return (torch.stack(chunks).sum(0) / (count * scale)).float()

    def order(self, epoch: int) -> Tensor:
        """The permutation of the points in ``epoch``."""
        return torch.randperm(len(self._y), generator=stream(self._seed, "shuffle", epoch))

    def epoch(self, number: int, start_step: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of epoch ``number`` from ``start_step`` on."""
        order = self.order(number)
        for step in range(start_step, len(self)):
            rows = order[step * self.batch_size : (step + 1) * self.batch_size]
            x = torch.from_numpy(as_float(self._x[rows].numpy())).to(self._device)
            if self.augment.changes:
                x = self.augment(x, stream(self._seed, "augment", number, step), self.mean)
            yield x, self._y[rows].to(self._device)


class JoinedBatches:
    """Shuffled batches with the same number of extra points in each; an epoch is a pass over the own points.

    Extra points are cycled through independently: they are shuffled anew when all
    were seen, wherever that is within an epoch. Every batch is a function of
    (seed, epoch, step), as in :class:`Batches`.

    Args:
        share: the share of extra points in a batch; 0 for their share of all points.
        augment: random changes of the images, own and extra; default none.
    """

    def __init__(
        self,
        dataset: Dataset,
        extra: Dataset,
        batch_size: int,
        share: float = 0.0,
        seed: int = 0,
        augment: Augmentation | None = None,
    ) -> None:
        _check_extra(dataset, extra)
        self.share = share or len(extra) / (len(dataset) + len(extra))
        count = round(batch_size * self.share)
        if not 0 < count < batch_size:
            raise InputError(
                f"A batch must have own and extra points: {self.share:.3g} of {batch_size} points are {count}; "
                "change batch_size or extra_share."
            )
        self._own = Batches(dataset, batch_size - count, seed, augment)
        self._extra = Batches(extra, count, seed + 1, augment)
        self.batch_size = self._own.batch_size + self._extra.batch_size

    def __len__(self) -> int:
        """Steps of one epoch."""
        return len(self._own)

    def epoch(self, number: int, start_step: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of epoch ``number`` from ``start_step`` on."""
        extra = self._endless(number * len(self) + start_step)
        for (x, y), (more_x, more_y) in zip(self._own.epoch(number, start_step), extra, strict=False):
            yield torch.cat([x, more_x]), torch.cat([y, more_y])

    def _endless(self, step: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The extra batches from the ``step``-th on."""
        epoch, start = divmod(step, len(self._extra))
        while True:
            yield from self._extra.epoch(epoch, start)
            epoch, start = epoch + 1, 0


def _check_extra(dataset: Dataset, extra: Dataset) -> None:
    """Raise an InputError unless ``extra`` has the inputs and classes of ``dataset``."""
    if extra.shape != dataset.shape or len(extra.classes) != len(dataset.classes):
        raise InputError(
            f"Extra points must be like those of {dataset.name}, inputs {dataset.shape} of {len(dataset.classes)} "
            f"classes, got {extra.shape} of {len(extra.classes)} classes from {extra.name} instead."
        )
