"""Frozen: a program as a torch module with weights of its own, the network that a certificate is about.

It runs operation by operation, so it has no hooks, modes or states, and no change of the model it was read from
reaches it. Its digest names operations and numbers alone: two equal networks have one digest on every machine.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from radii.errors import InputError
from radii.networks.operations.activations import Relu, Rising, Sigmoidal
from radii.networks.operations.curves import Curved
from radii.networks.operations.linear import Join, Linear, Peak, Sum
from radii.networks.operations.linear_maps import Average, Convolution, Dense, Move, Scale, TransposedConvolution
from radii.networks.operations.pooling import MaxPool
from radii.networks.operations.products import Product
from radii.networks.program import Program

Head = Literal["", "softmax", "sigmoid", "one sigmoid"]
HEADS: tuple[Head, ...] = ("", "softmax", "sigmoid", "one sigmoid")
PARTS: dict[str, Any] = {
    part.__name__: part
    for part in (
        *(Average, Convolution, Curved, Dense, Join, Linear, MaxPool, Move, Peak, Product, Relu, Rising, Scale),
        *(Sigmoidal, Sum, TransposedConvolution),
    )
}
TYPES = {"float32": torch.float32, "float64": torch.float64}


class Frozen(nn.Module):
    """``program`` and the ``head`` behind it: inputs [n, …] to the returned values [n, classes].

    The prediction is the argmax of these values, ties to the lowest class. Behind one logit z, ``one sigmoid`` returns
    1 - p and p with p = sigmoid(z).

    Args:
        program: its numbers are copied.
        head: what stands behind the logits of ``program``; default nothing.
    """

    def __init__(self, program: Program, head: Head = "") -> None:
        super().__init__()
        tensors: list[Tensor] = []
        self.structure = _structure(program, tensors)
        self.head: Head = head
        for number, tensor in enumerate(tensors):
            self.register_buffer(f"tensor{number}", tensor.detach().cpu().clone())
        self.training = False

    @property
    def program(self) -> Program:
        """Its operations, with the tensors of the module as they are now."""
        tensors = list(self.buffers())
        made: tuple[list[Tensor], Program] | None = self.__dict__.get("_made")
        if made is None or any(old is not new for old, new in zip(made[0], tensors, strict=True)):
            made = self.__dict__["_made"] = tensors, _program(self.structure, tensors)
        return made[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_made"}

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.structure["input_shape"])

    def logits(self, x: Tensor) -> Tensor:
        """What its operations compute before the head: [n, outputs]."""
        if tuple(x.shape[1:]) != self.input_shape:
            raise InputError(f"Inputs must have shape {self.input_shape}, got {tuple(x.shape[1:])} instead.")
        program = self.program
        return program.run(x.to(program.dtype))

    def forward(self, x: Tensor) -> Tensor:
        """The returned values [n, classes]."""
        logits = self.logits(x)
        if self.head == "softmax":
            return logits.softmax(1)
        if not self.head:
            return logits
        values = torch.sigmoid(logits)
        return values if self.head == "sigmoid" else torch.cat([1 - values, values], 1)

    @property
    def digest(self) -> str:
        """The sha256 of its operations, their numbers and its head."""
        state = hashlib.sha256(json.dumps([self.structure, self.head]).encode())
        for tensor in self.buffers():
            plain = tensor.detach().cpu().contiguous().flatten()
            state.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
            state.update(plain.view(torch.uint8).numpy().data if plain.numel() else b"")
        return state.hexdigest()

    @classmethod
    def of_parts(cls, structure: Any, tensors: list[Tensor], head: str) -> Frozen:
        """The network with this ``structure`` and these tensors, as a file has them; anything else is refused."""
        try:
            network = cls(_program(structure, tensors), HEADS[HEADS.index(head)])  # type: ignore[arg-type]
            with torch.no_grad():
                network(torch.zeros(1, *network.input_shape))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
            raise InputError(f"This is no network of radii: {str(error).splitlines()[0]}.") from error
        return network


def _structure(program: Program, tensors: list[Tensor]) -> dict[str, Any]:
    """A program as JSON data; its tensors are appended to ``tensors``."""
    steps = [[number, _plain(step, tensors)] for number, step in program.steps.items()]
    dtype = str(program.dtype).removeprefix("torch.")
    return {"input_shape": list(program.input_shape), "output": program.output, "dtype": dtype, "steps": steps}


def _plain(part: Any, tensors: list[Tensor]) -> Any:
    if isinstance(part, Tensor):
        tensors.append(part)
        return {"tensor": len(tensors) - 1}
    if is_dataclass(part):
        return {"part": type(part).__name__} | {
            field.name: _plain(getattr(part, field.name), tensors) for field in fields(part)
        }
    return [_plain(entry, tensors) for entry in part] if isinstance(part, tuple | list) else part


def _program(structure: Any, tensors: list[Tensor]) -> Program:
    steps = {number: _part(step, tensors) for number, step in structure["steps"]}
    return Program(steps, tuple(structure["input_shape"]), structure["output"], TYPES[structure["dtype"]])


def _part(plain: Any, tensors: list[Tensor]) -> Any:
    if isinstance(plain, list):
        return tuple(_part(entry, tensors) for entry in plain)
    if not isinstance(plain, dict):
        return plain
    if "tensor" in plain:
        return tensors[plain["tensor"]]
    return PARTS[plain["part"]](**{name: _part(value, tensors) for name, value in plain.items() if name != "part"})
