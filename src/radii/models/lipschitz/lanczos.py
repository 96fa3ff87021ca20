"""Lanczos: the largest eigenvalue of a symmetric positive operator, from below, in few products."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


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
