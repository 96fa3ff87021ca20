"""Checkpoints: one safetensors file with its checksum, replaced whole, so a kill never leaves half of one."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radii.errors import InputError
from radii.models.io.tensor_files import read_tensors, write_tensors


def write(path: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Tensors and JSON data into one file; a power cut keeps the old one."""
    write_tensors(path, tensors, meta)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What :func:`write` wrote."""
    tensors, meta = read_tensors(path)
    if not meta:
        raise InputError(f"{path} is not a checkpoint of radii.")
    return tensors, meta


def latest(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The checkpoint to continue from; None if there is none, or only a damaged one, which is then set aside."""
    if not path.exists():
        return None
    try:
        return read(path)
    except InputError as error:
        with suppress(FileNotFoundError):  # another process of the same training was faster
            path.rename(damaged(path))
        logging.getLogger("radii").warning("%s It is set aside; the training starts from the beginning.", error)
        return None


def damaged(path: Path) -> Path:
    """Where a checkpoint that cannot be read is set aside."""
    return path.with_name(f"damaged-{path.name}")


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights, buffers and the optimizer's per-parameter tensors under one flat naming."""
    tensors = {f"model/{key}": value for key, value in model.state_dict().items()}
    for number, state in optimizer.state_dict()["state"].items():
        for key, value in state.items():
            if value is not None:
                tensors[f"optimizer/{number}/{key}"] = torch.as_tensor(value)
    return tensors


def restore(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what :func:`state_of` took."""
    model.load_state_dict(section(tensors, "model"))
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer/"):
            _, number, name = key.split("/", 2)
            state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def section(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """What a checkpoint holds under ``name``."""
    return {key.removeprefix(f"{name}/"): value for key, value in tensors.items() if key.startswith(f"{name}/")}
