"""Row sums of a kernel's autocorrelation, the numbers that AOL divides by, in few matrix products.

For a kernel K with taps K_p (out x in matrices) the autocorrelation is
V_s = sum_p K_p^T K_{p+s}, and AOL needs t_i = sum_{s,j} |V_s[i, j]|
(Prach & Lampert 2022, Theorem 2). Three facts make it cheap:

1. V_{-s} = V_s^T, so half of the shifts suffice.
2. The gradient is one pass: dK_p = sum_q K_q M_{p-q} with
   M_s[i, j] = sign(V_s[i, j]) (g_i + g_j), where g is the gradient of t.
3. V(z) = K(1/z)^T K(z) is a product of matrix polynomials. Taps are evaluated
   at points, multiplied there and interpolated (Toom-Cook). The points
   {inf, 1, -2, -1/2, 0} are closed under inversion and V(1/z) = V(z)^T, so a
   3 x 3 kernel costs 13 products instead of 81, and its gradient 25.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

TOOM_FROM_CHANNELS = 48  # below, one product of all pairs of taps is launched faster
_INFINITY = float("inf")
_POINTS = (_INFINITY, 1.0, -2.0, -0.5, 0.0)  # 1/point is the point at the mirrored place
_INVERSE = (4, 1, 3, 2, 0)


def row_sums(kernel: Tensor) -> tuple[Tensor, Tensor]:
    """t [in] of a kernel [out, in, h, w], and the signs of V that :func:`row_sums_gradient` needs."""
    if kernel.shape[2:] == (1, 1):
        return gram_row_sums(kernel.flatten(1))
    if _by_toom(kernel):
        return _toom_row_sums(kernel)
    return _all_pairs_row_sums(kernel)


def plain_row_sums(kernel: Tensor) -> Tensor:
    """t [in] by the kernel convolved with itself: slower, and differentiable by torch any number of times."""
    turned = kernel.transpose(0, 1)
    return F.conv2d(turned, turned, padding=(kernel.shape[2] - 1, kernel.shape[3] - 1)).abs().sum((1, 2, 3))


def row_sums_gradient(kernel: Tensor, signs: Tensor, gradient: Tensor) -> Tensor:
    """Gradient of sum_i gradient_i t_i in ``kernel``; ``gradient`` is [in], ``signs`` by :func:`row_sums`."""
    if kernel.shape[2:] == (1, 1):
        matrix = kernel.flatten(1)
        return add_gram_gradient(torch.zeros_like(matrix), matrix, signs, gradient)[:, :, None, None]
    if _by_toom(kernel):
        return _toom_gradient(kernel, signs, gradient)
    return _all_pairs_gradient(kernel, signs, gradient)


def _by_toom(kernel: Tensor) -> bool:
    return kernel.shape[2:] == (3, 3) and min(kernel.shape[:2]) >= TOOM_FROM_CHANNELS


def _mirrored(signs: Tensor, gradient: Tensor) -> Tensor:
    """M_s[i, j] = sign(V_s[i, j]) (g_i + g_j)."""
    return signs.to(gradient.dtype).mul_(gradient[:, None] + gradient[None, :])


def _kept_signs(values: Tensor) -> Tensor:
    """One byte per sign: the forward pass stores them until the backward pass."""
    return values.sign_().to(torch.int8)


# --- matrices -------------------------------------------------------------------------------------


def gram_row_sums(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Row sums of |W^T W| for a matrix ``weight`` [out, in], and its signs, for :func:`add_gram_gradient`."""
    gram = weight.T @ weight
    return gram.abs().sum(1), _kept_signs(gram)


def add_gram_gradient(result: Tensor, weight: Tensor, signs: Tensor, gradient: Tensor) -> Tensor:
    """``result`` += W M [out, in], W = ``weight``, the gradient of sum_i g_i t_i, with M_ij = sign_ij (g_i + g_j).

    ``signs`` by :func:`gram_row_sums`, g = ``gradient`` [in].
    """
    return result.addmm_(weight, _mirrored(signs, gradient))


# --- any kernel: one product of all pairs of taps -------------------------------------------------


@lru_cache
def _shift_of_pair(height: int, width: int) -> Tensor:
    """Index of the shift q - p for every pair of taps (p, q): [taps, taps]."""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    p = torch.stack((rows.flatten(), columns.flatten()))
    difference = p[:, None, :] - p[:, :, None]
    return (difference[0] + height - 1) * (2 * width - 1) + difference[1] + width - 1


def _taps(kernel: Tensor) -> Tensor:
    """[out, in, h, w] -> [taps, out, in]."""
    return kernel.permute(2, 3, 0, 1).flatten(0, 1)


def _all_pairs_row_sums(kernel: Tensor) -> tuple[Tensor, Tensor]:
    channels, (height, width) = kernel.shape[1], kernel.shape[2:]
    flat = kernel.permute(0, 2, 3, 1).flatten(1)  # [out, taps * in]
    pairs = (flat.T @ flat).view(height * width, channels, height * width, channels)
    shift = _shift_of_pair(height, width).to(kernel.device).flatten()
    correlation = kernel.new_zeros((2 * height - 1) * (2 * width - 1), channels, channels)
    correlation.index_add_(0, shift, pairs.transpose(1, 2).flatten(0, 1))
    sums = correlation.abs().sum((0, 2))
    return sums, _kept_signs(correlation)


