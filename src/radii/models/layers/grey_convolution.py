"""Convolutions of grey images with a faster gradient of the image, for attacks between two training steps.

The gradient of the image is a convolution onto one channel, and CPU kernels compute at least eight output
channels at once. Here the 4 x 4 pixels of a block are 16 output channels of one convolution of stride 4: the same
sums, in 0.4 of the time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.models.layers.folded import has_own_weights

BLOCK = 4  # pixels a side


def has_fast_gradient(module: nn.Module | None) -> bool:
    """Whether ``module`` is a plain CPU convolution of one input channel that :class:`GreyConvolution` computes."""
    if type(module) is not nn.Conv2d or not has_own_weights(module) or module.weight.device.type != "cpu":
        return False
    (height, width), padding = module.kernel_size, module.padding
    return (
        (module.in_channels, module.stride, module.dilation, module.padding_mode) == (1, (1, 1), (1, 1), "zeros")
        and height == width
        and not isinstance(padding, str)
        and padding[0] == padding[1] < height
        and not module.weight.requires_grad
    )


class GreyConvolution(nn.Module):
    """What ``convolution`` computes, with constant weights; only the gradient of its input is computed otherwise.

    Args:
        convolution: one for which :func:`has_fast_gradient` holds.
    """

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.convolution = convolution
        self.blocks = _block_kernel(convolution.weight)

    def forward(self, x: Tensor) -> Tensor:
        """[n, 1, h, w] -> [n, channels, h', w']; sides that blocks do not divide take the ordinary way."""
        if x.shape[-1] % BLOCK or x.shape[-2] % BLOCK or not x.requires_grad:
            return self.convolution(x)
        own = self.convolution
        return _GreyConvolution.apply(x, own.weight, own.bias, own.padding[0], self.blocks)


@torch.no_grad()
def _block_kernel(weight: Tensor) -> Tensor:
    """[c, 1, k, k] -> [16, c, k + 3, k + 3]: for each pixel of a block the turned kernel, moved to that pixel."""
    channels, _, side, _ = weight.shape
    kernel = weight.new_zeros(BLOCK, BLOCK, channels, side + BLOCK - 1, side + BLOCK - 1)
    for row in range(BLOCK):
        for column in range(BLOCK):
            kernel[row, column, :, row : row + side, column : column + side] = weight[:, 0].flip(1, 2)
    return kernel.flatten(0, 1).to(memory_format=torch.channels_last)


class _GreyConvolution(torch.autograd.Function):
    """dx[i] = sum_u g[i + p - u] w[u]: at i = 4 a + r, a convolution of stride 4 with the kernel of pixel r."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, padding: int, blocks: Tensor) -> Tensor:
        ctx.save_for_backward(blocks)
        ctx.padding = weight.shape[-1] - 1 - padding
        return F.conv2d(x, weight, bias, padding=padding)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None]:
        (blocks,) = ctx.saved_tensors
        blocked = F.conv2d(gradients[0], blocks, stride=BLOCK, padding=ctx.padding)
        return F.pixel_shuffle(blocked, BLOCK), None, None, None, None
