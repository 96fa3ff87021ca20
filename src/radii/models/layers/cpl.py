"""Convex potential layers: x - (2 / sigma^2) W^T relu(W x + b) (Meunier et al. 2022).

A gradient step of a convex potential: 1-Lipschitz whenever sigma >= |W|.
Cost: two convolutions per layer and one warm power iteration per step.

The bias enters once, inside, as in the CPL paper (the authors' code of
Prach & Lampert 2025 adds it again after W^T, which changes no constant).
sigma is a power-iterated norm times 1 + 1e-5; the proof of the constant,
max(1, 2 |W|^2 / sigma^2 - 1), is made when certifying and comes out as 1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from radii.models.layers.power import WarmNorm, deterministic_start
from radii.models.layers.residual import Residual, check_input, check_odd, residual_step, uniform_start

HEADROOM = 1e-5  # power iteration in float32 stays this close below the norm


class _ConvexPotential(WarmNorm):
    bias: nn.Parameter | None

    def _scaled(self, size: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
        """W and b times sqrt(2) / sigma: relu commutes with positive factors, so 2 / sigma^2 splits."""
        scale = 2**0.5 / (self.norm(size) * (1 + HEADROOM)).clamp_min(1e-12)
        return self.weight * scale, None if self.bias is None else self.bias * scale

    def forward(self, x: Tensor) -> Tensor:
        """[n, …] -> the same shape."""
        check_input(self, x, self.weight)
        return residual_step(x, *self._scaled(tuple(x.shape[1:])))

    def folded_for(self, shape: tuple[int, ...]) -> Residual:
        """The residual layer with plain weights for inputs of ``shape``."""
        return Residual(*self._scaled(shape))


class CPLConv2d(_ConvexPotential):
    """x - (2 / sigma^2) W^T relu(W x + b) with a zero-padded convolution W. 1-Lipschitz.

    ``hidden_channels`` (of W x) defaults to ``channels``; ``input_size`` is
    the image size (h, w), known in advance so that files of weights fit.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: int,
        hidden_channels: int | None = None,
        bias: bool = True,
        input_size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        check_odd(kernel_size)
        hidden = hidden_channels or channels
        self.weight = nn.Parameter(torch.empty(hidden, channels, kernel_size, kernel_size))
        self.bias = nn.Parameter(torch.empty(hidden)) if bias else None
        uniform_start(self.weight, self.bias)
        start = None if input_size is None else deterministic_start((1, channels, *input_size), self.weight)
        self.register_buffer("direction", start)


class CPLLinear(_ConvexPotential):
    """x - (2 / sigma^2) W^T relu(W x + b) with a matrix W [hidden, features]. 1-Lipschitz."""

    def __init__(self, features: int, hidden_features: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden_features or features, features))
        self.bias = nn.Parameter(torch.empty(hidden_features or features)) if bias else None
        uniform_start(self.weight, self.bias)
        self.register_buffer("direction", deterministic_start((1, features), self.weight))
