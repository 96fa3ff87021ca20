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
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from radii.certificates.bounds.linear_maps import Gather, LinearMap
from radii.certificates.bounds.relaxations import Affine, Layer
from radii.errors import InputError
from radii.models.classifier import frozen
from radii.models.model_state import ModelState, check_behavior

ROWS = 2  # of the traced input: a batch dimension of one could be confused with a dimension of size one
SPACING = 64  # between the numbers of two values: layers that one operation is written as fit between them
_LEAVING = frozenset(
    ["numpy", "tolist", "item", "data_ptr", "untyped_storage", "storage", "__array__", "__dlpack__", "__reduce_ex__"]
)


@dataclass(frozen=True)
class Ref:
    """The value number ``number`` of a trace; 0 is the input."""

    number: int


@dataclass(frozen=True)
class Record:
    """One operation: its arguments, its results, its layer, and whether it depends on the input (``moving``)."""

    operation: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    outputs: tuple[int, ...]
    shape: tuple[int, ...]  # of the first output, without the batch
    layer: str
    moving: bool
    kind: torch.dtype | None  # of the first output


@dataclass(frozen=True)
class Trace:
    """The records of one forward pass; ``output`` is the value that holds the logits."""

    records: tuple[Record, ...]
    input_shape: tuple[int, ...]
    output: int


def trace(model: nn.Module, input_shape: tuple[int, ...]) -> Trace:
    """Run ``model`` in eval mode on a batch of ``input_shape`` and record every operation.

    Args:
        model: any network from inputs to logits.
        input_shape: the shape of one input, without the batch.

    Returns:
        The operations, in order.

    Raises:
        InputError: a module's behavior is not its class's, a value leaves torch, a weight or buffer is written
            to, a value is read after it was overwritten through a view, or random numbers are drawn.
    """
    like = example(model)
    x = torch.full((ROWS, *input_shape), 0.5, device=like.device, dtype=like.dtype)
    check_behavior(model)
    before = ModelState.of(model)
    recorder = _Recorder(x)
    with frozen(model), torch.no_grad(), _layer_names(model, recorder), _ValueGuard(recorder), recorder:
        logits = model(x)
    if change := before.difference(ModelState.of(model)):
        raise InputError(f"The model cannot be bounded: it changes itself while it runs ({change}).")
    if not isinstance(logits, Tensor) or logits.dim() != 2 or len(logits) != ROWS:
        raise InputError("The model must return logits [n, classes] for a batch of n inputs.")
    output = recorder.numbers.get(id(logits))
    if output in recorder.stale:
        raise InputError("The model cannot be bounded: its logits were overwritten in place through a view.")
    if output is None or output not in recorder.moved:
        raise InputError("The model's logits do not depend on its input: there is nothing to bound.")
    return Trace(tuple(recorder.records), input_shape, output)


def example(model: nn.Module) -> Tensor:
    """A tensor of the device and type of ``model``; types narrower than float32 are refused."""
    like = next((p for p in [*model.parameters(), *model.buffers()] if p.is_floating_point()), torch.zeros(()))
    if like.dtype not in (torch.float32, torch.float64):
        raise InputError(f"Bounds exist for float32 and float64 models, got {like.dtype} instead: model.float().")
    return like


