"""Noise in whole numbers, by a counter, and votes: the inner loops, compiled by numba at first use, cached on disk.

Words come from Philox4x32-10 (Salmon et al. 2011), a bijection of a counter
under a key; its four words make two normals by Box & Muller 1958, with 52 bits
for the radius and 52 for the angle, in float64. With fewer bits whole cells of
the grid are never drawn: 31 bits leave gaps from 5 standard deviations on. The loops run over
short blocks, so that the compiler turns each into vector instructions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

BLOCK = 512  # counters at a time: four words and two normals of each
NORMALS = 2 * BLOCK
BITS = 52  # of the radius and of the angle
REACH = math.sqrt(2 * (BITS + 1) * math.log(2))  # -2 ln of the smallest uniform, 2^-53: no normal is beyond 8.58

_MULTIPLY = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_HALF = np.uint64(32)
_SQRT_HALF = np.int64(0x3FE6A09E667F3BCD)  # the bits of float64 sqrt(1/2)
_ONE = np.uint64(0x3FF0000000000000)  # the bits of float64 1
_SPARE = np.uint64(64 - BITS)
_FAST = {"contract", "nsz"}  # the error of 4e-15 leaves room for both


@njit(cache=True, nogil=True)
def philox(key: Any, counter: int, words: NDArray[np.uint32]) -> None:
    """Overwrite ``words`` [4, n] with Philox4x32-10 of the counters from ``counter`` on under ``key``, 64 bits each."""
    first, second, third, fourth = words[0], words[1], words[2], words[3]
    for i in range(first.size):
        value = np.uint64(counter + i)
        a, b, c, d = np.uint32(value), np.uint32(value >> _HALF), np.uint32(0), np.uint32(0)
        low, high = np.uint32(key), np.uint32(key >> _HALF)
        for _ in range(10):
            p, q = np.uint64(a) * _MULTIPLY[0], np.uint64(c) * _MULTIPLY[1]
            a, b = np.uint32(np.uint32(np.uint32(q >> _HALF) ^ b) ^ low), np.uint32(q)
            c, d = np.uint32(np.uint32(np.uint32(p >> _HALF) ^ d) ^ high), np.uint32(p)
            low, high = np.uint32(low + _WEYL[0]), np.uint32(high + _WEYL[1])
        first[i], second[i], third[i], fourth[i] = a, b, c, d


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def box_muller(
    words: NDArray[np.uint32], sigma: Any, x: NDArray[np.float32], y: NDArray[np.float32], space: NDArray[np.float64]
) -> None:
    """``x``, ``y`` = round(``sigma`` sqrt(-2 ln u) (cos, sin)(2 pi v)), u = (52 bits + 1/2) 2^-52, v = 52 bits 2^-52.

    ln by exponent and a rational function of the mantissa in [sqrt 1/2, sqrt 2), cos and sin by polynomials in
    an eighth of a turn either side of the nearest quarter (coefficients of Cephes), all in float64: before the
    rounding to whole numbers within 4e-15 of the pair's length (ERROR in the module ``noise``). ``words`` [4, n]
    hold the bits of u and v; ``space`` [2, n] is overwritten.
    """
    mantissa, turn = space[0], space[1]
    bits, steps = mantissa.view(np.int64), turn.view(np.uint64)
    for i in range(mantissa.size):
        radius = (np.uint64(words[0, i]) << _HALF) | np.uint64(words[1, i])
        angle = (np.uint64(words[2, i]) << _HALF) | np.uint64(words[3, i])
        bits[i] = np.int64((radius >> _SPARE) | _ONE)  # 1 + 52 bits
        steps[i] = (angle >> _SPARE) | _ONE
    for i in range(mantissa.size):
        mantissa[i] = mantissa[i] - (1 - 2.0**-53)  # exact: (2 k + 1) 2^-53
        turn[i] = turn[i] - 1.0
    for i in range(mantissa.size):
        exponent = np.int64(bits[i] - _SQRT_HALF) >> np.int64(52)
        bits[i] = np.int64(bits[i] - np.int64(exponent << np.int64(52)))
        e = np.float64(exponent)
        m = mantissa[i] - 1.0
        p = 1.01875663804580931796e-4 * m + 4.97494994976747001425e-1
        p = p * m + 4.70579119878881725854e0
        p = p * m + 1.44989225341610930846e1
        p = p * m + 1.79368678507819816313e1
        p = p * m + 7.70838733755885391666e0
        q = m + 1.12873587189167450590e1
        q = q * m + 4.52279145837532221105e1
        q = q * m + 8.29875266912776603211e1
        q = q * m + 7.11544750618563894466e1
        q = q * m + 2.31251620126765340583e1
        log = m + (m * m * (m * (p / q) - 0.5) + e * 0.6931471805599453)
        length = sigma * np.sqrt(max(-2.0 * log, 0.0))
        quarter = np.floor(turn[i] * 4.0 + 0.5)
        t = (turn[i] * 4.0 - quarter) * (math.pi / 2)
        s = t * t
        sine = 1.58962301576546568060e-10 * s - 2.50507477628578072866e-8
        sine = sine * s + 2.75573136213857245213e-6
        sine = sine * s - 1.98412698295895385996e-4
        sine = sine * s + 8.33333333332211858878e-3
        sine = (sine * s - 1.66666666666666307295e-1) * s * t + t
        cosine = -1.13585365213876817300e-11 * s + 2.08757008419747316778e-9
        cosine = cosine * s - 2.75573141792967388112e-7
        cosine = cosine * s + 2.48015872888517045348e-5
        cosine = cosine * s - 1.38888888888730564116e-3
        cosine = (cosine * s + 4.16666666666665929218e-2) * s * s - 0.5 * s + 1.0
        half = quarter - 4.0 * np.floor(quarter * 0.25)  # 0, 1, 2 or 3 quarters
        odd = half == 1.0 or half == 3.0
        across = -1.0 if half == 1.0 or half == 2.0 else 1.0  # the sign of cos
        up = -1.0 if half >= 2.0 else 1.0
        x[i] = np.float32(np.rint(length * across * (sine if odd else cosine)))
        y[i] = np.float32(np.rint(length * up * (cosine if odd else sine)))


@njit(cache=True, nogil=True)
def _block(
    key: Any, counter: int, sigma: Any, words: NDArray[np.uint32], space: NDArray[np.float64], out: NDArray[np.float32]
) -> None:
    philox(key, counter, words)
    box_muller(words, sigma, out[:BLOCK], out[BLOCK:], space)


@njit(cache=True, nogil=True)
def fill_rounded(out: NDArray[np.float32], key: Any, counter: int, sigma: Any) -> None:
    """Overwrite ``out`` [n] with N(0, sigma^2) rounded to whole numbers: the stream of ``key`` from ``counter`` on.

    It takes :func:`counters_of` n counters.
    """
    words, space = np.empty((4, BLOCK), np.uint32), np.empty((2, BLOCK), np.float64)
    whole = out.size // NORMALS
    for k in range(whole):
        _block(key, counter + k * BLOCK, sigma, words, space, out[k * NORMALS : (k + 1) * NORMALS])
    if out.size > whole * NORMALS:
        rest = np.empty(NORMALS, np.float32)
        _block(key, counter + whole * BLOCK, sigma, words, space, rest)
        out[whole * NORMALS :] = rest[: out.size - whole * NORMALS]


def counters_of(normals: int) -> int:
    """How many counters so many normals take: whole blocks."""
    return -(-normals // NORMALS) * BLOCK


@njit(cache=True, nogil=True)
def add_rows(out: NDArray[np.float32], unit: Any, x: NDArray[np.float32], rows: NDArray[np.int64]) -> None:
    """out[i] <- x[rows[i]] + unit out[i] for ``out`` [m, d] and ``x`` [n, d]."""
    for i in range(len(rows)):
        line, start = out[i], x[rows[i]]
        for j in range(line.size):
            line[j] = start[j] + unit * line[j]


@njit(cache=True, nogil=True)
def count_votes(counts: NDArray[np.int64], rows: NDArray[np.int64], logits: NDArray[Any]) -> None:
    """counts[rows[i], c] += 1 for c the place of the largest of logits[i], or the last column where one is NaN."""
    for i in range(len(rows)):
        own = logits[i]
        best = 0
        for c in range(own.size):
            if np.isnan(own[c]):
                best = counts.shape[1] - 1
                break
            if own[c] > own[best]:
                best = c
        counts[rows[i], best] += 1
