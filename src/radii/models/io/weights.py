"""Weights from files that other programs wrote: safetensors, and torch state dicts read without running code.

Training frameworks put their own prefix before every name (``module.`` of
DataParallel, ``model.`` of Lightning, ``_orig_mod.`` of torch.compile) or the
state dict into a larger checkpoint. Both are undone; after that every name and
every shape must match.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radii.errors import InputError
from radii.models.classifier import Classifier
from radii.models.io.tensor_files import read_tensors

STATE_DICTS = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".tar")
PLACES = ("state_dict", "model_state_dict", "model_state", "model", "net", "network", "weights", "params", "module")
COUNTERS = "num_batches_tracked"  # files of old versions of torch lack them; nothing in eval mode depends on them


def fill(model: nn.Module, weights: Path) -> None:
    """Copy the tensors of a file into ``model``; every name and shape must match.

    Args:
        model: the network; a :class:`radii.Classifier` is filled with the weights of the network inside, too.
        weights: safetensors, or a state dict of torch.

    Raises:
        InputError: the file cannot be read, or its tensors are not those of the model.
    """
    tensors = read_weights(weights)
    target = model
    if isinstance(model, Classifier) and not _fits(tensors, model):
        target = model.net
    tensors = _without_prefix(tensors, target)
    wanted = target.state_dict()
    _check_names(weights, tensors, wanted)
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise InputError(
                f"{weights}: {name} must have shape {tuple(wanted[name].shape)}, got {tuple(tensor.shape)} instead."
            )
        if tensor.is_floating_point() and bool(tensor.isnan().any()):
            raise InputError(f"{weights}: {name} holds numbers that are not a number (NaN).")
    target.load_state_dict(tensors, strict=False)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of ``path``, a safetensors file or a torch state dict; no code of the file is run.

    Raises:
        InputError: there is no such file, it holds other things than tensors, or it is a pickle that calls itself
            safetensors.
    """
    if not path.is_file():
        raise InputError(f"The weights {path} do not exist.")
    with path.open("rb") as file:
        head = file.read(9)
    if head[8:] == b"{":  # safetensors: the length of a JSON header, then the header
        return read_tensors(path)[0]
    is_pickle = head[:2] == b"PK" or head[:1] == b"\x80"
    if path.suffix in STATE_DICTS:
        return _state_dict(path)
    if is_pickle:
        raise InputError(
            f"{path} is a pickle, which can run code when opened, and its name does not say so. Name a state dict "
            "FILE.pth, or convert it where it was made: safetensors.torch.save_file(model.state_dict(), "
            "'model.safetensors')."
        )
    return read_tensors(path)[0]


def _state_dict(path: Path) -> dict[str, Tensor]:
    """The state dict in a file of ``torch.save``, read with ``weights_only``: tensors and plain values, no code."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} is a pickle that holds more than tensors (a whole model?), which can run code when opened, so it "
            "is refused. Save the weights alone where it was made: torch.save(model.state_dict(), 'weights.pth')."
        ) from error
    except Exception as error:  # torch raises whatever its reader trips over
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(f"{path} is not a whole state dict of torch: {reason}.") from error
    if not isinstance(content, Mapping):
        raise InputError(f"{path} must hold a state dict, names and tensors, got {type(content).__name__} instead.")
    if _is_state(content):
        return {str(name): tensor for name, tensor in content.items()}
    nested = [name for name in (*PLACES, *content) if _is_state(content.get(name))]
    if not nested:
        names = ", ".join(str(name) for name in list(content)[:8])
        raise InputError(f"{path} holds no state dict; its entries are {names}.")
    return {str(name): tensor for name, tensor in content[nested[0]].items()}


def _is_state(content: Any) -> bool:
    return isinstance(content, Mapping) and bool(content) and all(isinstance(v, Tensor) for v in content.values())


def _fits(tensors: Mapping[str, Tensor], model: nn.Module) -> bool:
    return _without_prefix(tensors, model).keys() == model.state_dict().keys()


def _without_prefix(tensors: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """``tensors`` without the prefix that all of them have and the model's names do not have."""
    wanted, names = model.state_dict().keys(), dict(tensors)
    while names and not wanted & names.keys():
        first = next(iter(names)).partition(".")[0] + "."
        if not all(name.startswith(first) for name in names):
            return dict(tensors)
        names = {name.removeprefix(first): tensor for name, tensor in names.items()}
    return names or dict(tensors)


def _check_names(weights: Path, tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    missing = sorted(name for name in wanted.keys() - tensors.keys() if not name.endswith(COUNTERS))
    extra = sorted(tensors.keys() - wanted.keys())
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
