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
from torch import Tensor, nn

from radii.errors import InputError
from radii.models.classifier import Classifier, frozen
from radii.models.layers.affine import Normalization, folded_batch_norm
from radii.models.layers.shape import FirstChannels, ZeroChannels


@runtime_checkable
class Foldable(Protocol):
    """A layer that can say which plain layer it amounts to."""

    def folded(self) -> nn.Module:
        """The plain layer with the same outputs in eval mode."""


@runtime_checkable
class FoldableForSize(Protocol):
    """A layer that can say which plain layer it amounts to on inputs of a stated shape."""

    def folded_for(self, shape: tuple[int, ...]) -> nn.Module:
        """The plain layer with the same outputs in eval mode."""


_Part = tuple[str, nn.Module, tuple[int, ...]]  # name, layer, shape of its inputs
_DROPPED = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d)


def fold(model: nn.Module, input_shape: tuple[int, ...]) -> nn.Sequential:
    """The eval-mode network as one sequence of plain layers, named by their place in ``model``.

    A layer with a method ``folded`` or ``folded_for`` is replaced by what it
    returns; batch norms become per-channel affine maps; dropout goes; channels
    of zeros and outputs that nobody reads are cut out of the matrices around them.
    """
    parts: list[_Part] = []
    with frozen(model), torch.no_grad():
        probe = torch.zeros(1, *input_shape).to(next(model.parameters(), torch.zeros(())))
        for name, module in _steps(model, ""):
            shape = tuple(probe.shape[1:])
            plain = _plain(name, module, shape)
            probe = _applied(name, plain, probe)
            _append(parts, name, plain, shape)
    named = OrderedDict((name.replace(".", "/") or "model", part) for name, part, _ in parts)
    return nn.Sequential(named).eval()


def _steps(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    inside = f"{name}." if name else ""
    if isinstance(module, Classifier):
        yield f"{inside}normalization", Normalization(module.mean, module.std)
        yield from _steps(module.net, f"{inside}net")
    elif isinstance(module, nn.Sequential):
        for child, part in module.named_children():
            yield from _steps(part, f"{inside}{child}")
    elif not isinstance(module, _DROPPED):
        yield name, module


def _plain(name: str, module: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
        try:
            return folded_batch_norm(module)
        except ValueError as error:
            raise InputError(f"Layer {name!r} cannot be folded: {error}.") from error
    if isinstance(module, FoldableForSize):
        return module.folded_for(shape)
    if isinstance(module, Foldable):
        return module.folded()
    return copy.deepcopy(module).eval()


def _applied(name: str, layer: nn.Module, x: Tensor) -> Tensor:
    try:
        return layer(x)
    except (RuntimeError, IndexError, TypeError) as error:
        raise InputError(f"Layer {name!r} does not accept inputs of shape {tuple(x.shape[1:])}: {error}") from error


def _append(parts: list[_Part], name: str, layer: nn.Module, shape: tuple[int, ...]) -> None:
    """Add ``layer``, merged with the one before it where only part of a matrix is used."""
    last, before = (parts[-1][1], parts[-1][2]) if parts else (None, ())
    if isinstance(layer, FirstChannels) and isinstance(last, nn.Linear):
        parts[-1] = parts[-1][0], _cut(last, rows=layer.channels, columns=last.in_features), before
    elif isinstance(last, ZeroChannels) and isinstance(layer, nn.Linear):
        parts[-1] = name, _cut(layer, rows=layer.out_features, columns=before[0]), before
    elif isinstance(last, ZeroChannels) and isinstance(layer, nn.Conv2d) and layer.groups == 1:
        parts[-1] = name, _narrowed(layer, before[0]), before
    else:
        parts.append((name, layer, shape))


def _cut(layer: nn.Linear, rows: int, columns: int) -> nn.Linear:
    kept = nn.utils.skip_init(nn.Linear, columns, rows, layer.bias is not None)
    kept.to(layer.weight)
    kept.weight.copy_(layer.weight[:rows, :columns])
    if layer.bias is not None:
        kept.bias.copy_(layer.bias[:rows])
    return kept


def _narrowed(layer: nn.Conv2d, channels: int) -> nn.Conv2d:
    kept = copy.deepcopy(layer)
    kept.in_channels = channels
    kept.weight = nn.Parameter(layer.weight[:, :channels].clone(), requires_grad=False)
    return kept
