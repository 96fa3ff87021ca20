"""Orthogonal layers: matrices by the Cayley map, convolutions with explicit kernels from projectors.

A matrix: Q = (I - A)(I + A)^{-1} with A = (S - S^T) / 2 is orthogonal, and so are
its first rows or columns. A convolution: (P, I - P) applied at two neighboring
pixels is orthogonal for every symmetric projector P; products of such pairs in
both directions and one orthogonal matrix give kernels of any size
(BCOP, Li et al. 2019). A stride s multiplies by an orthogonal matrix on
s x s patches (AOC, Boissin et al. 2025).

Guarantee: orthogonal on circular images (norms are kept where outputs are at
least as many as inputs), hence 1-Lipschitz with zero padding, a compression of
it. Cost: solves and products of c x c matrices per step; nothing once folded.

:class:`OrthogonalParameter` is a matrix that :class:`radii.training.optimizers.Manifold` keeps orthogonal.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.models.layers._autocorrelation import plain_row_sums
from radii.models.layers._cached_weights import EffectiveWeight, check_odd
from radii.models.layers.plain_layers import SkewExponential, skew_exponential


class OrthogonalParameter(nn.Parameter):
    """A matrix [rows, columns] with orthonormal columns, or orthonormal rows where it has fewer of them.

    The type tells optimizers to keep W^T W = I (or W W^T = I). Nothing enforces it, and
    no certificate relies on it: bounds are proved from the entries of the matrix.
    """


def orthogonal_parameter(rows: int, columns: int) -> OrthogonalParameter:
    """A random orthogonal matrix [``rows``, ``columns``], uniformly distributed, from torch's global random stream."""
    return OrthogonalParameter(nn.init.orthogonal_(torch.empty(rows, columns)))


def _thin_gram(matrix: Tensor) -> Tensor:
    """W^T W, or W W^T where the matrix has fewer rows than columns: the smaller of the two."""
    return matrix.mT @ matrix if matrix.shape[-2] >= matrix.shape[-1] else matrix @ matrix.mT


@torch.no_grad()
def orthogonality_defect(matrix: Tensor) -> float:
    """The Frobenius norm of W^T W - I (or W W^T - I) of ``matrix`` W, computed in float64."""
    gram = _thin_gram(matrix.detach().double())
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
    gram = _thin_gram(matrix)
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


def _cayley(square: Tensor) -> Tensor:
    """The orthogonal matrix (I - A)(I + A)^{-1} of the skew part A of ``square`` [n, n]."""
    skew = (square - square.mT) / 2
    identity = torch.eye(square.shape[-1], dtype=square.dtype, device=square.device)
    return torch.linalg.solve(identity + skew, identity - skew)  # the two factors commute


