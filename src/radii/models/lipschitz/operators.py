"""Convolutions and matrices on a stated input size, and their spectral norms: estimated, then proved.

Power iteration and Lanczos bound the norm from *below*; a certificate needs an
upper bound. Lanczos estimates s, and a Cholesky factorization of
s^2 (1 + 2e-6) I - A^T A in float64 that runs to its end proves it: then the
matrix is positive definite up to the rounding of the factorization
(Rump 2006) and of the Gram matrix, and both are added. A zero-padded
convolution is block-banded over image rows, so the proof costs
rows x (channels x columns)^3 instead of a cube of their product.

The fallback costs little: every zero-padded convolution is a compression of
a circular one on a slightly larger grid, whose norm the DFT gives. It is
about 0.3% loose on 32 x 32 images and looser on smaller ones.

Assumption: float64 matrix products and triangular solves obey the standard
error bounds (no Strassen); twice those bounds are allowed for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter, sqrt

import torch
from torch import Tensor
from torch.nn import functional as F

UNIT, UNIT32 = 2.0**-53, 2.0**-24


def rounding(terms: float) -> float:
    """Twice the relative error n u of a float64 sum of n = ``terms`` products, in any order."""
    return 2.0 * terms * UNIT


@dataclass(frozen=True)
class Operator:
    """A convolution with stride 1 in canonical form, float64.

    Output row r reads image row q through tap d = q - r + first_row, for
    q = 0 … rows-1 and r = 0 … out_rows-1; columns alike. Rows and columns
    outside are zeros. ``row_mask`` [rows, in] and ``column_mask`` [in, columns]
    are 0 where no pixel exists (strides that do not divide the size).
    """

    kernel: Tensor  # [out, in, taps, taps]
    size: tuple[int, int]
    out_size: tuple[int, int]
    first: tuple[int, int]
    row_mask: Tensor
    column_mask: Tensor

    @property
    def absolute(self) -> float:
        """An upper bound of the norm of |A|, that of S = sum_taps |K|: a constant image meets all taps at once.

        max_i (S^T S v)_i / v_i bounds the largest eigenvalue for any v > 0 (Collatz 1942);
        steps of power iteration bring it down to it.
        """
        size = self.kernel.abs().sum((2, 3))
        vector, bound = size.new_ones(size.shape[1]), inf
        for _ in range(20):
            image = size.T @ (size @ vector)
            bound = min(bound, float((image / vector).max()))
            vector = image / image.max().clamp_min(1e-300) + 1e-6
        return sqrt(bound) * (1 + rounding(2 * self.terms + 8))

    @property
    def terms(self) -> int:
        """The most products summed for one output, or for one input by the transpose."""
        out, into, height, width = self.kernel.shape
        return max(out, into) * height * width

    @cached_property
    def taps(self) -> list[Tensor]:
        """T_d [out * out_columns, in * columns] for each vertical tap d: A's blocks before row masks."""
        out, into, height, width = self.kernel.shape
        columns, out_columns = self.size[1], self.out_size[1]
        blocks = []
        for d in range(height):
            block = self.kernel.new_zeros(out, out_columns, into, columns)
            for c in range(out_columns):
                for e in range(width):
                    q = c + e - self.first[1]
                    if 0 <= q < columns:
                        block[:, c, :, q] = self.kernel[:, :, d, e] * self.column_mask[:, q]
            blocks.append(block.view(out * out_columns, into * columns))
        return blocks

    def masks(self, q: int) -> Tensor:
        """Which entries of image row q exist: [in * columns]."""
        return self.row_mask[q].repeat_interleave(self.size[1])


def matrix_operator(weight: Tensor) -> Operator:
    """The matrix ``weight`` [out, in] as a convolution of a single pixel."""
    weight = weight.detach().double().cpu()
    ones = weight.new_ones(1, weight.shape[1])
    return Operator(weight[:, :, None, None], (1, 1), (1, 1), (0, 0), ones, ones.T)


