"""A table of a network: its layers, their output shapes, parameters and multiply-adds."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from radii.networks.calling import frozen
from radii.tables import Table, Tabular, listing


@dataclass(frozen=True)
class LayerSummary:
    """One layer of a network.

    Args:
        multiply_adds: of one input's forward pass, counted in convolutions and
            matrices as they are applied; other layers count as 0.
    """

    name: str
    kind: str
    output: tuple[int, ...]
    parameters: int
    multiply_adds: int


@dataclass(frozen=True)
class Summary(Tabular):
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

    def table(self, title: str = "") -> Table:
        """One row per layer, and one for all of them."""
        every = (*self.rows, LayerSummary("all", "", (), self.parameters, self.multiply_adds))
        lines = [
            (row.name, row.kind, "x".join(map(str, row.output)), f"{row.parameters:,}", f"{row.multiply_adds:,}")
            for row in every
        ]
        return listing(title, ("layer", "kind", "output", "parameters", "multiply-adds"), lines)


def summary(model: nn.Module, input_shape: tuple[int, ...]) -> Summary:
    """Run one input of zeros through ``model`` and list every layer that has no children.

    Weights and modes of the model stay as they were. (torchinfo prints a similar
    table, but counts parameters and multiply-adds of the stored weights, not of
    the weights that constrained layers apply.)

    Args:
        input_shape: shape of one input, without the batch.
    """
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
    """Every weight of a convolution [out, in, h, w] is used once per output pixel, one of a matrix once per row."""
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() < 2:
        return 0
    places = output[1:] if weight.dim() > 2 else output[:-1]
    return weight.numel() * prod(places)
