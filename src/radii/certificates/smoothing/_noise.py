"""Gaussian noise for smoothing whose arithmetic is exact, and the votes of a classifier under it.

Adding float32 noise to float32 pixels rounds most of the sums, and what is
rounded depends on the pixel: a classifier can see through the noise (Voráček &
Hein 2023). Here inputs and noise are whole multiples of 2^-16, so their float32
sum is exact and what is certified is the classifier behind one rounding:
f(round(x + noise)), round to the grid. Moving the input to the grid costs its
distance, at most sqrt(d) * 2^-17, which is taken off the radius.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radii.errors import InputError
from radii.networks.calling import ask

GRID = 2.0**-16
ERROR = 4e-15  # of a normal, relative to the length of its pair; tested against long doubles
LARGEST = 128.0  # |x + noise| below it: 7 bits before the point and 16 behind fit float32's 24
SIGMA_MOST = 7.0  # |x| <= 64 and 8.58 standard deviations stay below LARGEST
BATCH = 250  # noisy images a forward pass; more leave the cache of a CPU core

ASSUMPTIONS = (
    "the classifier sees its input rounded to multiples of 2^-16",
    "the noise generator's words are uniform and independent; its distance from a Gaussian is accounted for",
    "the network's float32 logits define the classifier: same device, same type",
)


@dataclass(frozen=True)
class GridNoise:
    """N(0, sigma^2) per coordinate, rounded to multiples of 2^-16."""

    sigma: float

    def __post_init__(self) -> None:
        if not GRID * 16 <= self.sigma <= SIGMA_MOST:
            raise InputError(f"sigma must lie between {GRID * 16:g} and {SIGMA_MOST:g}, got {self.sigma:g} instead.")

    def tails(self, dimensions: int) -> float:
        """Total variation between the Gaussian rounded to the grid and the generator's draws, at most.

        Draw a true pair by Box & Muller from real u and v whose first 52 bits are the generator's. Both
        coordinates are computed to within ERROR times the pair's length (that covers the cut of v), which is
        at most |x| + |y| with mean 1.6. The cut of u moves the length R by 2^-53 / (u R), on average
        2^-53 * 8.58. A coordinate rounds to another cell than the true one only within that distance of a
        cell's border: with probability at most 2.2 times the mean distance in cells (twice that for the cut of
        u), since a cell is at most 1/16 of sigma wide. Pairs beyond the generator's reach have probability 2^-52.
        """
        cells = self.sigma / GRID
        return dimensions * (2.2 * cells * (1.6 * ERROR + 2 * 8.6 * 2.0**-53) + 2.0**-52)


def to_grid(x: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs ``x`` [n, …] rounded to the grid, and the L2 distance that each one moved, rounded up: [n] float64."""
    if not bool(torch.isfinite(x).all()) or float(x.abs().max()) > LARGEST / 2:
        raise InputError(f"Inputs must be finite and at most {LARGEST / 2:g} in size for smoothing.")
    near = (x.double() / GRID).round() * GRID  # a power of two: both products are exact
    moved = (near - x.double()).flatten(1).norm(dim=1) * (1 + 1e-12)
    return near.float(), moved


@dataclass
class Voting:
    """Votes of a classifier on noisy copies of inputs, drawn in full batches across inputs.

    Noise is made and added on the CPU, so that its law is the same whatever
    device classifies: the stream of ``key`` from ``counter`` on. ``counts``
    [n, classes + 1] int64: column -1 holds answers that are no class (NaN logits).
    """

    model: nn.Module  # in eval mode
    x: Tensor  # [n, …] on the grid, on the CPU
    device: torch.device  # the model's
    noise: GridNoise
    key: int
    counts: NDArray[np.int64]
    buffer: Tensor  # [batch, …]
    counter: int = 0

    @classmethod
    def of(cls, model: nn.Module, x: Tensor, sigma: float, seed: int, batch: int = BATCH) -> Voting:
        """No votes yet; asks ``model`` once how many classes it has."""
        with torch.no_grad():
            classes = ask(model, x[:1]).shape[1]
        counts = np.zeros((len(x), classes + 1), np.int64)
        own = x.cpu().contiguous()
        return cls(model, own, x.device, GridNoise(sigma), seed % 2**64, counts, own.new_empty(batch, *x.shape[1:]))

    @torch.no_grad()
    def draw(self, wanted: Sequence[tuple[int, int]]) -> None:
        """So many more votes on each row, as (row, samples); a batch may hold several rows, a row several batches."""
        from radii.certificates.smoothing._noise_kernels import count_votes  # numba is slow to import

        places, samples = np.array(wanted, np.int64).reshape(-1, 2).T
        rows = np.repeat(places, samples)
        for start in range(0, len(rows), len(self.buffer)):
            part = rows[start : start + len(self.buffer)]
            logits = ask(self.model, self.noisy(part).to(self.device))
            count_votes(self.counts, part, logits.double().cpu().numpy())  # exact from any type

    def noisy(self, rows: NDArray[np.int64]) -> Tensor:
        """Fresh noisy copies of these inputs, [m, …], in the buffer."""
        from radii.certificates.smoothing._noise_kernels import add_rows, counters_of, fill_rounded

        copies = self.buffer[: len(rows)]
        flat = copies.view(len(rows), -1).numpy()
        fill_rounded(flat.reshape(-1), np.uint64(self.key), self.counter, np.float64(self.noise.sigma / GRID))
        self.counter += counters_of(flat.size)
        add_rows(flat, np.float32(GRID), self.x.view(len(self.x), -1).numpy(), rows)  # exact: see LARGEST
        return copies
