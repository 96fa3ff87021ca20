"""A model as two files: ``model.safetensors`` (weights) and ``model.json`` (what to build).

A bundle runs no code of its own: the architecture is a name this package
knows, the weights are plain tensors with their checksum. Pickles are refused.
An architecture given as an import path runs that module, so it is followed
only if the caller trusts the same path.

A factory of this package takes ``(input_shape, classes)``. Factories that
users have already take nothing, or ``num_classes`` as torchvision does.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import ValidationError
from torch import nn

from radii.errors import InputError, reason
from radii.files import write_whole
from radii.models import MODELS
from radii.models.classifier import Classifier
from radii.models.io import CARD, WEIGHTS
from radii.models.io.weights import fill, write_tensors
from radii.randomness import stream
from radii.registry import check_trust
from radii.spec import Spec, explain, read_json
from radii.threat import Box

CLASSES = ("classes", "num_classes", "n_classes", "num_labels")
CHANNELS = ("in_channels", "in_chans")
SIGNATURES = "(), (num_classes) or (input_shape, classes)"


def build(
    name: str, input_shape: tuple[int, ...], classes: int, arguments: Mapping[str, Any] | None = None
) -> nn.Module:
    """The network that the factory called ``name`` makes."""
    network = call_factory(MODELS.factory(name), name, input_shape, classes, arguments)
    if not isinstance(network, nn.Module):
        raise InputError(
            f"The model {name!r} must return a torch.nn.modules.module.Module, got {type(network).__name__} instead."
        )
    return network


def call_factory(
    factory: Callable[..., Any],
    name: str,
    input_shape: tuple[int, ...],
    classes: int,
    arguments: Mapping[str, Any] | None = None,
) -> Any:
    """What ``factory`` returns, called with the parts of (input_shape, classes) that its signature names.

    Args:
        input_shape: of one input; its first entry is ``in_channels``.
        classes: how many; under any of the names in :data:`CLASSES`.
    """
    values: dict[str, Any] = {"input_shape": input_shape, **dict.fromkeys(CLASSES, classes)}
    values |= dict.fromkeys(CHANNELS, input_shape[0])
    parameters = inspect.signature(factory).parameters
    keywords = {key: value for key, value in values.items() if key in parameters} | dict(arguments or {})
    unknown = [
        key
        for key, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and key not in keywords
    ]
    if unknown:
        raise InputError(
            f"The model {name!r} must take {SIGNATURES}: it needs {', '.join(map(repr, unknown))}, which is not known."
        )
    passes_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    try:
        if passes_on and not keywords.keys() & set(CLASSES):  # as torchvision's factories do
            try:
                return factory(num_classes=classes, **keywords)
            except TypeError:
                pass
        return factory(**keywords)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # a user's own code
        if "allocate memory" in str(error):  # torch's own RuntimeError
            raise MemoryError(str(error)) from error
        raise InputError(f"The model {name!r} cannot be built: {type(error).__name__}: {reason(error)}.") from error


Initialization = Literal["own", "orthogonal", "identity", "kaiming"]


def start_from(model: nn.Module, name: Initialization, seed: int) -> None:
    """Fill every matrix and kernel of ``model`` anew; biases and normalization layers keep their start.

    ``orthogonal``: orthonormal rows or columns of the matrix [out, in · h · w].
    ``identity``: ones where output and input channel and the kernel's center meet, for
    layers whose outputs are their inputs at first. ``kaiming``: uniform with
    standard deviation sqrt(2 / fan-in), He et al. 2015.

    Args:
        model: changed in place.
    """
    if name == "own":
        return
    from radii.models.layers.orthogonal import OrthogonalParameter  # only a start by name needs it

    for path, layer in model.named_modules():
        weight = layer._parameters.get("weight")
        if weight is None or weight.dim() not in (2, 4):
            continue
        if name == "kaiming" and isinstance(weight, OrthogonalParameter):
            raise InputError(f"The matrix of {path} must stay orthogonal: use init=orthogonal, identity or own.")
        with torch.no_grad():
            _fill(weight, name, stream(seed, "start", path))


def _fill(weight: torch.Tensor, name: Initialization, generator: torch.Generator) -> None:
    if name == "identity":
        nn.init.eye_(weight) if weight.dim() == 2 else nn.init.dirac_(weight)
    elif name == "orthogonal":
        weight.copy_(nn.init.orthogonal_(torch.empty(weight.shape), generator=generator))
    else:
        weight.copy_(nn.init.kaiming_uniform_(torch.empty(weight.shape), generator=generator))


class Architecture(Spec):
    """Everything needed to build a network before its weights are filled in.

    ``mean`` and ``std`` (per channel) are the preprocessing inside the
    classifier; empty means none. ``box`` is the range inputs may take.
    """

    name: str
    arguments: dict[str, Any] = {}
    input_shape: tuple[int, ...]
    classes: tuple[str, ...]
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    box: Box | None = (0.0, 1.0)

    def build(self) -> nn.Module:
        """A freshly initialized network of this architecture (from torch's global random stream)."""
        arguments = MODELS.arguments(self.name, self.arguments)
        net = build(self.name, self.input_shape, len(self.classes), arguments)
        if self.mean or self.std:
            return Classifier(net, self.mean or 0.0, self.std or 1.0)
        return net


def save_bundle(folder: Path, model: nn.Module, architecture: Architecture, durable: bool = True) -> None:
    """Write weights and card; each file is complete, or it does not exist."""
    write_tensors(folder / WEIGHTS, model.state_dict(), durable=durable)
    card = json.dumps({"format": 1, **architecture.canonical()}, indent=2, allow_nan=False)
    write_whole(folder / CARD, card.encode(), durable)


def load_bundle(folder: Path, trust: Collection[str] = ()) -> tuple[nn.Module, Architecture]:
    """Load the model of a folder, in eval mode.

    Args:
        folder: holds ``model.json`` and ``model.safetensors``.
        trust: import paths that the card may name; default none.
    """
    card = read_card(folder)
    check_trust(card.name, trust, str(folder / CARD))
    model = card.build()
    fill(model, folder / WEIGHTS)
    return model.eval(), card


def read_card(folder: Path) -> Architecture:
    """The architecture in ``model.json`` of ``folder``; no weights are read."""
    path = folder / CARD
    if not path.is_file():
        raise InputError(f"{folder} is not a model: a folder with {CARD} and {WEIGHTS} is expected.")
    card = read_json(path, "a model card")
    if card.pop("format", None) != 1:
        raise InputError(f"{path}: format must be 1; this file was written by another version of radii.")
    try:
        return Architecture.model_validate(card)
    except ValidationError as error:
        raise explain(error, str(path)) from error


def parameters(model: nn.Module) -> int:
    """The number of weights of ``model`` that training may change."""
    return sum(parameter.numel() for parameter in model.parameters())


def initialize(architecture: Architecture, seed: int) -> nn.Module:
    """``architecture.build()`` with weights that depend on ``seed`` alone; torch's global stream stays as it was."""
    from radii.randomness import stream_seed

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(seed, "initialization"))
        return architecture.build()
