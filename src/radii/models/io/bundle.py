"""A model as two files: ``model.safetensors`` (weights) and ``model.json`` (what to build).

A bundle runs no code of its own: the architecture is a name this package
knows, the weights are plain tensors with their checksum. Pickles are refused.
An architecture given as an import path runs that module, so it is followed
only if the caller trusts the same path.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import nn

from radii.atomic import write_whole
from radii.errors import InputError
from radii.models import MODELS
from radii.models.classifier import Classifier
from radii.models.factories import build
from radii.models.io.tensor_files import write_tensors
from radii.models.io.weights import fill
from radii.registry import check_trust
from radii.spec import Spec, explain, read_json
from radii.threat import Box

WEIGHTS, CARD = "model.safetensors", "model.json"


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
    """Write weights and card; each file appears whole or not at all.

    Args:
        folder: of the bundle.
        model: its weights.
        architecture: how it is built.
        durable: whether to wait until the files are on disk.
    """
    write_tensors(folder / WEIGHTS, model.state_dict(), durable=durable)
    card = json.dumps({"format": 1, **architecture.canonical()}, indent=2, allow_nan=False)
    write_whole(folder / CARD, card.encode(), durable)


def load_bundle(folder: Path, trust: Collection[str] = ()) -> tuple[nn.Module, Architecture]:
    """Load the model of a folder, in eval mode.

    Args:
        folder: holds ``model.json`` and ``model.safetensors``.
        trust: import paths that the card may name; default none.

    Returns:
        The model and its architecture.

    Raises:
        InputError: the bundle is damaged, does not fit together, or names an import path that is not trusted.
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
