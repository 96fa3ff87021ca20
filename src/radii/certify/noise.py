"""Gaussian noise for smoothing whose arithmetic is exact, and the votes of a classifier under it.

Adding float32 noise to float32 pixels rounds most of the sums, and what is
rounded depends on the pixel: a classifier can see through the noise (Voráček &
Hein 2023). Here inputs and noise are whole multiples of 2^-16, so their float32
sum is exact and what is certified is the classifier behind one rounding:
f(round(x + noise)), round to the grid. Moving the input to the grid costs its
distance, at most sqrt(d) * 2^-17, which is taken off the radius.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from radii.errors import InputError
from radii.models.classifier import predicted_class

GRID = 2.0**-16
LARGEST = 128.0  # |x + noise| below it: 7 bits before the point and 16 behind fit float32's 24
TAIL = 2.0**-32  # how often a Gaussian pair is longer than the generator's 6.66, and so at least how often either is
BATCH = 250  # noisy images a forward pass; more leave the cache of a CPU core

ASSUMPTIONS = (
    "the classifier sees its input rounded to multiples of 2^-16",
    "the noise generator is Gaussian up to 6.660 standard deviations; the rest is accounted for",
    "the network's float32 logits define the classifier: same device, same type",
)


@dataclass(frozen=True)
class GridNoise:
    """N(0, sigma^2) per coordinate, rounded to multiples of 2^-16."""

    sigma: float

    def __post_init__(self) -> None:
        if not GRID * 16 <= self.sigma <= LARGEST / 16:
            raise InputError(f"sigma must lie between {GRID * 16:g} and {LARGEST / 16:g}, got {self.sigma:g} instead.")

    def fill(self, buffer: Tensor, generator: Generator) -> Tensor:
        """Overwrite ``buffer``, contiguous float32, with fresh noise, in units of the grid: whole numbers.

        The noise is made on the CPU whatever the buffer's device, so its law is the same on all.
        """
        from radii.certify.gaussian import fill_rounded  # numba is slow to import

        drawn = buffer if buffer.device.type == "cpu" else torch.empty(buffer.shape)
        key = int(torch.randint(2**63 - 1, (), generator=generator))
        fill_rounded(drawn.view(-1).numpy(), np.uint64(key), np.float32(self.sigma / GRID))
        return buffer if drawn is buffer else buffer.copy_(drawn)

    def tails(self, dimensions: int) -> float:
        """Total variation between the Gaussian and the generator's draws: d * P(a pair is beyond 6.66), at most."""
        return dimensions * TAIL


def to_grid(x: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs [n, …] rounded to the grid, and how far each one moved in L2, rounded up: [n] float64."""
    if not bool(torch.isfinite(x).all()) or float(x.abs().max()) > LARGEST / 2:
        raise InputError(f"Inputs must be finite and at most {LARGEST / 2:g} in size for smoothing.")
    near = (x.double() / GRID).round() * GRID  # a power of two: both products are exact
    moved = (near - x.double()).flatten(1).norm(dim=1) * (1 + 1e-12)
    return near.float(), moved


@dataclass
class Voting:
    """Votes of a classifier on noisy copies of inputs, drawn in full batches across inputs.

    ``counts`` [n, classes + 1] int64: column -1 holds answers that are no class (NaN logits).
    """

    model: nn.Module  # in eval mode
    x: Tensor  # [n, …] on the grid
    noise: GridNoise
    generator: Generator
    counts: NDArray[np.int64]
    buffer: Tensor  # [batch, …]

    @classmethod
    def of(cls, model: nn.Module, x: Tensor, sigma: float, generator: Generator, batch: int = BATCH) -> Voting:
        """No votes yet; asks ``model`` once how many classes it has."""
        with torch.no_grad():
            classes = model(x[:1]).shape[1]
        counts = np.zeros((len(x), classes + 1), np.int64)
        return cls(model, x, GridNoise(sigma), generator, counts, x.new_empty(batch, *x.shape[1:]))

    @torch.no_grad()
    def draw(self, wanted: Sequence[tuple[int, int]]) -> None:
        """So many more votes on each row, as (row, samples); a batch may hold several rows, a row several batches."""
        for part in _batches(wanted, len(self.buffer)):
            noisy = self.noise.fill(self.buffer[: sum(samples for _, samples in part)], self.generator)
            for (row, _), copies in zip(part, noisy.split([samples for _, samples in part]), strict=True):
                torch.add(self.x[row], copies, alpha=GRID, out=copies)  # exact: see LARGEST
            self._count(part, predicted_class(self.model(noisy)).cpu())

    def _count(self, part: Sequence[tuple[int, int]], answers: Tensor) -> None:
        columns = self.counts.shape[1]
        votes = answers.numpy() % columns  # -1, no class, becomes the last column
        start = 0
        for row, samples in part:
            self.counts[row] += np.bincount(votes[start : start + samples], minlength=columns)
            start += samples


def _batches(wanted: Sequence[tuple[int, int]], size: int) -> Iterator[list[tuple[int, int]]]:
    """The same pairs cut so that each list holds ``size`` samples, the last one what is left."""
    part: list[tuple[int, int]] = []
    room = size
    for row, samples in wanted:
        while samples:
            take = min(samples, room)
            part.append((row, take))
            samples, room = samples - take, room - take
            if room == 0:
                yield part
                part, room = [], size
    if part:
        yield part
