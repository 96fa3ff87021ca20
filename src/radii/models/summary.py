"""A network at a glance: its layers, their outputs and their parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from radii.models.classifier import frozen


@dataclass(frozen=True)
class Row:
    """One layer: where it is, what it is, the shape of what it returns, how many numbers it learns."""

    name: str
    kind: str
    output: tuple[int, ...]
    parameters: int


@dataclass(frozen=True)
class Summary:
    """The layers in the order in which they ran."""

    rows: tuple[Row, ...]

    @property
    def parameters(self) -> int:
        """All numbers that training may change."""
        return sum(row.parameters for row in self.rows)

    def __str__(self) -> str:
        width = max((len(row.name) for row in self.rows), default=0)
        kinds = max((len(row.kind) for row in self.rows), default=0)
        lines = [
            f"{row.name:{width}}  {row.kind:{kinds}}  {'x'.join(map(str, row.output)):>12}  {row.parameters:>12,}"
            for row in self.rows
        ]
        return "\n".join([*lines, f"{'all':{width}}  {'':{kinds}}  {'':>12}  {self.parameters:>12,}"])


def summary(model: nn.Module, input_shape: tuple[int, ...]) -> Summary:
    """Run one zero input and list every layer without children; weights and modes stay as they were."""
    rows: list[Row] = []
    counted: set[int] = set()

    def listen(name: str) -> Any:
        def note(layer: nn.Module, _inputs: Any, output: Tensor) -> None:
            own = [p for p in layer.parameters() if id(p) not in counted]
            counted.update(id(p) for p in own)
            numbers = sum(p.numel() for p in own)
            rows.append(Row(name, type(layer).__name__, tuple(output.shape[1:]), numbers))

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
