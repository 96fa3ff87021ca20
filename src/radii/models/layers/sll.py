"""SDP-based Lipschitz layers: x - 2 W^T T^{-1} relu(W x + T^{1/2} b / sqrt(2)) (Araujo et al. 2023).

T_i = sum_j |W W^T|_{ij} q_j / q_i with positive q. Since |q_i w_i . q_j w_j|
= q_i q_j |w_i . w_j|, the weights q only rescale the rows of W; with them
absorbed, sqrt(2) T^{-1/2} W is sqrt(2) times the AOL rescaling of W's rows,
and relu commutes with T^{-1/2} > 0, which gives the residual form below.
The paper adds b itself; a bias in units of the rescaled rows is the same
family of functions and does not depend on T.

Guarantee: 1-Lipschitz for any weights, any image size. Cost: two convolutions
and the rescaling of AOL; no power iteration.
"""

from __future__ import annotations

from torch import Tensor, nn

from radii.models.layers.aol import rescaled
from radii.models.layers.effective import Remembering, check_input, check_odd, uniform_start
from radii.models.layers.folded import Residual, residual_step


class _SDPLayer(Remembering):
    weight: nn.Parameter
    bias: nn.Parameter | None

    def _effective(self) -> Tensor:
        """sqrt(2) T^{-1/2} W."""
        kernel = self.weight if self.weight.dim() == 4 else self.weight[:, :, None, None]
        scaled = 2**0.5 * rescaled(kernel.transpose(0, 1)).transpose(0, 1)
        return scaled if self.weight.dim() == 4 else scaled[:, :, 0, 0]

    def forward(self, x: Tensor) -> Tensor:
        """[n, …] -> the same shape."""
        check_input(self, x, self.weight)
        return residual_step(x, self.remembered(self._effective), self.bias)

    def folded(self) -> Residual:
        """The residual layer with plain weights."""
        return Residual(self.remembered(self._effective), self.bias)


class SLLConv2d(_SDPLayer):
    """The SDP-based layer with a zero-padded convolution; ``hidden_channels`` defaults to ``channels``."""

    def __init__(self, channels: int, kernel_size: int, hidden_channels: int | None = None, bias: bool = True) -> None:
        super().__init__()
        check_odd(kernel_size)
        shape = (hidden_channels or channels, channels, kernel_size, kernel_size)
        self.weight, self.bias = uniform_start(shape, bias)


class SLLLinear(_SDPLayer):
    """The SDP-based layer with a matrix [hidden, features]."""

    def __init__(self, features: int, hidden_features: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.weight, self.bias = uniform_start((hidden_features or features, features), bias)
