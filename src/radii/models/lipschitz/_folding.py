"""A network in eval mode as a sequence of plain layers: these are bounded, certified and exported.

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

from radii.errors import InputError, reason
from radii.models.classifier import Classifier
from radii.models.equality_check import check_agreement
from radii.models.layers.plain_layers import Normalization, folded_batch_norm
from radii.models.layers.weightless import FirstChannels, ZeroChannels
from radii.networks.calling import frozen
from radii.networks.model_state import check_behavior, title


@runtime_checkable
class Foldable(Protocol):
    """A layer that knows a plain layer with the same outputs."""

    def folded(self) -> nn.Module:
        """The plain layer with the same outputs in eval mode."""


@runtime_checkable
class FoldableForSize(Protocol):
    """A layer that knows a plain layer with the same outputs on inputs of a stated shape."""

    def folded_for(self, shape: tuple[int, ...]) -> nn.Module:
        """The plain layer with the same outputs in eval mode."""


_Part = tuple[str, nn.Module, tuple[int, ...]]  # name, layer, shape of its inputs
_DROPPED = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d)


def fold(model: nn.Module, input_shape: tuple[int, ...]) -> nn.Sequential:
    """The eval-mode network as one sequence of plain layers, named by their place in ``model``.

    A layer with a method ``folded`` or ``folded_for`` is replaced by its result; batch norms become
    per-channel affine maps; dropout is removed; channels of zeros and outputs that nothing reads are cut
    out of the matrices around them.

    Args:
        input_shape: the shape of one input, without the batch.
    """
    check_behavior(model)
    parts: list[_Part] = []
    with frozen(model), torch.no_grad():
        like = next(model.parameters(), torch.zeros(()))
        probe = _probe(input_shape).to(like)
        for name, module in _steps(model, ""):
            shape = tuple(probe.shape[1:])
            for inner, plain in _steps(_plain(name, module, shape), name):
                shape = tuple(probe.shape[1:])
                probe = _applied(inner, plain, probe)
                _append(parts, inner, plain, shape)
        if not parts:
            raise InputError("The model has no layers.")
        network = nn.Sequential(_named(parts)).eval()
        check_agreement(model, lambda x: (network(x),) * 2, input_shape, like)
    return network


def _probe(shape: tuple[int, ...]) -> Tensor:
    """Two inputs of noise."""
    if not (isinstance(shape, tuple) and shape and all(isinstance(side, int) and side > 0 for side in shape)):
        raise InputError(f"input_shape must be a tuple of positive sizes without the batch, got {shape!r} instead.")
    return torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))


def _named(parts: list[_Part]) -> OrderedDict[str, nn.Module]:
    """Names that a Sequential takes, each once."""
    named: OrderedDict[str, nn.Module] = OrderedDict()
    for name, part, _ in parts:
        wanted = name.replace(".", "/") or "model"
        named[wanted if wanted not in named else f"{wanted}#{len(named)}"] = part
    return named


def _steps(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """The layers in the order in which they run; one that is used twice comes twice."""
    inside = f"{name}." if name else ""
    if type(module).forward is Classifier.forward:
        assert isinstance(module, Classifier)
        yield f"{inside}normalization", Normalization(module.mean, module.std)
        yield from _steps(module.net, f"{inside}net")
    elif type(module).forward is nn.Sequential.forward:
        for child, part in module._modules.items():  # named_children leaves out what it has seen
            assert part is not None
            yield from _steps(part, f"{inside}{child}")
    elif type(module) not in _DROPPED:
        yield name, module


def _plain(name: str, module: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    if type(module) is nn.BatchNorm1d or type(module) is nn.BatchNorm2d:
        try:
            return folded_batch_norm(module)
        except ValueError as error:
            raise InputError(f"Layer {name!r} cannot be folded: {reason(error)}.") from error
    if isinstance(module, FoldableForSize | Foldable):
        _check_own_forward(name, module)
        return module.folded_for(shape) if isinstance(module, FoldableForSize) else module.folded()
    try:
        return _not_in_place(copy.deepcopy(module).eval())
    except (TypeError, RuntimeError, NotImplementedError) as error:
        raise InputError(f"{title(name, module)} cannot be folded into plain layers: {reason(error)}.") from error


def _not_in_place(layer: nn.Module) -> nn.Module:
    """``layer`` without writing into its input: the same values, and the inputs of certificates stay."""
    for module in layer.modules():
        if hasattr(module, "inplace"):
            module.inplace = False  # type: ignore[assignment]
    return layer


def _check_own_forward(name: str, module: nn.Module) -> None:
    """Refuse a subclass that overrides ``forward`` and inherits ``folded``, which then describes another layer."""
    kinds = type(module).__mro__
    forward = next(place for place, kind in enumerate(kinds) if "forward" in vars(kind))
    folded = next(place for place, kind in enumerate(kinds) if {"folded", "folded_for"} & set(vars(kind)))
    if forward < folded:
        raise InputError(
            f"{title(name, module)} overrides the 'forward' of {kinds[folded].__name__}, so it cannot be folded as one."
        )


def _applied(name: str, layer: nn.Module, x: Tensor) -> Tensor:
    try:
        following = layer(x)
    except (RuntimeError, IndexError, TypeError) as error:
        shape = tuple(x.shape[1:])
        raise InputError(f"Layer {name!r} does not accept inputs of shape {shape}: {reason(error)}.") from error
    if not isinstance(following, Tensor):
        raise InputError(f"Layer {name!r} must return one tensor, got {type(following).__name__} instead.")
    return following


def _append(parts: list[_Part], name: str, layer: nn.Module, shape: tuple[int, ...]) -> None:
    """Add ``layer``, merged with the one before it where only part of a matrix is used."""
    last, before = (parts[-1][1], parts[-1][2]) if parts else (None, ())
    if type(layer) is FirstChannels and type(last) is nn.Linear:
        parts[-1] = parts[-1][0], _cut(last, rows=layer.channels, columns=last.in_features), before
    elif type(last) is ZeroChannels and type(layer) is nn.Linear:
        parts[-1] = name, _cut(layer, rows=layer.out_features, columns=before[0]), before
    elif type(last) is ZeroChannels and type(layer) is nn.Conv2d and layer.groups == 1:
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
