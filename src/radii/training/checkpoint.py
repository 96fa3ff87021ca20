"""Checkpoints: one safetensors file, replaced whole, so a kill never leaves half of one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from radii.errors import InputError


def write(path: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Tensors and JSON data into one file; fsync before the rename, so a power cut keeps the old one."""
    aside = path.with_name(f".{path.name}.part")
    whole = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in tensors.items()}
    with aside.open("wb") as file:
        file.write(save(whole, metadata={"radii": json.dumps(meta)}))
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What :func:`write` wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            return tensors, json.loads((file.metadata() or {})["radii"])
    except (SafetensorError, KeyError, OSError) as error:
        raise InputError(
            f"{path} is not a checkpoint of radii: {error}. Delete it to start this run afresh."
        ) from error


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