def _all_pairs_gradient(kernel: Tensor, signs: Tensor, gradient: Tensor) -> Tensor:
    out, channels, height, width = kernel.shape
    taps = height * width
    shift = _shift_of_pair(height, width).to(kernel.device)  # [q, p] -> p - q
    blocks = _mirrored(signs, gradient)[shift.flatten()].view(taps, taps, channels, channels)
    toeplitz = blocks.transpose(1, 2).reshape(taps * channels, taps * channels)
    flat = kernel.permute(0, 2, 3, 1).flatten(1)
    return (flat @ toeplitz).view(out, height, width, channels).permute(0, 3, 1, 2)


# --- 3 x 3 kernels of many channels: Toom-Cook ----------------------------------------------------


def _powers(degree: int) -> Tensor:
    """Rows z^-degree … z^degree for each point; only the last or first one for infinity and 0."""
    exponents = range(-degree, degree + 1)
    rows = []
    for z in _POINTS:
        if z in (_INFINITY, 0.0):
            rows.append([1.0 if s == (degree if z else -degree) else 0.0 for s in exponents])
        else:
            rows.append([z**s for s in exponents])
    return torch.tensor(rows, dtype=torch.float64)


@lru_cache
def _half_points() -> tuple[tuple[int, int], ...]:
    """One of every pair {z, 1/z} of the 25 points of the plane, as (index, index of the inverse)."""
    inverse = [_INVERSE[i] * 5 + _INVERSE[j] for i in range(5) for j in range(5)]
    return tuple((z, inverse[z]) for z in range(25) if z <= inverse[z])


@lru_cache
def _toom(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Evaluation [25, 9], and interpolation from half the points z and from their inverses [13, 13].

    Row s of the interpolations belongs to the s-th of the shifts 0, then those
    after it in reading order; a self-inverse point is counted in the first only.
    """
    evaluation = torch.kron(_powers(1), _powers(1))
    inverse = torch.linalg.inv(torch.kron(_powers(2), _powers(2)))[12:]  # shifts from (0, 0) on
    points = torch.tensor([z for z, _ in _half_points()])
    inverses = torch.tensor([w for _, w in _half_points()])
    from_points, from_inverses = inverse[:, points], inverse[:, inverses]
    from_inverses = from_inverses.masked_fill(points == inverses, 0.0)
    evaluation, from_points, from_inverses = (
        matrix.to(device, dtype) for matrix in (evaluation, from_points, from_inverses)
    )
    return evaluation, from_points, from_inverses


def _evaluated(kernel: Tensor, evaluation: Tensor) -> Tensor:
    """K at the 25 points: [25, out, in]."""
    taps = _taps(kernel)
    return (evaluation @ taps.flatten(1)).view(25, *taps.shape[1:])


def _toom_row_sums(kernel: Tensor) -> tuple[Tensor, Tensor]:
    evaluation, from_points, from_inverses = _toom(kernel.dtype, kernel.device)
    values, channels = _evaluated(kernel, evaluation), kernel.shape[1]
    products = kernel.new_empty(len(_half_points()), channels, channels)
    for row, (z, inverse) in enumerate(_half_points()):
        torch.mm(values[inverse].T, values[z], out=products[row])  # V(z) = K(1/z)^T K(z)
    flat = products.flatten(1)
    correlation = (from_points @ flat).view_as(products)
    correlation += (from_inverses @ flat).view_as(products).transpose(1, 2)
    size = correlation.abs()
    # Shift -s is the transpose of shift s: its row sums are the column sums.
    sums = size.sum((0, 2)) + size[1:].sum((0, 1))
    return sums, _kept_signs(correlation)


def _toom_gradient(kernel: Tensor, signs: Tensor, gradient: Tensor) -> Tensor:
    """The transposed algorithm: dK_q = sum_z evaluation[z, q] K(1/z) N_z, N the M_s gathered at z."""
    evaluation, from_points, from_inverses = _toom(kernel.dtype, kernel.device)
    values = _evaluated(kernel, evaluation)
    # N_z = sum over all 25 shifts; shift -s holds M_s^T and its coefficient at z is that of s at 1/z.
    shifts = _mirrored(signs, gradient)
    gathered = (from_points.T @ shifts.flatten(1)).view_as(shifts)
    coefficients = from_inverses.clone()
    own = [row for row, (z, inverse) in enumerate(_half_points()) if z == inverse]
    coefficients[:, own] = from_points[:, own]
    gathered += (coefficients[1:].T @ shifts[1:].flatten(1)).view_as(shifts).transpose(1, 2)
    at_points = torch.empty_like(values)
    for row, (z, inverse) in enumerate(_half_points()):
        torch.mm(values[inverse], gathered[row], out=at_points[z])
        if inverse != z:  # N_{1/z} = N_z^T
            torch.mm(values[z], gathered[row].T, out=at_points[inverse])
    taps = (evaluation.T @ at_points.flatten(1)).view(3, 3, *kernel.shape[:2])
    return taps.permute(2, 3, 0, 1)
