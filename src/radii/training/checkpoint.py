"""Checkpoints: one safetensors file with its checksum, replaced whole, so a kill never leaves half of one."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radii.errors import InputError
from radii.models.io.tensor_files import read_tensors


def latest(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and JSON data of the checkpoint ``path``; None without one, or if it is damaged, which renames it."""
    if not path.exists():
        return None
    try:
        tensors, meta = read_tensors(path)
        if not meta:
            raise InputError(f"{path} is not a checkpoint of radii.")
        return tensors, meta
    except InputError as error:
        with suppress(FileNotFoundError):  # another process of the same training was faster
            path.rename(damaged(path))
        logging.getLogger("radii").warning("%s It is renamed; the training starts from the beginning.", error)
        return None


def damaged(path: Path) -> Path:
    """The new name of the checkpoint ``path`` if it cannot be read."""
    return path.with_name(f"damaged-{path.name}")


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights and buffers of ``model`` and the tensors of ``optimizer``, each under one flat name."""
    tensors = {f"model/{key}": value for key, value in model.state_dict().items()}
    for number, state in optimizer.state_dict()["state"].items():
        for key, value in state.items():
            if value is not None:
                tensors[f"optimizer/{number}/{key}"] = torch.as_tensor(value)
    return tensors


def restore(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Copy ``tensors``, which :func:`state_of` collected, into ``model`` and ``optimizer``."""
    model.load_state_dict(section(tensors, "model"))
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer/"):
            _, number, name = key.split("/", 2)
            state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def section(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """Those ``tensors`` of a checkpoint whose names begin with ``name``, without that prefix."""
    return {key.removeprefix(f"{name}/"): value for key, value in tensors.items() if key.startswith(f"{name}/")}
