"""Batches of a dataset and extra points: a fixed share of every batch comes from each."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from radii.data.batches import Augmentation, Batches
from radii.data.dataset import Dataset
from radii.errors import InputError


class JoinedBatches:
    """Shuffled batches with the same number of extra points in each; an epoch is a pass over the own points.

    The extra points are passed at their own pace: they are shuffled anew when all
    were seen, wherever that is within an epoch. Every batch is a function of
    (seed, epoch, step), as in :class:`Batches`.

    Args:
        dataset: the own points.
        extra: the extra points.
        batch_size: points in one batch, of both together.
        share: the share of extra points in a batch; 0 for their share of all points.
        seed: of the shuffles and the augmentation.
        augment: random changes of the images, own and extra; default none.

    Raises:
        InputError: the points do not fit together, or a batch would lack own or extra points.
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
        check_extra(dataset, extra)
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


def check_extra(dataset: Dataset, extra: Dataset) -> None:
    """Raise an InputError unless ``extra`` has the inputs and classes of ``dataset``."""
    if extra.shape != dataset.shape or len(extra.classes) != len(dataset.classes):
        raise InputError(
            f"Extra points must be like those of {dataset.name}, inputs {dataset.shape} of {len(dataset.classes)} "
            f"classes, got {extra.shape} of {len(extra.classes)} classes from {extra.name} instead."
        )
