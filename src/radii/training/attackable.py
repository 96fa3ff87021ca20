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
from itertools import pairwise
from typing import Literal

import torch
from torch import nn

from radii.errors import unknown_name
from radii.models.classifier import frozen
from radii.models.layers.folded import folded_batch_norm, has_own_weights
from radii.models.layers.grey_convolution import fast_grey_gradients

Mode = Literal["eval", "train"]
_KNOWN = ("torch.nn.modules.", "radii.models.")


@contextmanager
def attackable(model: nn.Module, mode: Mode = "eval") -> Iterator[nn.Module]:
    """Freeze the parameters of ``model`` in this context; afterwards everything is as it was before.

    Args:
        model: the network in training.
        mode: ``eval``: dropout is off, batch norms use their running statistics
            and are folded into convolutions. ``train``: dropout is on, batch
            norms use the statistics of the batch, and every pass updates their
            running statistics (as in the public code of Yang et al. 2020).

    Raises:
        InputError: an unknown mode.
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
