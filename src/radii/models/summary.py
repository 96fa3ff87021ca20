"""A network at a glance: its layers, their outputs, parameters and multiply-adds."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from radii.models.classifier import frozen


@dataclass(frozen=True)
class LayerSummary:
    """One layer: where it is, what it is, the shape of what it returns, what it learns and what it costs.

    ``multiply_adds`` of one input's forward pass, in convolutions and matrices
    as they are applied; other layers count as free.
    """

    name: str
    kind: str
    output: tuple[int, ...]
    parameters: int
    multiply_adds: int


@dataclass(frozen=True)
class Summary:
    """The layers in the order in which they ran."""

    rows: tuple[LayerSummary, ...]

    @property
    def parameters(self) -> int:
        """All numbers that training may change."""
        return sum(row.parameters for row in self.rows)

    @property
    def multiply_adds(self) -> int:
        """The cost of one input's forward pass."""
        return sum(row.multiply_adds for row in self.rows)

    def __str__(self) -> str:
        width = max((len(row.name) for row in self.rows), default=0)
        kinds = max((len(row.kind) for row in self.rows), default=0)
        last = LayerSummary("all", "", (), self.parameters, self.multiply_adds)
        lines = [
            f"{row.name:{width}}  {row.kind:{kinds}}  {'x'.join(map(str, row.output)):>12}  "
            f"{row.parameters:>12,}  {row.multiply_adds:>14,}"
            for row in (*self.rows, last)
        ]
        return "\n".join(lines)


def summary(model: nn.Module, input_shape: tuple[int, ...]) -> Summary:
    """Run one zero input and list every layer without children; weights and modes stay as they were."""
    rows: list[LayerSummary] = []
    counted: set[int] = set()

    def listen(name: str) -> Any:
        def note(layer: nn.Module, _inputs: Any, output: Tensor) -> None:
            own = [p for p in layer.parameters() if id(p) not in counted]
            counted.update(id(p) for p in own)
            numbers = sum(p.numel() for p in own)
            shape = tuple(output.shape[1:])
            rows.append(LayerSummary(name, type(layer).__name__, shape, numbers, _multiply_adds(layer, shape)))

        return note

    leaves = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    hooks = [module.register_forward_hook(listen(name or "model")) for name, module in leaves]
    try:
        with frozen(model), torch.no_grad():
            model(torch.zeros(1, *input_shape).to(next(model.parameters(), torch.zeros(()))))
    finally:
        for hook in hooks:
            hook.remove()
    return Summary(tuple(rows))


def _multiply_adds(layer: nn.Module, output: tuple[int, ...]) -> int:
    """Each weight of a convolution [out, in, h, w] meets every output pixel once; one of a matrix every row."""
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() < 2:
        return 0
    places = output[1:] if weight.dim() > 2 else output[:-1]
    return weight.numel() * prod(places)
