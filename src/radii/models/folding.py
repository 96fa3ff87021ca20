"""A network as the plain layers it amounts to in eval mode: what is bounded, certified and exported.

Constrained layers become ordinary convolutions and matrices that hold the
weights they really apply, in the model's own dtype, so outputs stay the same.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from radii.errors import InputError
from radii.models.classifier import Classifier
from radii.models.layers.affine import Normalization, folded_batch_norm
from radii.models.layers.shape import FirstChannels


@runtime_checkable
class Foldable(Protocol):
    """A layer that can say which plain layer it amounts to."""

    def folded(self) -> nn.Module:
        """The plain layer with the same outputs in eval mode."""


_DROPPED = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d)


def fold(model: nn.Module) -> nn.Sequential:
    """The eval-mode network as one sequence of plain layers, named by their place in ``model``.

    A layer with a method ``folded()`` is replaced by what it returns; batch
    norms become per-channel affine maps; dropout goes; a linear layer of which
    only the first outputs are kept loses its other rows.
    """
    with torch.no_grad():
        parts = list(_merged(_steps(model, "")))
    named = OrderedDict((name.replace(".", "/") or "model", part) for name, part in parts)
    return nn.Sequential(named).eval()


def _steps(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    inside = f"{name}." if name else ""
    if isinstance(module, Classifier):
        yield f"{inside}normalization", Normalization(module.mean, module.std)
        yield from _steps(module.net, f"{inside}net")
    elif isinstance(module, nn.Sequential):
        for child, part in module.named_children():
            yield from _steps(part, f"{inside}{child}")
    elif isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
        try:
            yield name, folded_batch_norm(module)
        except ValueError as error:
            raise InputError(f"Layer {name!r} cannot be folded: {error}.") from error
    elif isinstance(module, Foldable):
        yield from _steps(module.folded(), name)
    elif not isinstance(module, _DROPPED):
        yield name, copy.deepcopy(module).eval()


def _merged(steps: Iterator[tuple[str, nn.Module]]) -> Iterator[tuple[str, nn.Module]]:
    """Keep only the rows of a linear layer that the next layer keeps."""
    waiting: tuple[str, nn.Module] | None = None
    for name, module in steps:
        if waiting is not None:
            last = waiting[1]
            if isinstance(module, FirstChannels) and isinstance(last, nn.Linear):
                waiting = waiting[0], _first_rows(last, module.channels)
                continue
            yield waiting
        waiting = name, module
    if waiting is not None:
        yield waiting


def _first_rows(layer: nn.Linear, rows: int) -> nn.Linear:
    kept = nn.utils.skip_init(nn.Linear, layer.in_features, rows, layer.bias is not None)
    kept.to(layer.weight)
    kept.weight.copy_(layer.weight[:rows])
    if layer.bias is not None:
        kept.bias.copy_(layer.bias[:rows])
    return kept