def convolution_operators(
    weight: Tensor,
    size: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[tuple[int, int], tuple[int, int]],
    dilation: tuple[int, int],
    groups: int,
) -> list[Operator]:
    """One canonical operator per group of a zero-padded convolution; the norm is their maximum.

    A stride becomes channels: pixel s q + f of a padded image is channel f of
    pixel q (PixelUnshuffle), and tap u becomes tap u // s of channel u % s.

    Args:
        weight: the kernel [out, in / groups, h, w].
        size: height and width of the image.
        stride: pixels between two outputs, per axis.
        padding: zeros before and after the image, per axis.
        dilation: pixels between two taps, per axis.
    """
    weight = _dilated(weight.detach().double().cpu(), dilation)
    return [_canonical(part, size, stride, padding) for part in weight.chunk(groups)]


def _dilated(kernel: Tensor, dilation: tuple[int, int]) -> Tensor:
    out, into, height, width = kernel.shape
    spread = kernel.new_zeros(out, into, (height - 1) * dilation[0] + 1, (width - 1) * dilation[1] + 1)
    spread[:, :, :: dilation[0], :: dilation[1]] = kernel
    return spread


def _canonical(
    kernel: Tensor, size: tuple[int, int], stride: tuple[int, int], padding: tuple[tuple[int, int], tuple[int, int]]
) -> Operator:
    out, into, *taps = kernel.shape
    out_size, first, phases, exists = [], [], [], []
    for axis in (0, 1):
        s, before = stride[axis], padding[axis][0]
        total = size[axis] + sum(padding[axis])
        out_size.append((total - taps[axis]) // s + 1)
        low, high = before // s, (before + size[axis] - 1) // s  # pixels of the unshuffled image that exist
        first.append(low)
        phases.append(-(-taps[axis] // s))
        pixel = torch.arange(low * s, (high + 1) * s).view(-1, s) - before
        exists.append(((pixel >= 0) & (pixel < size[axis])).double())  # [pixels, phase]
    s, t = stride
    padded = F.pad(kernel, (0, phases[1] * t - taps[1], 0, phases[0] * s - taps[0]))
    unshuffled = padded.view(out, into, phases[0], s, phases[1], t).permute(0, 1, 3, 5, 2, 4)
    row_mask = exists[0][:, None, :, None].expand(-1, into, -1, t).flatten(1)
    column_mask = exists[1].T[None, None, :, :].expand(into, s, -1, -1).flatten(0, 2)
    if phases == [1, 1] and bool(row_mask.all()) and bool(column_mask.all()):
        return matrix_operator(unshuffled.reshape(out, into * s * t))  # pixels do not mix
    return Operator(
        unshuffled.reshape(out, into * s * t, *phases),
        (len(exists[0]), len(exists[1])),
        (out_size[0], out_size[1]),
        (first[0], first[1]),
        row_mask,
        column_mask,
    )


FIRST_EXCESS = 2e-6  # the first proof tries this relative excess over the estimated square
DFT_ALLOWANCE = 1e-9  # relative; the backward error of FFT and eigenvalues is about 1e-13


# --- the estimate: Lanczos ------------------------------------------------------------------------


def estimated_norm(operator: Operator, vectors: int = 80) -> float:
    """The norm of ``operator`` by ``vectors`` Lanczos steps on A^T A from a fixed start: an estimate from below."""
    shape = (1, operator.kernel.shape[1], *operator.size)
    start = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return sqrt(max(lanczos(_gram_action(operator), start, vectors)[0], 0.0))


def _gram_action(operator: Operator) -> Callable[[Tensor], Tensor]:
    """x -> A^T A x on images [1, in, rows, columns]."""
    mask = (operator.row_mask.T[:, :, None] * operator.column_mask[:, None, :])[None]
    pads = []
    for axis in (1, 0):
        before = operator.first[axis]
        after = operator.out_size[axis] + operator.kernel.shape[2 + axis] - 1 - before - operator.size[axis]
        pads += [before, after]

    def action(x: Tensor) -> Tensor:
        y = F.conv2d(F.pad(x * mask, pads), operator.kernel)
        back = F.conv_transpose2d(y, operator.kernel)
        return F.pad(back, [-amount for amount in pads]) * mask

    return action


# --- the proof for matrices that are orthogonal up to rounding --------------------------------------


def near_isometry_norm(operator: Operator, most: float = 1e-3) -> float | None:
    """sqrt(1 + |W^T W - I|_F), a bound of the norm if ``operator`` is a matrix W; None if it is not.

    |W|^2 = |W^T W| <= 1 + |W^T W - I|, and the Frobenius norm bounds the spectral
    one. Computed in float64; each entry of the product is off by at most
    rounding(n) times the norms of its two columns, all of them together by
    rounding(n) |W|_F^2. None where the defect is above ``most``: then a
    factorization tells more.
    """
    weight = operator.kernel.flatten(1)
    if operator.size != (1, 1) or weight.shape[1] != operator.kernel.shape[1]:
        return None
    thin = weight if weight.shape[0] >= weight.shape[1] else weight.T
    gram = thin.T @ thin
    gram.diagonal().sub_(1.0)
    defect = float(gram.norm()) * (1 + rounding(gram.numel() + 2))
    if not defect <= most:
        return None
    slack = rounding(len(thin) + 2) * (float(weight.square().sum()) * (1 + 1e-9) + gram.shape[0])
    return nextafter(sqrt(1 + defect + slack) * (1 + 4 * UNIT), inf)


# --- the proof: banded Cholesky -------------------------------------------------------------------


def proved_norm(operator: Operator, estimate: float) -> float | None:
    """A proved upper bound of the norm of ``operator``; None where ``estimate`` is too low by more than 0.1%."""
    gram = _BandedGram(operator)
    if estimate == 0.0:
        return None if bool(operator.kernel.any()) else 0.0
    step = FIRST_EXCESS
    while step < 2e-3:
        square = estimate**2 * (1 + step)
        if gram.is_below(square):
            return nextafter(sqrt(square + gram.slack(square)) * (1 + 4 * UNIT), inf)
        step *= 8
    return None


class _BandedGram:
    """A^T A or A A^T, whichever is cheaper, as blocks over image rows."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        into, out = operator.taps[0].shape[1], operator.taps[0].shape[0]
        self.by_input = operator.size[0] * into**3 <= operator.out_size[0] * out**3
        self.block = into if self.by_input else out
        self.blocks = operator.size[0] if self.by_input else operator.out_size[0]
        self.band = min(operator.kernel.shape[2], self.blocks)
        self._products: dict[tuple[int, int, bytes], Tensor] = {}

    def at(self, i: int, j: int) -> Tensor:
        """Block (i, j) of the Gram matrix, j <= i."""
        operator, taps = self.operator, len(self.operator.taps)
        total = operator.kernel.new_zeros(self.block, self.block)
        if self.by_input:
            for r in range(operator.out_size[0]):
                d, e = i - r + operator.first[0], j - r + operator.first[0]
                if 0 <= d < taps and 0 <= e < taps:
                    total += self._product(d, e, None)
            return total * operator.masks(i)[:, None] * operator.masks(j)[None, :]
        for q in range(operator.size[0]):
            d, e = q - i + operator.first[0], q - j + operator.first[0]
            if 0 <= d < taps and 0 <= e < taps:
                total += self._product(d, e, q)
        return total

    def _product(self, d: int, e: int, q: int | None) -> Tensor:
        mask = None if q is None else self.operator.masks(q)
        key = (d, e, b"" if mask is None else mask.numpy().tobytes())
        if key not in self._products:
            first, second = self.operator.taps[d], self.operator.taps[e]
            self._products[key] = first.T @ second if mask is None else (first * mask) @ second.T
        return self._products[key]

    def is_below(self, square: float) -> bool:
        """Whether the Cholesky factorization of square I - Gram runs to its end."""
        window: dict[tuple[int, int], Tensor] = {}
        for j in range(self.blocks):
            history = range(max(0, j - self.band + 1), j)
            pivot = -self.at(j, j)
            pivot.diagonal().add_(square)
            for k in history:
                if (j, k) in window:
                    pivot -= window[j, k] @ window[j, k].T
            root, failed = torch.linalg.cholesky_ex(pivot)
            if int(failed):
                return False
            for i in range(j + 1, min(j + self.band, self.blocks)):
                below = -self.at(i, j)
                for k in history:
                    if (i, k) in window and (j, k) in window:
                        below -= window[i, k] @ window[j, k].T
                window[i, j] = torch.linalg.solve_triangular(root, below.T, upper=False).T
            window = {place: block for place, block in window.items() if place[0] > j}
        return True

    def slack(self, square: float) -> float:
        """What rounding may have hidden, as an upper bound on the error of the largest eigenvalue."""
        width = self.block * self.band
        spread = min(2 * width + 1, self.block * self.blocks)
        factorization = rounding(width + 2) * spread * square
        products = rounding(self.operator.terms + 2 * len(self.operator.taps) + 2) * self.operator.absolute**2
        return 2 * (factorization + products) + 4 * UNIT * square


def proof_cost(operator: Operator) -> float:
    """About how many operations one factorization for ``operator`` takes: pivots, solves and updates in the band."""
    by_input = operator.size[0] * (operator.kernel.shape[1] * operator.size[1]) ** 3
    by_output = operator.out_size[0] * (operator.kernel.shape[0] * operator.out_size[1]) ** 3
    below = operator.kernel.shape[2] - 1
    return float(min(by_input, by_output)) * (1 / 3 + 3 * below + below * (below - 1))


# --- the fallback: a circular convolution on a larger grid ----------------------------------------


def grid_norm(kernel: Tensor, grid: tuple[int, int]) -> float:
    """The norm of the circular convolution with ``kernel`` on ``grid``: the largest over its frequencies."""
    out, into, height, width = kernel.shape
    folded = kernel.new_zeros(out, into, *grid)
    for d in range(height):
        for e in range(width):
            folded[:, :, d % grid[0], e % grid[1]] += kernel[:, :, d, e]
    spectrum = torch.fft.rfft2(folded).permute(2, 3, 0, 1).flatten(0, 1)
    largest = 0.0
    for frequencies in spectrum.split(max(1, 2**24 // (out * into))):
        adjoint = frequencies.mH
        gram = frequencies @ adjoint if out < into else adjoint @ frequencies
        largest = max(largest, float(torch.linalg.eigvalsh(gram)[:, -1].max()))
    return sqrt(max(largest, 0.0)) * (1 + DFT_ALLOWANCE)


def fallback_norm(operator: Operator) -> float:
    """An upper bound of the norm of ``operator``, from a circular convolution that contains it.

    The grid is large enough that taps which wrap around meet only zeros.
    """
    grid = []
    for axis in (0, 1):
        taps, first = operator.kernel.shape[2 + axis], operator.first[axis]
        last = first + operator.size[axis]  # in coordinates where output r reads r … r + taps - 1
        grid.append(max(last, operator.out_size[axis] + taps - 1 - first, taps))
    return grid_norm(operator.kernel, (grid[0], grid[1]))


def lanczos(action: Callable[[Tensor], Tensor], start: Tensor, vectors: int) -> tuple[float, Tensor]:
    """The largest Ritz value of ``action`` and its unit vector, from ``start``, after ``vectors`` products.

    Fully reorthogonalized. A Ritz value never exceeds the largest eigenvalue
    (up to rounding): it is an estimate, not a bound to rely on.
    """
    shape, vector = start.shape, start.flatten()
    basis = vector.new_empty(min(vectors, len(vector)), len(vector))
    diagonal: list[float] = []
    beside: list[float] = []
    threshold = 8 * torch.finfo(vector.dtype).eps
    for count in range(len(basis)):
        length = float(vector.norm())
        if length <= threshold * max(diagonal, default=0.0) or length == 0.0:
            break
        if count:
            beside.append(length)
        basis[count] = vector / length
        vector = action(basis[count].view(shape)).flatten()
        diagonal.append(float(vector @ basis[count]))
        span = basis[: count + 1]
        for _ in range(2):
            vector = vector - span.T @ (span @ vector)
    if not diagonal:
        return 0.0, start
    off = torch.tensor(beside, dtype=torch.float64)
    tridiagonal = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    if beside:
        tridiagonal += torch.diag(off, 1) + torch.diag(off, -1)
    values, rotations = torch.linalg.eigh(tridiagonal)
    return float(values[-1]), (rotations[:, -1].to(vector) @ basis[: len(diagonal)]).view(shape)
