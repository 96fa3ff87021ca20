"""The inner loops of bounds, compiled by numba at first use and cached on disk.

Numba is slow to import: this module is imported where a bound is large enough to need it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

HALVINGS = 24
DECAY, SQUARES = 0.9, 0.999  # of Adam: means and squares
_FAST = {"contract", "reassoc", "nsz"}  # sums may be in any order: their rounding is accounted for


@njit(cache=True, nogil=True, error_model="numpy")
def cut_ball(
    A: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    center: NDArray[np.float64],
    radius: float,
    x: NDArray[np.float64],
    rest: NDArray[np.float64],
) -> None:
    """Fill ``x`` [R, d] and ``rest`` [R] so that A[r] . z >= A[r] . x[r] + rest[r] for all z of ball and box r.

    Boxes have the ends ``low`` and ``high`` [R, d], balls the ``center`` [R, d] and one ``radius``. The constant has
    m (|x - c|^2 + r^2) times its rounding taken off.
    """
    rows, size = A.shape
    for r in range(rows):
        length = 0.0
        for j in range(size):
            length += A[r, j] * A[r, j]
        least_, most = 0.0, np.sqrt(length) / (2 * radius) + 1e-300
        for _ in range(HALVINGS):
            middle = (least_ + most) / 2
            far = 0.0
            for j in range(size):
                step = min(max(center[r, j] - A[r, j] / (2 * middle + 1e-300), low[r, j]), high[r, j]) - center[r, j]
                far += step * step
            if far > radius * radius:
                least_ = middle
            else:
                most = middle
        away = 0.0
        for j in range(size):
            x[r, j] = min(max(center[r, j] - A[r, j] / (2 * most + 1e-300), low[r, j]), high[r, j])
            away += (x[r, j] - center[r, j]) ** 2
        rest[r] = most * (away - radius * radius) - most * (away + radius * radius) * (size + 8) * 2.0**-50


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def through_relu(
    A: NDArray[Any],
    dom: NDArray[np.int64],
    under: NDArray[Any],
    alpha: NDArray[Any],
    extra: NDArray[Any],
    over: NDArray[Any],
    lift: NDArray[Any],
    error: NDArray[Any],
    bias: NDArray[Any],
    raised: float,
    total: NDArray[np.float64],
) -> None:
    """Overwrite rows ``A`` [R, d] of a ReLU's result with rows of its input, and add their constants to ``total``.

    A . relu(z) >= A' . z + constant, with A' = ``under`` A where A > 0 and ``over`` A elsewhere, and the constant
    ``lift`` A where A < 0; then A' . ``bias`` - |A'| . ``error`` of the layer that computes z. Sums are float64;
    ``raised`` is at least 1 and makes the constant, which is negative, larger than its rounding. Row r has the
    slopes and errors of domain ``dom[r]``; ``alpha`` [R, d] or [0, d] takes the place of ``under`` where a ReLU is
    open, and ``extra`` [R, d] or [0, d] is added to A'.
    """
    rows, size = A.shape
    for r in range(rows):
        d = dom[r]
        lower, upper, offset, slack = under[d], over[d], lift[d], error[d]
        constant, rest = 0.0, 0.0
        row = A[r]
        for j in range(size):
            positive, negative = max(row[j], 0), min(row[j], 0)
            slope = alpha[r, j] if alpha.shape[0] > 0 and offset[j] > 0 else lower[j]
            back = positive * slope + negative * upper[j]
            if extra.shape[0] > 0:
                back += extra[r, j]
            row[j] = back
            constant += negative * offset[j]
            rest += back * bias[j] - abs(back) * slack[j]
        total[r] += constant * raised + rest


@njit(cache=True, nogil=True, error_model="numpy")
def along_lines(
    A: NDArray[Any],
    z: NDArray[Any],
    alpha: NDArray[Any],
    dom: NDArray[np.int64],
    under: NDArray[Any],
    over: NDArray[Any],
    lift: NDArray[Any],
    after: NDArray[Any],
) -> None:
    """Fill ``after`` [R, d] with the lines of ReLUs at ``z``, and overwrite ``A`` with derivatives by ``alpha``.

    Row r has the lines ``under``, ``over``, ``lift`` [B, d] of domain ``dom[r]``, with ``alpha`` [R, d] as the lower
    slope of open ReLUs.
    """
    rows, size = A.shape
    for r in range(rows):
        d = dom[r]
        for j in range(size):
            a, value, open_ = A[r, j], z[r, j], lift[d, j] > 0
            lower = alpha[r, j] if open_ else under[d, j]
            after[r, j] = lower * value if a > 0 else over[d, j] * value + (lift[d, j] if a < 0 else 0.0)
            A[r, j] = a * value if a > 0 and open_ else 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def adam_step(
    value: NDArray[Any],
    grad: NDArray[Any],
    mean: NDArray[Any],
    square: NDArray[Any],
    rate: float,
    unbiased: float,
    least: float,
    most: float,
) -> None:
    """One step of Adam's ascent on flat arrays for ``grad``, in place: ``value`` moves by ``mean`` by root ``square``.

    ``rate`` and ``unbiased`` are the rate and the factor of the squares after their corrections for the start;
    values stay between ``least`` and ``most``.
    """
    for j in range(len(value)):
        g = grad[j]
        mean[j] = DECAY * mean[j] + (1 - DECAY) * g
        square[j] = SQUARES * square[j] + (1 - SQUARES) * g * g
        moved = value[j] + rate * mean[j] / (np.sqrt(square[j] * unbiased) + 1e-8)
        value[j] = min(max(moved, least), most)
