"""Noise in whole numbers, by a counter, and votes: the inner loops, compiled by numba at first use, cached on disk.

Words come from Philox4x32-10 (Salmon et al. 2011), a bijection of a counter
under a key; two words make two normals by Box & Muller 1958. The loops run over
short blocks, so that the compiler turns each into vector instructions: a third
of the CPU time of torch's ``normal_`` (``benchmarks/smoothing.py``), whose
Mersenne twister is scalar and whose 24-bit radii end at 5.77 standard
deviations instead of 6.66. Every result is cast to 32 bits again, because
numba's int32 + int32 is int64, which has no vector form here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

BLOCK = 512  # counters at a time: four words and four normals of each
NORMALS = 4 * BLOCK
RADIUS_BITS = 31
REACH = math.sqrt(2 * (RADIUS_BITS + 1) * math.log(2))  # -2 ln of the smallest uniform, 2^-32: no normal is beyond 6.66

_MULTIPLY = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_HALF = np.uint64(32)
_SQRT_HALF = np.int32(0x3F3504F3)  # the bits of float32 sqrt(1/2)
_FAST = {"contract", "reassoc", "nsz"}  # no promise here depends on the last bit of a normal


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
    radius: NDArray[np.uint32], angle: NDArray[np.uint32], sigma: Any, x: NDArray[np.float32], y: NDArray[np.float32]
) -> None:
    """round(sigma sqrt(-2 ln u) (cos, sin)(2 pi v)) in float32, u = (31 bits + 1/2) 2^-31, v = 32 bits 2^-32.

    ln by exponent and a polynomial of the mantissa in [sqrt 1/2, sqrt 2), cos and
    sin by polynomials in an eighth of a turn either side of the nearest quarter
    (minimax coefficients of Cephes): within 2e-6 + 2^-25 / length of float64.
    """
    mantissa, bits = y, y.view(np.int32)
    for i in range(radius.size):
        mantissa[i] = np.float32(np.int32(radius[i] >> np.uint32(1))) + np.float32(0.5)
    for i in range(radius.size):
        exponent = np.int32(np.int32(bits[i] - _SQRT_HALF) >> np.int32(23))
        bits[i] = np.int32(bits[i] - np.int32(exponent << np.int32(23)))
        x[i] = np.float32(np.int32(exponent - np.int32(RADIUS_BITS)))
    for i in range(radius.size):
        m = mantissa[i] - np.float32(1)
        p = np.float32(7.0376836292e-2) * m + np.float32(-1.1514610310e-1)
        p = p * m + np.float32(1.1676998740e-1)
        p = p * m + np.float32(-1.2420140846e-1)
        p = p * m + np.float32(1.4249322787e-1)
        p = p * m + np.float32(-1.6668057665e-1)
        p = p * m + np.float32(2.0000714765e-1)
        p = p * m + np.float32(-2.4999993993e-1)
        p = p * m + np.float32(3.3333331174e-1)
        log = m + m * m * (p * m - np.float32(0.5)) + x[i] * np.float32(0.6931471805599453)
        length = sigma * np.sqrt(max(np.float32(-2) * log, np.float32(0)))
        turn = np.int32(angle[i])
        quarter = np.int32(np.int32(turn + np.int32(1 << 29)) >> np.int32(30))
        t = np.float32(np.int32(turn - np.int32(quarter << np.int32(30)))) * np.float32(math.pi / 2**31)
        s = t * t
        sine = np.float32(-1.9515295891e-4) * s + np.float32(8.3321608736e-3)
        sine = (sine * s + np.float32(-1.6666654611e-1)) * s * t + t
        cosine = np.float32(2.443315711809948e-5) * s + np.float32(-1.388731625493765e-3)
        cosine = ((cosine * s + np.float32(4.166664568298827e-2)) * s + np.float32(-0.5)) * s + np.float32(1)
        odd = np.int32(quarter & np.int32(1)) != np.int32(0)
        across = np.float32(1) - np.float32(np.int32(np.int32(quarter + np.int32(1)) & np.int32(2)))  # the sign of cos
        up = np.float32(1) - np.float32(np.int32(quarter & np.int32(2)))
        x[i] = np.rint(length * across * (sine if odd else cosine))
        y[i] = np.rint(length * up * (cosine if odd else sine))


@njit(cache=True, nogil=True)
def _block(key: Any, counter: int, sigma: Any, words: NDArray[np.uint32], out: NDArray[np.float32]) -> None:
    philox(key, counter, words)
    for pair in range(2):
        x = out[2 * pair * BLOCK : (2 * pair + 1) * BLOCK]
        y = out[(2 * pair + 1) * BLOCK : (2 * pair + 2) * BLOCK]
        box_muller(words[2 * pair], words[2 * pair + 1], sigma, x, y)


@njit(cache=True, nogil=True)
def fill_rounded(out: NDArray[np.float32], key: Any, counter: int, sigma: Any) -> None:
    """Overwrite ``out`` [n] with N(0, sigma^2) rounded to whole numbers: the stream of ``key`` from ``counter`` on.

    It takes :func:`counters_of` n counters.
    """
    words = np.empty((4, BLOCK), np.uint32)
    whole = out.size // NORMALS
    for k in range(whole):
        _block(key, counter + k * BLOCK, sigma, words, out[k * NORMALS : (k + 1) * NORMALS])
    if out.size > whole * NORMALS:
        rest = np.empty(NORMALS, np.float32)
        _block(key, counter + whole * BLOCK, sigma, words, rest)
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
