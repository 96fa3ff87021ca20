"""A network prepared for many attack steps between two training steps, at the lowest cost that keeps its outputs.

Parameters are frozen (no weight gradients are computed) and, in eval mode,
every batch norm that follows a convolution is folded into it: per channel
w' = w γ/√(σ²+ε), b' = β + (b - μ) γ/√(σ²+ε), the same function in fewer passes.
Convolutions of grey images compute the gradient of the image in blocks of pixels.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import unknown_name
from radii.models.layers.plain_layers import folded_batch_norm, has_own_weights
from radii.networks.calling import frozen

BLOCK = 4  # pixels a side


@contextmanager
def fast_grey_gradients(model: nn.Module) -> Iterator[None]:
    """In this context plain convolutions of one input channel compute the gradient of their input in blocks.

    That gradient is a convolution onto one channel, and CPU kernels compute at least eight output channels at once.
    Here the 4 x 4 pixels of a block are 16 output channels of one convolution of stride 4: the same sums, in 0.4 of
    the time. The modules stay what they are, with their weights and hooks; only their ``forward`` is another.

    Args:
        model: any network; weights that need a gradient, other convolutions and other devices take the ordinary way.
    """
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d) and _is_grey(module)]
    for convolution in convolutions:
        convolution.forward = partial(_forward, convolution)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for convolution in convolutions:
            del convolution.forward


def _is_grey(module: nn.Conv2d) -> bool:
    if type(module) is not nn.Conv2d or "forward" in vars(module):  # somebody else's forward stays
        return False
    plain = (module.in_channels, module.stride, module.dilation, module.padding_mode) == (1, (1, 1), (1, 1), "zeros")
    (height, width), padding = module.kernel_size, module.padding
    return plain and height == width and not isinstance(padding, str) and padding[0] == padding[1] < height


def _forward(convolution: nn.Conv2d, x: Tensor) -> Tensor:
    """[n, 1, h, w] -> [n, channels, h', w']; sides that blocks do not divide take the ordinary way."""
    weight, bias = convolution.weight, convolution.bias
    constant = not weight.requires_grad and (bias is None or not bias.requires_grad)
    if not constant or not x.requires_grad or x.device.type != "cpu" or x.shape[-1] % BLOCK or x.shape[-2] % BLOCK:
        return nn.Conv2d.forward(convolution, x)
    return _GreyConvolution.apply(x, weight, bias, convolution.padding[0])


class _GreyConvolution(torch.autograd.Function):
    """dx[i] = sum_u g[i + p - u] w[u]: at i = 4 a + r, a convolution of stride 4 with the kernel of pixel r."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, padding: int) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.padding = weight.shape[-1] - 1 - padding
        return F.conv2d(x, weight, bias, padding=padding)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (weight,) = ctx.saved_tensors
        gradient = gradients[0].to(weight.dtype)  # under autocast it is of a shorter type
        blocked = F.conv2d(gradient, _block_kernel(weight), stride=BLOCK, padding=ctx.padding)
        return F.pixel_shuffle(blocked, BLOCK), None, None, None


@torch.no_grad()
def _block_kernel(weight: Tensor) -> Tensor:
    """[c, 1, k, k] -> [16, c, k + 3, k + 3]: for each pixel of a block the turned kernel, moved to that pixel."""
    channels, _, side, _ = weight.shape
    turned = weight[:, 0].flip(1, 2)
    kernel = weight.new_zeros(BLOCK, BLOCK, channels, side + BLOCK - 1, side + BLOCK - 1)
    for row in range(BLOCK):
        for column in range(BLOCK):
            kernel[row, column, :, row : row + side, column : column + side] = turned
    return kernel.flatten(0, 1).to(memory_format=torch.channels_last)


Mode = Literal["eval", "train"]
_KNOWN = ("torch.nn.modules.", "radii.models.")


@contextmanager
def attackable(model: nn.Module, mode: Mode = "eval") -> Iterator[nn.Module]:
    """Freeze the parameters of ``model`` in this context; afterwards everything is as it was before.

    Args:
        mode: ``eval``: dropout is off, batch norms use their running statistics
            and are folded into convolutions. ``train``: dropout is on, batch
            norms use the statistics of the batch, and every pass updates their
            running statistics (as in the public code of Yang et al. 2020).
    """
    if mode == "train":
        with _weights_frozen(model):
            yield model
    elif mode == "eval":
        with frozen(model), _batch_norms_folded(model), fast_grey_gradients(model):
            yield model
    else:
        raise unknown_name("mode of the inner attack", mode, ["eval", "train"])


def same_in_both_modes(model: nn.Module) -> bool:
    """Whether ``model`` certainly computes one function in train and eval mode, so that one forward pass serves both.

    True only for networks of torch's and this package's modules without
    batch norm and active dropout; a user's own module may do anything in train mode.
    """
    return not couples_rows(model) and not any(
        isinstance(module, nn.RReLU) or (isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0)
        for module in model.modules()
    )


def couples_rows(model: nn.Module) -> bool:
    """Whether an output of ``model`` may depend on other rows of the batch: batch norm, or an unknown module."""
    return any(
        isinstance(module, nn.modules.batchnorm._NormBase) or not type(module).__module__.startswith(_KNOWN)
        for module in model.modules()
    )


@contextmanager
def _weights_frozen(model: nn.Module) -> Iterator[None]:
    before = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    for parameter, _ in before:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter, needed in before:
            parameter.requires_grad_(needed)


@contextmanager
def _batch_norms_folded(model: nn.Module) -> Iterator[None]:
    before: list[tuple[nn.Module, str, nn.Module | None]] = []
    try:
        for parent, convolution, norm in _pairs(model):
            before += [(parent, name, parent._modules[name]) for name in (convolution, norm)]
            parent._modules[convolution] = _fused(*(parent._modules[name] for name in (convolution, norm)))
            parent._modules[norm] = nn.Identity()
        yield
    finally:
        for parent, name, module in before:
            parent._modules[name] = module


def _pairs(model: nn.Module) -> Iterator[tuple[nn.Module, str, str]]:
    """(parent, convolution, batch norm) where only the batch norm reads the convolution's output.

    These are neighbors in a sequence, and the pairs that a module lists in ``foldable``.
    """
    for parent in list(model.modules()):
        if isinstance(parent, nn.Sequential) and type(parent).forward is nn.Sequential.forward:
            names = list(parent._modules)
            candidates = list(pairwise(names))
        else:
            candidates = list(getattr(parent, "foldable", ()))
        for convolution, norm in candidates:
            first, second = parent._modules[convolution], parent._modules[norm]
            if type(first) is not nn.Conv2d or type(second) is not nn.BatchNorm2d:
                continue
            if second.track_running_stats and has_own_weights(first) and has_own_weights(second):
                yield parent, convolution, norm


@torch.no_grad()
def _fused(convolution: nn.Module | None, norm: nn.Module | None) -> nn.Conv2d:
    """One convolution that does what ``norm`` after ``convolution`` does in eval mode."""
    assert isinstance(convolution, nn.Conv2d)
    assert isinstance(norm, nn.BatchNorm2d)
    affine, weight = folded_batch_norm(norm), convolution.weight
    bias = affine.shift if convolution.bias is None else affine.shift + affine.scale * convolution.bias
    fused = copy.copy(convolution)
    fused._parameters = {
        "weight": nn.Parameter((affine.scale.view(-1, 1, 1, 1) * weight).to(weight.dtype), requires_grad=False),
        "bias": nn.Parameter(bias.to(weight.dtype), requires_grad=False),
    }
    return fused
