"""The inner loop of backward bounds, compiled by numba at first use and cached on disk.

One pass over the coefficients does what takes eight passes by tensor
operations: the slopes of the ReLU, its constants, and the rounding and bias of
the linear layer before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

_FAST = {"contract", "reassoc", "nsz"}  # sums may be in any order: their rounding is accounted for


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def through_relu(
    A: NDArray[Any],
    dom: NDArray[np.int64],
    under: NDArray[Any],
    under_dom: NDArray[np.int64],
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
    slopes and errors of domain ``dom[r]`` and row ``under_dom[r]`` of ``under``; ``extra`` [R, d] or [0, d] is
    added to A'.
    """
    rows, size = A.shape
    for r in range(rows):
        d = dom[r]
        lower, upper, offset, slack = under[under_dom[r]], over[d], lift[d], error[d]
        constant, rest = 0.0, 0.0
        row = A[r]
        for j in range(size):
            positive, negative = max(row[j], 0), min(row[j], 0)
            back = positive * lower[j] + negative * upper[j]
            if extra.shape[0] > 0:
                back += extra[r, j]
            row[j] = back
            constant += negative * offset[j]
            rest += back * bias[j] - abs(back) * slack[j]
        total[r] += constant * raised + rest