class _Recorder(TorchDispatchMode):
    """Numbers every tensor of a forward pass and records which operation computed it from which others."""

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.records: list[Record] = []
        self.numbers = {id(x): 0}
        self.moved = {0}
        self.kept: list[Tensor] = [x]  # alive, so that no identity is given twice
        self.owners = {_storage(x): {0}}  # the numbers of the values that lie in each storage
        self.outside: set[int] = set()  # storages of weights, buffers and constants
        self.stale: set[int] = set()  # numbers of values that were overwritten through a view
        self.path: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing here is compiled, and asking for it would import the compiler for seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and "dropout" not in func.__name__:
            raise self.refusal(f"{func.__name__} draws random numbers")
        arguments, keywords = tree_map(self._ref, (args, kwargs))
        sources = {leaf.number for leaf in tree_flatten((arguments, keywords))[0] if isinstance(leaf, Ref)}
        if sources & self.stale:
            raise self.refusal(f"{func.__name__} reads a value after it was overwritten in place through a view")
        written = self._written(func, args, kwargs)
        result = func(*args, **kwargs)
        results = [leaf for leaf in tree_flatten(result)[0] if isinstance(leaf, Tensor)]
        moving = bool(sources & self.moved)
        for tensor in written:
            self.stale |= self.owners.get(_storage(tensor), set())
        if results or moving:
            outputs = tuple(self._number(tensor) for tensor in results)
            self.moved |= set(outputs) if moving else set()
            shape = tuple(results[0].shape[1:]) if results else ()
            if moving and (not results or results[0].dim() == 0 or len(results[0]) != ROWS):
                shape = (-1,)  # not a batch any more
            kind = results[0].dtype if results else None
            self.records.append(Record(func, arguments, keywords, outputs, shape, self.layer, moving, kind))
        return result

    @property
    def layer(self) -> str:
        """The submodule that is running."""
        return ".".join(self.path[-1:]) or "the model"

    def refusal(self, why: str) -> InputError:
        """The error for what cannot be followed in the running layer."""
        return InputError(f"Layer {self.layer} cannot be bounded: {why}.")

    def is_moving(self, value: Any) -> bool:
        """Whether ``value`` is a tensor that depends on the input."""
        return isinstance(value, Tensor) and self.numbers.get(id(value)) in self.moved

    def _written(self, func: Any, args: Any, kwargs: Any) -> list[Tensor]:
        """The tensors that ``func`` writes into; weights, buffers and constants are refused before they change."""
        written: list[Tensor] = []
        for place, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = args[place] if place < len(args) else kwargs.get(argument.name)
                written += [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]
        if any(_storage(tensor) in self.outside for tensor in written):
            raise self.refusal(f"{func.__name__} changes a weight, a buffer or a constant of the model while it runs")
        return written

    def _ref(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if id(value) in self.numbers:
            return Ref(self.numbers[id(value)])
        storage = _storage(value)
        if self.owners.get(storage, set()) & self.moved:
            raise self.refusal("a value is read in a way that cannot be followed, as by .data")
        self.outside.add(storage)
        return value

    def _number(self, tensor: Tensor) -> int:
        self.kept.append(tensor)
        number = self.numbers[id(tensor)] = len(self.kept) * SPACING
        self.owners.setdefault(_storage(tensor), set()).add(number)
        return number


class _ValueGuard(TorchFunctionMode):
    """Refuses to hand values that depend on the input to numpy and to Python, where no branch on them is seen."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _LEAVING and any(map(self.recorder.is_moving, args)):
            raise self.recorder.refusal(f"{name} reads values of the input outside torch, where no bound sees them")
        return func(*args, **(kwargs or {}))


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


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


@dataclass(frozen=True)
class Operands:
    """The arguments of one operation."""

    record: Record
    values: dict[int, Tensor]
    shapes: dict[int, tuple[int, ...]]
    dtype: torch.dtype | None
    layers: dict[int, Layer]  # that were converted so far

    def add(self, layer: Layer, shape: tuple[int, ...]) -> int:
        """A further layer before the operation's own, for one that is written as several.

        Args:
            layer: the layer.
            shape: of its value, without the batch.

        Returns:
            The number of its value.
        """
        number = max((number for number in self.layers), default=0)
        number = max(number, self.record.outputs[0] - SPACING) + 1
        if number >= self.record.outputs[0]:
            raise refusal(self.record, "is made of too many layers")
        self.layers[number], self.shapes[number] = layer, shape
        return number

    def __getitem__(self, place: int) -> Any:
        return self.weight(self.record.arguments[place]) if place < len(self.record.arguments) else None

    def weight(self, value: Any) -> Any:
        if isinstance(value, Ref):
            if value.number in self.shapes:
                return value
            if value.number not in self.values:
                raise refusal(self.record, "reads a second result of a pooling or normalization")
            value = self.values[value.number]
        if isinstance(value, Tensor) and not torch.is_grad_enabled():
            value = value.detach()  # a view of a parameter could not be used after the parameter changes
        if isinstance(value, Tensor) and value.is_floating_point() and self.dtype is not None:
            return value.to(self.dtype)
        return value

    def affine(
        self, linear: LinearMap, bias: Tensor | None = None, place: int = 0, size: Tensor | None = None
    ) -> Affine:
        return Affine(self.record.layer, (self[place].number,), linear, bias, size)

    def moved(self, function: Callable[[Tensor], Tensor], count: int = 0) -> Affine:
        return self.affine(Gather(function, self.shape(0), count))

    def shape(self, place: int) -> tuple[int, ...]:
        reference = self[place]
        if not isinstance(reference, Ref):
            raise refusal(self.record, "moves a value that does not come from the input")
        return self.shapes[reference.number]


def operation_name(record: Record) -> str:
    """The operation's name without its overload, the same in place and not.

    Args:
        record: the operation.
    """
    return str(record.operation.__name__).split(".")[0].removesuffix("_")


def refusal(record: Record, why: str) -> InputError:
    """The error for an operation that has no bounds.

    Args:
        record: the operation.
        why: the rest of the sentence.
    """
    name = getattr(record.operation, "__name__", str(record.operation))
    return InputError(
        f"Layer {record.layer} cannot be bounded: {name} {why}. Bounds exist for linear, convolution, transposed "
        "convolution, ReLU, leaky ReLU, MaxMin, absolute values, sigmoid, tanh, pooling, batch norm in eval mode, "
        "flatten, additions, steps and clamps; "
        "smoothing certifies any model."
    )


def same(x: Tensor) -> Tensor:
    """The value x itself."""
    return x
