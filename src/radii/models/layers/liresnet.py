"""The linear residual block of LiResNet (Hu et al. 2023): bounded, not constrained.

x + gain * conv(x) is a single convolution whose norm is free. The network's
constant is the product of the norms, estimated while training by warm power
iterations for the GloRo loss (Leino et al. 2021,
:class:`radii.training.objectives.cross_entropies.GloRo`) and proved when certifying.
Cost: one convolution and one warm power iteration per step.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.models.layers.effective import check_odd
from radii.models.layers.power import Action, WarmNorm, deterministic_start


class LinearResidualConv2d(WarmNorm):
    """x + gain * conv(x), zero-padded; keeps channels and image size.

    ``gain`` is the paper's 1 / sqrt(number of blocks). Bounded: the constant is whatever
    the norm of I + gain W is.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: int,
        gain: float = 1.0,
        bias: bool = True,
        input_size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        check_odd(kernel_size)
        self.gain = gain
        self.weight = nn.Parameter(torch.empty(channels, channels, kernel_size, kernel_size))
        nn.init.normal_(self.weight, std=0.1 / (kernel_size * channels**0.5))
        self.bias = nn.Parameter(torch.zeros(channels)) if bias else None
        start = None if input_size is None else deterministic_start((1, channels, *input_size), self.weight)
        self.register_buffer("direction", start)

    def kernel(self) -> Tensor:
        """The kernel of I + gain W."""
        identity = nn.init.dirac_(torch.empty_like(self.weight))
        return identity + self.gain * self.weight

    def _actions(self) -> tuple[Action, Action]:
        kernel, padding = self.kernel(), self.weight.shape[2] // 2
        return (
            lambda x: F.conv2d(x, kernel, padding=padding),
            lambda y: F.conv_transpose2d(y, kernel, padding=padding),
        )

    def lipschitz_estimate(self) -> Tensor:
        """The norm on the image size last trained on, from below, differentiable: for losses only."""
        assert self.direction is not None, "run a forward in train mode first"
        return self.norm(tuple(self.direction.shape[1:]))

    def forward(self, x: Tensor) -> Tensor:
        """[n, c, h, w] -> the same shape."""
        if self.training and (self.direction is None or self.direction.shape[1:] != x.shape[1:]):
            self.direction = deterministic_start((1, *x.shape[1:]), self.weight)
        return F.conv2d(x, self.kernel(), self.bias, padding=self.weight.shape[2] // 2)

    def folded(self) -> nn.Conv2d:
        """The plain convolution with the same outputs."""
        out, _, size, _ = self.weight.shape
        plain = nn.utils.skip_init(nn.Conv2d, out, out, size, padding=size // 2, bias=self.bias is not None)
        with torch.no_grad():
            plain.to(self.weight)
            plain.weight.copy_(self.kernel())
            if self.bias is not None:
                plain.bias.copy_(self.bias)
        return plain.eval()
