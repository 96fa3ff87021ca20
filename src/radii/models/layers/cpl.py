"""Convex potential layers: x - (2 / sigma^2) W^T relu(W x + b) (Meunier et al. 2022).

A gradient step of a convex potential: 1-Lipschitz whenever sigma >= |W|.
Cost: two convolutions per layer and one warm power iteration per step.

The bias enters once, inside, as in the CPL paper (the authors' code of
Prach & Lampert 2025 adds it again after W^T, which changes no constant).
sigma is a power-iterated norm times 1 + 1e-5. Certifying proves the constant
max(1, 2 |W|^2 / sigma^2 - 1), which is then 1.
"""

from __future__ import annotations

from torch import Tensor, nn

from radii.models.layers.effective import check_input, check_odd, uniform_start
from radii.models.layers.folded import Residual, residual_step
from radii.models.layers.power import WarmNorm, deterministic_start

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

    Args:
        channels: channels of input and output.
        kernel_size: side of the kernel; odd.
        hidden_channels: channels of W x; default ``channels``.
        bias: whether b is learned; default True.
        input_size: height and width of the images; if known, files of weights always fit. Default: at first use.
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
        shape = (hidden_channels or channels, channels, kernel_size, kernel_size)
        self.weight, self.bias = uniform_start(shape, bias)
        start = None if input_size is None else deterministic_start((1, channels, *input_size), self.weight)
        self.register_buffer("direction", start)


class CPLLinear(_ConvexPotential):
    """x - (2 / sigma^2) W^T relu(W x + b) with a matrix W [``hidden_features``, ``features``]. 1-Lipschitz."""

    def __init__(self, features: int, hidden_features: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.weight, self.bias = uniform_start((hidden_features or features, features), bias)
        self.register_buffer("direction", deterministic_start((1, features), self.weight))
