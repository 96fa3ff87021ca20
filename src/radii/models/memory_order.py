"""Which convolutions may keep their weights channels last, which CPU and GPU kernels are faster with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import nn


def reorderable(model: nn.Module) -> list[nn.Conv2d]:
    """The plain convolutions of ``model``; layers that compute their weights keep their own order.

    None in networks with strided 1x1 convolutions: the CPU kernel of torch 2.13
    writes out of bounds there (4 channels, stride 2).
    """
    plain = [module for module in model.modules() if type(module) is nn.Conv2d]
    return [] if any(max(module.kernel_size) == 1 and max(module.stride) > 1 for module in plain) else plain


def channels_last(model: nn.Module) -> Callable[[], AbstractContextManager[None]]:
    """A context in which the weights of the model's plain convolutions lie in channels_last, on the CPU.

    On one thread a forward pass of a LeNet costs 0.5 of the plain order and a pass with a gradient 0.7; a
    wide ResNet costs the same. The rule depends on the model and on nothing else, so results repeat.
    Afterwards the weights are as they were. The parameters keep their identity; what they point to is
    exchanged, so entering costs microseconds. ``Tensor.to`` also restrides weights of one input channel,
    where ``contiguous`` sees nothing to do.

    Args:
        model: any network; layers that compute their weights are left alone.

    Returns:
        A function that makes the context; it may be entered many times while the weights stay the same.
    """
    weights = [
        (part.weight, part.weight.data, part.weight.data.to(memory_format=torch.channels_last))
        for part in reorderable(model)
        if part.weight.device.type == "cpu"
    ]

    @contextmanager
    def layout() -> Iterator[None]:
        for weight, _, reordered in weights:
            weight.data = reordered
        try:
            yield
        finally:
            for weight, own, _ in weights:
                weight.data = own

    return layout
