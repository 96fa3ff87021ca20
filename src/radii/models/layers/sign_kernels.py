"""The product of a matrix with signs, by tables instead of multiplications, compiled by numba at first use.

AOL's gradient is W M with M_lj = s_lj (g_l + g_j) and s_lj = sign (W^T W)_lj.
Multiplying by signs is adding and subtracting, and of six columns of W there
are only 64 such sums: they are made once for a strip of rows, and then looked
up for every j instead of being added again (the method of Arlazarov, Dinic,
Kronrod and Faradzev 1970). One look-up yields both parts of W M,
(W diag(g)) s and (W s) diag(g). The matrix product, at nine tenths of the
core's peak, takes 1.3 times as long at width 1024 and 1.5 times at 3072.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray
from torch import Tensor

SIGNS = 6  # in a code, the place of their sum in a table
TABLES = 3  # looked up at a time: 24 KiB, which leave room in the nearest cache
ROWS = 16  # of W in an entry of a table, twice: times g, and plain
TILE = 16  # floats in a line of the cache
_ENTRY = 2 * ROWS * 4  # bytes
_TABLE = _ENTRY << SIGNS


def add_sign_product(result: Tensor, weight: Tensor, signs: Tensor, gradient: Tensor) -> bool:
    """result += W M for float32 matrices [out, in], by as many threads as torch uses.

    A few zeros among the signs, as rounding leaves in wide matrices, are coded as
    -1 and put right. False, and nothing done, if they are more: a product is faster.
    """
    width = len(signs)
    codes = torch.zeros(-(-width // (SIGNS * TABLES)) * TABLES, width, dtype=torch.uint8)
    zeros = _encode(signs.numpy(), codes.numpy())
    if zeros > width / 4:
        return False
    into, matrix, shares = result.numpy(), weight.contiguous().numpy(), gradient.contiguous().numpy()

    def add(span: tuple[int, int]) -> None:
        _add_strips(into, matrix, codes.numpy(), shares, *span)

    strips = -(-len(weight) // ROWS)
    threads = min(torch.get_num_threads(), strips)
    if threads == 1:
        add((0, len(weight)))
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(add, pairwise(strips * part // threads * ROWS for part in range(threads + 1))))
    if zeros:
        row, column = (signs == 0).nonzero(as_tuple=True)
        result.index_add_(1, column, weight[:, row] * (gradient[row] + gradient[column]))
    return True


@njit(cache=True, nogil=True)
def _encode(signs: NDArray[np.int8], codes: NDArray[np.uint8]) -> int:
    """Code six signs of each column, [in, in] -> [in / 6, in] of 0 … 63, and count the zeros, coded as -1."""
    width, zeros = len(signs), 0
    for row in range(width):
        sign, code, place = signs[row], codes[row // SIGNS], np.uint8(row % SIGNS)
        found = False
        for j in range(width):
            found |= sign[j] == 0
            code[j] |= np.uint8(np.uint8(sign[j] > 0) << place)
        if found:
            zeros += (sign == 0).sum()
    return zeros


@intrinsic
def _add_entries(typing: Any, total: Any, entries: Any, share: Any) -> Any:  # noqa: ARG001
    """total += sum of the first halves of entries + share (sum of their second halves), all given by address.

    Written in vectors of ROWS floats, which any processor's registers divide:
    of a loop the compiler could not know that the memory is distinct.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        line, index = ir.VectorType(ir.FloatType(), ROWS), ir.IntType(32)
        nothing, first = ir.Constant(line, ir.Undefined), ir.Constant(ir.VectorType(index, ROWS), [0] * ROWS)
        factor = builder.insert_element(nothing, arguments[2], ir.Constant(index, 0))
        factor = builder.shuffle_vector(factor, nothing, first)
        place = builder.inttoptr(arguments[0], line.as_pointer())
        own, shared = builder.load(place, align=4), None
        for entry in range(signature.args[1].count):
            half = builder.inttoptr(builder.extract_value(arguments[1], entry), line.as_pointer())
            own = builder.fadd(own, builder.load(half, align=4))
            other = builder.load(builder.gep(half, [ir.Constant(index, 1)]), align=4)
            shared = other if shared is None else builder.fadd(shared, other)
        share_of = builder.fmul(factor, shared, flags=("contract",))
        builder.store(builder.fadd(own, share_of, flags=("contract",)), place, align=4)
        return context.get_dummy_value()

    return types.void(types.intp, entries, types.float32), generate


@njit(cache=True, nogil=True)
def _tabulate(columns: NDArray[np.float32], table: NDArray[np.float32]) -> None:
    """All sums of ±columns [SIGNS, 2 ROWS]: entry p adds column t if bit t of p is set, else subtracts it."""
    for i in range(2 * ROWS):
        table[0, i], table[1, i] = -columns[0, i], columns[0, i]
    for t in range(1, SIGNS):
        for p in range(1 << t):
            for i in range(2 * ROWS):
                value = table[p, i]
                table[p + (1 << t), i] = value + columns[t, i]
                table[p, i] = value - columns[t, i]


@njit(cache=True, nogil=True)
def _add_strips(
    result: NDArray[np.float32],
    weight: NDArray[np.float32],
    codes: NDArray[np.uint8],
    gradient: NDArray[np.float32],
    start: int,
    stop: int,
) -> None:
    """The rows from ``start`` to ``stop`` of the product, ROWS at a time."""
    out, width = weight.shape
    groups = len(codes)
    columns = np.zeros((groups * SIGNS, 2 * ROWS), np.float32)  # those beyond the width stay zero
    tables = np.zeros((TABLES, 1 << SIGNS, 2 * ROWS), np.float32)
    totals = np.zeros((width, ROWS), np.float32)
    total, entry = totals.ctypes.data, tables.ctypes.data
    for top in range(start, min(stop, out), ROWS):
        high = min(ROWS, out - top)
        for left in range(0, width, TILE):
            for i in range(high):
                for j in range(left, min(left + TILE, width)):
                    columns[j, ROWS + i] = weight[top + i, j]
        for j in range(width):
            for i in range(ROWS):
                columns[j, i] = gradient[j] * columns[j, ROWS + i]
        totals[:] = 0
        for group in range(0, groups, TABLES):
            for table in range(TABLES):
                _tabulate(columns[(group + table) * SIGNS : (group + table + 1) * SIGNS], tables[table])
            a, b, c = codes[group], codes[group + 1], codes[group + 2]
            for j in range(width):
                entries = entry + a[j] * _ENTRY, entry + b[j] * _ENTRY + _TABLE, entry + c[j] * _ENTRY + 2 * _TABLE
                _add_entries(total + j * ROWS * 4, entries, gradient[j])  # type: ignore[call-arg]
        for left in range(0, width, TILE):
            for i in range(high):
                for j in range(left, min(left + TILE, width)):
                    result[top + i, j] += totals[j, i]
