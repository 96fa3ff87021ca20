"""Tensors on disk: safetensors files with the sha256 of their own content.

A weight with a flipped bit is still a number, so the format itself does not notice
it. Files that other programs wrote have no digest and are not checked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from radii.atomic import write_whole
from radii.errors import InputError, reason

NAME, DIGEST = "radii", "sha256"  # one entry of metadata: safetensors keeps several in no fixed order


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any] | None = None, durable: bool = True
) -> None:
    """Write tensors and JSON facts as one safetensors file, whole or not at all; equal content gives equal bytes.

    Args:
        path: the file.
        tensors: the tensors by name; each is copied to the CPU.
        facts: JSON data to store beside them; default none.
        durable: whether to wait until they are on disk; a run's own files are waited for together at its end.
    """
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    about = json.dumps(dict(facts or {}), sort_keys=True)
    note = json.dumps({"facts": about, DIGEST: _digest(whole, about)})
    write_whole(path, save(whole, metadata={NAME: note}), durable)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the facts of the file ``path``; without facts, an empty dictionary.

    Raises:
        InputError: the file is no safetensors file, or it is not what :func:`write_tensors` wrote.
    """
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
