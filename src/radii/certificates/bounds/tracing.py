"""What a network does to its input, recorded operation by operation as it runs.

Any forward function is understood, whatever modules or functions it is written
with. Operations on weights alone are kept too and can be run again, so bounds
are differentiable in the weights and see every change of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from radii.errors import InputError
from radii.models.classifier import frozen

ROWS = 2  # of the traced input: a batch dimension of one could be confused with a dimension of size one


@dataclass(frozen=True)
class Ref:
    """The value number ``number`` of a trace; 0 is the input."""

    number: int


@dataclass(frozen=True)
class Record:
    """One operation: what it was given, which values it made, in which layer, and whether the input moves it."""

    operation: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    outputs: tuple[int, ...]
    shape: tuple[int, ...]  # of the first output, without the batch
    layer: str
    moving: bool


@dataclass(frozen=True)
class Trace:
    """The records of one forward pass; ``output`` is the value that holds the logits."""

    records: tuple[Record, ...]
    input_shape: tuple[int, ...]
    output: int


def trace(model: nn.Module, input_shape: tuple[int, ...]) -> Trace:
    """Run ``model`` in eval mode on a batch of ``input_shape`` and write down what happens."""
    like = example(model)
    x = torch.full((ROWS, *input_shape), 0.5, device=like.device, dtype=like.dtype)
    recorder = _Recorder(x)
    with frozen(model), torch.no_grad(), _layer_names(model, recorder), recorder:
        logits = model(x)
    if not isinstance(logits, Tensor) or logits.dim() != 2 or len(logits) != ROWS:
        raise InputError("The model must return logits [n, classes] for a batch of n inputs.")
    output = recorder.numbers.get(id(logits))
    if output is None or output not in recorder.moved:
        raise InputError("The model's logits do not depend on its input: there is nothing to bound.")
    return Trace(tuple(recorder.records), input_shape, output)


def example(model: nn.Module) -> Tensor:
    """A tensor of the model's device and type; the rounding of narrower types than float32 is not accounted for."""
    like = next((p for p in [*model.parameters(), *model.buffers()] if p.is_floating_point()), torch.zeros(()))
    if like.dtype not in (torch.float32, torch.float64):
        raise InputError(f"Bounds exist for float32 and float64 models, got {like.dtype} instead: model.float().")
    return like


class _Recorder(TorchDispatchMode):
    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.records: list[Record] = []
        self.numbers = {id(x): 0}
        self.moved = {0}
        self.kept: list[Tensor] = [x]  # alive, so that no identity is given twice
        self.path: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        arguments, keywords = tree_map(self._ref, (args, kwargs))
        given = {leaf.number for leaf in tree_flatten((arguments, keywords))[0] if isinstance(leaf, Ref)}
        result = func(*args, **kwargs)
        made = [leaf for leaf in tree_flatten(result)[0] if isinstance(leaf, Tensor)]
        moving = bool(given & self.moved)
        if made or moving:
            outputs = tuple(self._number(tensor) for tensor in made)
            self.moved |= set(outputs) if moving else set()
            shape = tuple(made[0].shape[1:]) if made else ()
            if moving and (not made or made[0].dim() == 0 or len(made[0]) != ROWS):
                shape = (-1,)  # not a batch any more
            layer = ".".join(self.path[-1:]) or "the model"
            self.records.append(Record(func, arguments, keywords, outputs, shape, layer, moving))
        return result

    def _ref(self, value: Any) -> Any:
        return Ref(self.numbers[id(value)]) if isinstance(value, Tensor) and id(value) in self.numbers else value

    def _number(self, tensor: Tensor) -> int:
        self.kept.append(tensor)
        self.numbers[id(tensor)] = len(self.kept)
        return len(self.kept)


@contextmanager
def _layer_names(model: nn.Module, recorder: _Recorder) -> Iterator[None]:
    """Keep the name and class of the running submodule in ``recorder.path``."""
    with ExitStack() as hooks:
        for name, module in model.named_modules():
            title = f"{name or 'the model'} ({type(module).__name__})"

            def enter(_module: nn.Module, _args: Any, title: str = title) -> None:
                recorder.path.append(title)

            def leave(_module: nn.Module, _args: Any, _output: Any) -> None:
                recorder.path.pop()

            hooks.callback(module.register_forward_pre_hook(enter).remove)
            hooks.callback(module.register_forward_hook(leave).remove)
        yield
