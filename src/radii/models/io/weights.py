"""Tensors on disk: safetensors files with the sha256 of their own content, and weights that other programs wrote.

A weight with a flipped bit is still a number, so the format itself does not notice
it. Files that other programs wrote have no digest and are not checked.

Training frameworks put their own prefix before every name (``module.`` of
DataParallel, ``model.`` of Lightning, ``_orig_mod.`` of torch.compile) or the
state dict into a larger checkpoint, beside tensors of other modules (``criterion.weight``).
Both are undone; after that every name and every shape of the network must be there.
"""

from __future__ import annotations

import hashlib
import json
import logging
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from radii.errors import InputError, reason
from radii.files import write_whole
from radii.models.classifier import Classifier
from radii.models.io import STATE_DICTS
from radii.tables import listed

NAME, DIGEST = "radii", "sha256"  # one entry of metadata: safetensors keeps several in no fixed order


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any] | None = None, durable: bool = True
) -> None:
    """Write tensors and JSON facts as one safetensors file, whole or not at all; equal content gives equal bytes.

    Args:
        tensors: the tensors by name; each is copied to the CPU.
        facts: JSON data to store beside them; default none.
        durable: whether to wait until they are on disk; a run's own files are waited for together at its end.
    """
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    about = json.dumps(dict(facts or {}))  # in their order, which may mean something to a reader
    note = json.dumps({"facts": about, DIGEST: _digest(whole, about)})
    write_whole(path, save(whole, metadata={NAME: note}), durable)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the facts of the file ``path``; without facts, an empty dictionary."""
    if not path.is_file():
        raise InputError(f"The file {path} does not exist.")
    try:
        content = path.read_bytes()  # once: safe_open opens a path twice, and a writer may replace it in between
        tensors = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        note = json.loads(header.get("__metadata__", {}).get(NAME, "{}"))
        if not isinstance(note, dict) or DIGEST not in note:  # of another program, or of an older radii
            return tensors, note if isinstance(note, dict) else {}
        if _digest(tensors, note["facts"]) != note[DIGEST]:
            raise InputError(f"{path} is damaged: its content is not what was written.")
        return tensors, json.loads(note["facts"])
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a whole safetensors file: {reason(error)}.") from error


def _digest(tensors: Mapping[str, Tensor], facts: str) -> str:
    state = hashlib.sha256(facts.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        state.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        state.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return state.hexdigest()


PLACES = ("state_dict", "model_state_dict", "model_state", "model", "net", "network", "weights", "params", "module")
COUNTERS = "num_batches_tracked"  # files of old versions of torch lack them; nothing in eval mode depends on them


def fill(model: nn.Module, weights: Path) -> None:
    """Copy the tensors of a file into ``model``; every name and shape of it must be there.

    Tensors of other modules, which the network does not have, are left out with a warning.

    Args:
        model: the network; a :class:`radii.Classifier` is filled with the weights of the network inside, too.
    """
    tensors = _read_weights(weights)
    target = model
    if isinstance(model, Classifier) and not _fits(tensors, model):
        target = model.net
    tensors, foreign = _of_network(weights, _without_prefix(tensors, target), target)
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
    if foreign:
        shown = f"{', '.join(foreign[:3])}{' …' if len(foreign) > 3 else ''}"
        logging.getLogger("radii").warning(
            "%s: left out are %d tensors that the network does not have: %s.", weights, len(foreign), shown
        )


def _read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of ``path``, a safetensors file or a torch state dict; no code of the file is run."""
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
    if path.suffix != ".safetensors":
        raise InputError(
            f"{path} has no weights that radii reads: give .safetensors, or a state dict of torch.save, "
            f"{', '.join(STATE_DICTS)}."
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


def _of_network(weights: Path, tensors: Mapping[str, Tensor], model: nn.Module) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors of the network among those of other modules, without their prefix, and the names of the others.

    The network is the prefix under which every name of the model stands; a tensor beside the model's own modules
    belongs to another one, a tensor inside of them does not fit, nor does a further ``layer5`` beside ``layer4``.
    """
    wanted = {name for name in model.state_dict() if not name.endswith(COUNTERS)}
    own = {_stem(name) for name in model.state_dict()}
    some = min(wanted, default="")
    prefixes = sorted({name.removesuffix(some) for name in tensors if some and name.endswith(some)})
    whole = [prefix for prefix in prefixes if wanted <= {name.removeprefix(prefix) for name in _under(prefix, tensors)}]
    if len(whole) > 1 and "" not in whole:
        raise InputError(
            f"{weights} holds {len(whole)} networks that fit the model, under {listed(whole)}; save one of them "
            f"alone: torch.save(model.{whole[0]}state_dict(), 'weights.pth')."
        )
    if not whole:
        return dict(tensors), []
    prefix = "" if "" in whole else whole[0]
    inside = {name.removeprefix(prefix): tensors[name] for name in _under(prefix, tensors)}
    kept = {name: tensor for name, tensor in inside.items() if _stem(name) in own}
    names = {prefix + name for name in kept}
    return kept, [name for name in tensors if name not in names]


def _stem(name: str) -> str:
    """The module that has a tensor, without its number."""
    return name.partition(".")[0].rstrip("0123456789")


def _under(prefix: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(prefix)]


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
