"""The state of a model reaches as far as its attributes do: a certificate notices every change that they lead to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import radii
from radii.errors import InputError

X = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))


@dataclass
class Part:
    layer: nn.Linear


class Hiding(nn.Module):
    """A network whose last layer stands where torch does not look."""

    def __init__(self, hide: Callable[[nn.Linear], Any], found: Callable[[Any], Callable[[Tensor], Tensor]]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 4)
        self.hidden = hide(nn.Linear(4, 3).requires_grad_(False))
        self.found = found

    def forward(self, x: Tensor) -> Tensor:
        return self.found(self.hidden)(self.first(x).relu())


def closed(layer: nn.Linear) -> Callable[[Tensor], Tensor]:
    return lambda h: layer(h)


PLACES: dict[str, tuple[Callable[[nn.Linear], Any], Callable[[Any], Any]]] = {
    "list": (lambda layer: [layer], lambda h: h[0]),
    "tuple": (lambda layer: (layer, "last"), lambda h: h[0]),
    "dictionary": (lambda layer: {"last": layer}, lambda h: h["last"]),
    "nested": (lambda layer: [{"last": (1, [layer])}], lambda h: h[0]["last"][1][0]),
    "queue": (lambda layer: deque([layer]), lambda h: h[0]),
    "namespace": (lambda layer: SimpleNamespace(last=layer), lambda h: h.last),
    "record": (Part, lambda h: h.layer),
    "closure": (closed, lambda h: h),
    "partial": (lambda layer: partial(nn.functional.linear, weight=layer.weight, bias=layer.bias), lambda h: h),
    "method": (lambda layer: layer.forward, lambda h: h),
    "tensors": (lambda layer: [layer.weight, layer.bias], lambda h: lambda x: nn.functional.linear(x, *h)),
}


def last(value: Any) -> Tensor:
    """The weight of the hidden layer, wherever it is."""
    if isinstance(value, nn.Linear):
        return value.weight
    if isinstance(value, Tensor):
        return value
    if isinstance(value, partial):
        return value.keywords["weight"]
    if hasattr(value, "__self__"):
        return value.__self__.weight
    if hasattr(value, "__closure__"):
        return last(value.__closure__[0].cell_contents)
    parts = (
        value
        if isinstance(value, list | tuple | deque)
        else (value if isinstance(value, dict) else vars(value)).values()
    )
    return next(last(part) for part in parts if not isinstance(part, int | str))


@pytest.mark.parametrize("method", ["ibp", "crown", "complete", "auto"])
@pytest.mark.parametrize("place", PLACES)
def test_changed_weights_are_noticed_wherever_they_stand(place: str, method: str) -> None:
    model = Hiding(*PLACES[place]).eval()
    proof = radii.certify(model, X, method, "linf:0.01")
    model(X)
    proof.check(model)
    with torch.no_grad():
        last(model.hidden).mul_(-1)
    with pytest.raises(InputError, match="Certify it again"):
        proof.check(model)


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ([1.0, 2.0], lambda values: values.append(3.0)),
        ({"scale": 1.0}, lambda values: values.update(scale=2.0)),
        (np.ones(3), lambda values: values.fill(2.0)),
        ([np.ones(3)], lambda values: values[0].fill(2.0)),
        (SimpleNamespace(scale=1.0), lambda values: setattr(values, "scale", 2.0)),
    ],
    ids=["list", "dictionary", "array", "array in a list", "namespace"],
)
def test_changed_settings_are_noticed(before: Any, change: Callable[[Any], None]) -> None:
    model = nn.Linear(4, 3)
    model.settings = before
    proof = radii.certify(model, X, "ibp", "linf:0.01")
    proof.check(model)
    change(before)
    with pytest.raises(InputError, match="Certify it again"):
        proof.check(model)


def test_circles_and_shared_layers_end() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3)).eval()
    model.everything = [model, model[0], [model]]
    model.everything.append(model.everything)
    proof = radii.certify(model, X, "ibp", "linf:0.01")
    proof.check(model)


def test_a_hidden_hook_is_noticed() -> None:
    model = Hiding(*PLACES["list"]).eval()
    proof = radii.certify(model, X, "ibp", "linf:0.01")
    model.hidden[0].register_forward_hook(lambda _module, _input, output: -output)
    with pytest.raises(InputError, match="Certify it again"):
        proof.check(model)
