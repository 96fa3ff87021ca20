"""A network made ready to be attacked many times between two training steps, at the lowest cost that keeps its values.

Parameters are frozen (no weight gradients are computed) and, in eval mode,
every batch norm that follows a convolution is folded into it: per channel
w' = w γ/√(σ²+ε), b' = β + (b - μ) γ/√(σ²+ε), the same function in fewer passes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Literal

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from radii.errors import unknown_name
from radii.models.classifier import frozen
from radii.models.memory_order import reorderable

Mode = Literal["eval", "train"]
_KNOWN = ("torch.nn.modules.", "radii.models.")


@contextmanager
def attackable(model: nn.Module, mode: Mode = "eval") -> Iterator[nn.Module]:
    """``model`` with frozen parameters, in the mode the method asks for; left as it was found.

    ``eval``: dropout off, running statistics, batch norms folded. ``train``:
    dropout on, batch statistics, and running statistics that every pass
    updates (the public code of Yang et al. 2020 attacks so).
    """
    if mode == "train":
        with _weights_frozen(model):
            yield model
    elif mode == "eval":
        with frozen(model), _batch_norms_folded(model):
            yield model
    else:
        raise unknown_name("mode of the inner attack", mode, ["eval", "train"])


def same_in_both_modes(model: nn.Module) -> bool:
    """Whether train and eval mode are surely the same function, so that one forward pass serves both.

    True only for networks made of torch's and this package's modules without
    batch norm and active dropout; a user's own module may do anything in train mode.
    """
    return not couples_rows(model) and not any(
        isinstance(module, nn.RReLU) or (isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0)
        for module in model.modules()
    )


def couples_rows(model: nn.Module) -> bool:
    """Whether a row's output depends on the rest of its batch (batch norm in train mode, or an unknown module)."""
    return any(
        isinstance(module, nn.modules.batchnorm._NormBase) or not type(module).__module__.startswith(_KNOWN)
        for module in model.modules()
    )


@contextmanager
def _weights_frozen(model: nn.Module) -> Iterator[None]:
    wanted = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    for parameter, _ in wanted:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter, needed in wanted:
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
    """Convolutions whose only reader is a batch norm: neighbors in a sequence, or named by the module itself."""
    for parent in list(model.modules()):
        if isinstance(parent, nn.Sequential) and type(parent).forward is nn.Sequential.forward:
            names = list(parent._modules)
            candidates = list(pairwise(names))
        else:
            candidates = list(getattr(parent, "foldable", ()))
        for convolution, norm in candidates:
            first, second = parent._modules[convolution], parent._modules[norm]
            if type(first) is nn.Conv2d and type(second) is nn.BatchNorm2d and second.track_running_stats:
                yield parent, convolution, norm


@torch.no_grad()
def _fused(convolution: nn.Module | None, norm: nn.Module | None) -> nn.Conv2d:
    assert isinstance(convolution, nn.Conv2d)
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    weight, bias = fuse_conv_bn_weights(
        convolution.weight,
        convolution.bias,
        norm.running_mean,
        norm.running_var,
        norm.eps,
        norm.weight,
        norm.bias,
    )
    fused = copy.copy(convolution)
    fused._parameters = {
        "weight": nn.Parameter(weight, requires_grad=False),
        "bias": nn.Parameter(bias, requires_grad=False),
    }
    return fused


@contextmanager
def channels_last(model: nn.Module) -> Iterator[None]:
    """Plain convolutions with their weights stored channels last, which CPU and GPU kernels are faster with.

    The order is put back at the end.
    """
    plain = reorderable(model)
    for module in plain:
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        yield
    finally:
        for module in plain:
            module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
