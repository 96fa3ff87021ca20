"""Matrices that stay orthogonal: the parameters that :class:`radii.training.optimizers.Manifold` moves."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class OrthogonalParameter(nn.Parameter):
    """A matrix [rows, columns] with orthonormal columns, or orthonormal rows where it has fewer of them.

    The type tells optimizers to keep W^T W = I (or W W^T = I). Nothing enforces it, and
    no certificate relies on it: bounds are proved from the entries of the matrix.
    """


def orthogonal_parameter(rows: int, columns: int) -> OrthogonalParameter:
    """A random orthogonal matrix [``rows``, ``columns``], uniformly distributed, from torch's global random stream."""
    return OrthogonalParameter(nn.init.orthogonal_(torch.empty(rows, columns)))


def thin_gram(matrix: Tensor) -> Tensor:
    """W^T W, or W W^T where the matrix has fewer rows than columns: the smaller of the two."""
    return matrix.mT @ matrix if matrix.shape[-2] >= matrix.shape[-1] else matrix @ matrix.mT


@torch.no_grad()
def orthogonality_defect(matrix: Tensor) -> float:
    """The Frobenius norm of W^T W - I (or W W^T - I) of ``matrix`` W, computed in float64."""
    gram = thin_gram(matrix.detach().double())
    gram.diagonal().sub_(1.0)
    return float(gram.norm())


def tangent(matrix: Tensor, direction: Tensor) -> Tensor:
    """The part of ``direction`` U along the manifold at ``matrix`` W: U - W sym(W^T U), transposed for wide W."""
    if matrix.shape[-2] < matrix.shape[-1]:
        return tangent(matrix.mT, direction.mT).mT
    inner = matrix.mT @ direction
    return direction - matrix @ ((inner + inner.mT) / 2)


def retract(matrix: Tensor) -> Tensor:
    """One Newton-Schulz step of ``matrix`` to the manifold, 1.5 W - 0.5 W W^T W: a defect e becomes about 3 e^2 / 4."""
    gram = thin_gram(matrix)
    return 1.5 * matrix - 0.5 * (matrix @ gram if matrix.shape[-2] >= matrix.shape[-1] else gram @ matrix)


def polar_factor(matrix: Tensor, steps: int = 5) -> Tensor:
    """About U V^T of the singular value decomposition U S V^T of ``matrix``: all singular values become about 1.

    ``steps`` of the quintic Newton-Schulz iteration of Muon (Jordan et al.
    2024), which ends with singular values between 0.7 and 1.2.
    """
    tall = matrix if matrix.shape[-2] >= matrix.shape[-1] else matrix.mT
    tall = tall / (tall.norm() + 1e-12)
    for _ in range(steps):
        gram = tall.mT @ tall
        tall = 3.4445 * tall + tall @ (2.0315 * gram @ gram - 4.7750 * gram)
    return tall if matrix.shape[-2] >= matrix.shape[-1] else tall.mT
