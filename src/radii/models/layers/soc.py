"""Skew orthogonal convolutions: the exponential of a skew-symmetric convolution (Singla & Feizi 2021).

A = M - M^T (the kernel minus its transpose, turned around) is skew also with
zero padding, so exp(A) is orthogonal; its Taylor polynomial of n terms is off
by at most |A|^{n+1} / (n+1)!. The kernel is divided so that |A| <= 1 by the
Gershgorin sums of AOL, which holds for every image size.

Guarantee: (1 + 1/(n+1)!)-Lipschitz and as near to orthogonal; 3e-6 at 8 terms.
Cost: n convolutions per layer, in training and at inference.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from radii.models.layers.autocorrelation import plain_row_sums
from radii.models.layers.effective import EffectiveWeight, check_odd
from radii.models.layers.folded import SkewExponential, skew_exponential


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
