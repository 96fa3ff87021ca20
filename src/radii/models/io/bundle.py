"""A model as two files: ``model.safetensors`` (weights) and ``model.json`` (what to build).

A bundle runs no code of its own: the architecture is a name this package
knows, the weights are plain tensors. Pickles are refused. An architecture
given as an import path runs that module, so it is followed only if the caller
names the same path.
"""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from radii.errors import InputError
from radii.models import MODELS
from radii.models.classifier import Classifier
from radii.spec import Spec, explain
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
        """A freshly initialised network of this architecture (from torch's global random stream)."""
        arguments = MODELS.arguments(self.name, self.arguments)
        factory = MODELS.factory(self.name)
        try:
            inspect.signature(factory).bind(self.input_shape, len(self.classes), **arguments)
        except TypeError as error:
            raise InputError(f"The model {self.name!r} must take (input_shape, classes): {error}.") from error
        net = factory(self.input_shape, len(self.classes), **arguments)
        if not isinstance(net, nn.Module):
            raise InputError(
                f"The model {self.name!r} must return a torch.nn.Module, got {type(net).__name__} instead."
            )
        if self.mean or self.std:
            return Classifier(net, self.mean or 0.0, self.std or 1.0)
        return net


def save_bundle(folder: Path, model: nn.Module, architecture: Architecture) -> None:
    """Write weights and card; each file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f".{WEIGHTS}.part"
    save_file(_unshared(model.state_dict()), aside)
    os.replace(aside, folder / WEIGHTS)
    card = folder / f".{CARD}.part"
    card.write_text(json.dumps({"format": 1, **architecture.canonical()}, indent=2, allow_nan=False))
    os.replace(card, folder / CARD)


def load_bundle(folder: Path, trusted: str | None = None) -> tuple[nn.Module, Architecture]:
    """The model of a folder, in eval mode, and its architecture.

    ``trusted`` is the import path that the caller allows this bundle to run.
    """
    card = read_card(folder)
    if ":" in card.name and card.name != trusted:
        raise InputError(
            f"{folder / CARD} wants to import {card.name!r}, which runs code. "
            f"If you trust it, say so: --model {card.name}."
        )
    model = card.build()
    fill(model, folder / WEIGHTS)
    return model.eval(), card


def read_card(folder: Path) -> Architecture:
    """The architecture in ``model.json``; no weights are read."""
    path = folder / CARD
    if not path.is_file():
        raise InputError(f"{folder} is not a model: a folder with {CARD} and {WEIGHTS} is expected.")
    try:
        card = json.loads(path.read_text())
        if card.pop("format", None) != 1:
            raise InputError(f"{path}: format must be 1; this file was written by another version of radii.")
        return Architecture.model_validate(card)
    except ValidationError as error:
        raise explain(error, str(path)) from error
    except (json.JSONDecodeError, UnicodeDecodeError, AttributeError) as error:
        raise InputError(f"{path} is not a model card: {error}.") from error


def fill(model: nn.Module, weights: Path) -> None:
    """Copy the tensors of a safetensors file into ``model``; every name and shape must match."""
    tensors = read_weights(weights)
    wanted = model.state_dict()
    missing, extra = sorted(wanted.keys() - tensors.keys()), sorted(tensors.keys() - wanted.keys())
    if missing or extra:
        raise InputError(
            f"{weights} does not fit the model: "
            + "; ".join(
                f"{what} {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
                for what, names in (("missing", missing), ("not in the model:", extra))
                if names
            )
            + "."
        )
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise InputError(
                f"{weights}: {name} must have shape {tuple(wanted[name].shape)}, got {tuple(tensor.shape)} instead."
            )
    model.load_state_dict(tensors)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Tensors of a safetensors file; a pickle is refused, whatever its name."""
    if not path.is_file():
        raise InputError(f"The weights {path} do not exist.")
    with path.open("rb") as file:
        head = file.read(9)
    is_pickle = head[:2] == b"PK" or head[:1] == b"\x80" or path.suffix in {".pt", ".pth", ".pkl", ".ckpt", ".bin"}
    if is_pickle and head[8:] != b"{":  # safetensors: the length of a JSON header, then the header
        raise InputError(
            f"{path} is a pickle, which can run code when opened. Convert it where it was made: "
            "safetensors.torch.save_file(model.state_dict(), 'model.safetensors')."
        )
    try:
        return load_file(path)
    except SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file: {error}.") from error


def _unshared(state: dict[str, Tensor]) -> dict[str, Tensor]:
    # safetensors refuses tensors that share memory; a copy of each is what load_state_dict needs anyway
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}


def parameters(model: nn.Module) -> int:
    """How many numbers training may change."""
    return sum(parameter.numel() for parameter in model.parameters())


def initialised(architecture: Architecture, seed: int) -> nn.Module:
    """``architecture.build()`` with weights that depend on ``seed`` alone; the global stream is left as found."""
    from radii.randomness import stream_seed

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(seed, "initialization"))
        return architecture.build()
