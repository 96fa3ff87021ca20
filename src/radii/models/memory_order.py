"""Which convolutions may keep their weights channels last, which CPU and GPU kernels are faster with."""

from __future__ import annotations

from torch import nn


def reorderable(model: nn.Module) -> list[nn.Conv2d]:
    """The plain convolutions of ``model``; layers that compute their weights keep their own order.

    None in networks with strided 1x1 convolutions: the CPU kernel of torch 2.13
    writes out of bounds there (4 channels, stride 2).
    """
    plain = [module for module in model.modules() if type(module) is nn.Conv2d]
    return [] if any(max(module.kernel_size) == 1 and max(module.stride) > 1 for module in plain) else plain