def _projector(square: Tensor) -> Tensor:
    """The _projector onto the first half of the columns of the Cayley matrix of ``square``."""
    half = _cayley(square)[..., : square.shape[-1] // 2]
    return half @ half.mT


def convolved(first: Tensor, second: Tensor) -> Tensor:
    """The kernel of applying ``second`` [b, a, …] after ``first`` [a, c, …]: [b, c, …], sizes add minus one."""
    height, width = second.shape[2] - 1, second.shape[3] - 1
    turned = second.flip(2, 3)
    return F.conv2d(first.transpose(0, 1), turned, padding=(height, width)).transpose(0, 1)


def pair(projection: Tensor, axis: int) -> Tensor:
    """The orthogonal kernel (P, I - P) of the _projector ``projection``: 1 x 2, or 2 x 1 for ``axis`` 1."""
    identity = torch.eye(len(projection), dtype=projection.dtype, device=projection.device)
    return torch.stack((projection, identity - projection), 2).unsqueeze(2 + (axis == 1))


class OrthogonalConv2d(EffectiveWeight):
    """A convolution with an explicit orthogonal kernel, without groups and dilation.

    The kernel is a product of ``kernel_size - stride`` pairs of projectors in each
    direction and an orthogonal matrix from ``in * stride^2`` to ``out`` channels.

    Args:
        kernel_size: side of the kernel, at least ``stride``.
        stride: pixels between two outputs.
        padding: pixels added on each side.
        bias: whether to add a bias per output channel.
        padding_mode: ``zeros`` or ``circular``. With ``circular`` the sides of the
            image must be multiples of the stride, because overlapping patches
            would increase distances.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        *,
        bias: bool = True,
        padding_mode: str = "zeros",
    ) -> None:
        super().__init__()
        whole = all(isinstance(value, int) for value in (kernel_size, stride, padding))
        if not whole or stride < 1 or padding < 0:
            raise InputError(
                "kernel_size, stride and padding must be whole numbers for both sides alike, the stride at least 1, "
                f"got {kernel_size}, {stride} and {padding} instead."
            )
        if kernel_size < stride:
            raise InputError(f"kernel_size must be at least the stride, got {kernel_size} and {stride} instead.")
        if padding_mode not in ("zeros", "circular") or (padding_mode == "circular" and 2 * padding > kernel_size - 1):
            raise InputError("padding must be zeros, or circular without repeating outputs.")
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size
        self.stride, self.padding, self.padding_mode = stride, padding, padding_mode
        widest = max(in_channels * stride**2, out_channels)
        self.matrix = nn.Parameter(torch.empty(widest, widest))
        self.projectors = nn.Parameter(torch.empty(2 * (kernel_size - stride), in_channels, in_channels))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Small skew matrices for the last factor, so that it starts near the identity; random projectors."""
        nn.init.normal_(self.matrix, std=0.1 / len(self.matrix) ** 0.5)
        nn.init.normal_(self.projectors)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def compute_effective_weight(self) -> Tensor:
        """The kernel [out, in, k, k]."""
        patch = _cayley(self.matrix)[: self.out_channels, : self.in_channels * self.stride**2]
        kernel = patch.view(self.out_channels, self.in_channels, self.stride, self.stride)
        for number, projection in enumerate(_projector(self.projectors) if len(self.projectors) else ()):
            kernel = convolved(pair(projection, number % 2), kernel)
        return kernel

    def forward(self, x: Tensor) -> Tensor:
        """[n, in, h, w] -> [n, out, h', w']."""
        padding = self.padding
        if self.padding_mode == "circular":
            if x.shape[2] % self.stride or x.shape[3] % self.stride:
                raise InputError(
                    f"An orthogonal convolution with circular padding and stride {self.stride} takes images "
                    f"whose sides are multiples of {self.stride}, got {tuple(x.shape[2:])} instead."
                )
            x, padding = F.pad(x, [padding] * 4, mode="circular"), 0
        return F.conv2d(x, self.effective_weight(), self.bias, self.stride, padding)

    def extra_repr(self) -> str:
        """The text that nn.Module prints."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}, bias={self.bias is not None}, padding_mode={self.padding_mode!r}"
        )

    def folded(self) -> nn.Conv2d:
        """The plain convolution with the same outputs."""
        plain = nn.utils.skip_init(
            nn.Conv2d, self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding,
            bias=self.bias is not None, padding_mode=self.padding_mode,
        )  # fmt: skip
        return self.filled(plain, self.bias)


class OrthogonalLinear(EffectiveWeight):
    """The first rows and columns of a Cayley matrix; arguments of ``nn.Linear``. Orthogonal."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        widest = max(in_features, out_features)
        self.matrix = nn.Parameter(torch.empty(widest, widest))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None
        nn.init.normal_(self.matrix, std=0.1 / widest**0.5)

    def compute_effective_weight(self) -> Tensor:
        """The matrix [out, in]."""
        return _cayley(self.matrix)[: self.out_features, : self.in_features]

    def forward(self, x: Tensor) -> Tensor:
        """[n, in] -> [n, out]."""
        return F.linear(x, self.effective_weight(), self.bias)

    def folded(self) -> nn.Linear:
        """The plain linear layer with the same outputs."""
        plain = nn.utils.skip_init(nn.Linear, self.in_features, self.out_features, self.bias is not None)
        return self.filled(plain, self.bias)


class SOCConv2d(EffectiveWeight):
    """exp(A) x for a skew convolution A, by ``terms`` terms; keeps channels and image size."""

    def __init__(self, channels: int, kernel_size: int, terms: int = 8, bias: bool = True) -> None:
        super().__init__()
        check_odd(kernel_size)
        self.weight = nn.Parameter(torch.empty(channels, channels, kernel_size, kernel_size))
        nn.init.normal_(self.weight, std=1 / (kernel_size * channels**0.5))
        self.bias = nn.Parameter(torch.zeros(channels)) if bias else None
        self.terms = terms

    def compute_effective_weight(self) -> Tensor:
        """The skew kernel with |A| <= 1: A^T A has eigenvalues up to the largest Gershgorin sum."""
        skew = self.weight - self.weight.transpose(0, 1).flip(2, 3)
        return skew / plain_row_sums(skew).max().clamp_min(1.0).sqrt()

    def forward(self, x: Tensor) -> Tensor:
        """[n, c, h, w] -> the same shape."""
        return skew_exponential(x, self.effective_weight(), self.terms, self.bias)

    def folded(self) -> SkewExponential:
        """The same exponential with its kernel written out."""
        return SkewExponential(self.effective_weight(), self.terms, self.bias)
