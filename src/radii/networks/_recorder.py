"""What a network does to its input, recorded operation by operation as it runs.

Any forward function is understood, whatever modules or functions it is written
with. Operations on weights alone are kept too and can be run again, so bounds
are differentiable in the weights and see every change of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from radii.errors import InputError
from radii.networks.calling import NODE_NAMES, answer, frozen
from radii.networks.model_state import ModelState, check_behavior, odd_layout

ROWS = 2  # of the traced input: a batch dimension of one could be confused with a dimension of size one
_LEAVING = frozenset(
    ["numpy", "tolist", "item", "data_ptr", "untyped_storage", "storage", "__array__", "__dlpack__", "__reduce_ex__"]
)


@dataclass(frozen=True)
class Ref:
    """The value number ``number`` of a recording; 0 is the input."""

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
    folded: bool = False  # the batch and the first axis of the shape are one axis, as before a product of matrices


@dataclass(frozen=True)
class Recording:
    """The records of one forward pass; ``output`` is the value that holds the logits."""

    records: tuple[Record, ...]
    input_shape: tuple[int, ...]
    output: int
    dtype: torch.dtype


def record(model: nn.Module, input_shape: tuple[int, ...]) -> Recording:
    """Run ``model`` in eval mode on a batch of ``input_shape`` and record every operation.

    Args:
        input_shape: the shape of one input, without the batch.
    """
    like = example(model)
    x = torch.full((ROWS, *input_shape), 0.5, device=like.device, dtype=like.dtype)
    check_behavior(model)
    before = ModelState.of(model)
    recorder = _Recorder(x)
    names = _layer_names(model, recorder)
    with frozen(model), torch.no_grad(), _batch_in_front(model), names, _ValueGuard(recorder), recorder:
        logits = answer(model, x)
    if change := before.difference(ModelState.of(model)):
        raise InputError(f"The model cannot be bounded: it changes itself while it runs ({change}).")
    if not isinstance(logits, Tensor) or logits.dim() != 2 or len(logits) != ROWS:
        raise InputError("The model must return logits [n, classes] for a batch of n inputs.")
    output = recorder.numbers.get(id(logits))
    if output in recorder.stale:
        raise InputError("The model cannot be bounded: its logits were overwritten in place through a view.")
    if output is None or output not in recorder.moved:
        raise InputError("The model's logits do not depend on its input: there is nothing to bound.")
    return Recording(tuple(recorder.records), input_shape, output, like.dtype)


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
        if torch.Tag.nondeterministic_seeded in func.tags and not _is_deterministic(func, args, kwargs):
            raise self.refusal(f"{func.__name__} draws random numbers")
        arguments, keywords = tree_map(self._ref, (args, kwargs))
        sources = {leaf.number for leaf in tree_flatten((arguments, keywords))[0] if isinstance(leaf, Ref)}
        if sources & self.stale:
            raise self.refusal(f"{func.__name__} reads a value after it was overwritten in place through a view")
        written = self._written(func, args, kwargs)
        result = func(*args, **kwargs)
        results = [leaf for leaf in tree_flatten(result)[0] if isinstance(leaf, Tensor)]
        for tensor in results:
            self._check_dense(tensor)
        moving = bool(sources & self.moved)
        for tensor in written:
            self.stale |= self.owners.get(_storage(tensor), set())
        if results or moving:
            outputs = tuple(self._number(tensor) for tensor in results)
            self.moved |= set(outputs) if moving else set()
            shape, folded = shape_of(results[0]) if results else ((-1,), False)
            kind = results[0].dtype if results else None
            self.records.append(Record(func, arguments, keywords, outputs, shape, self.layer, moving, kind, folded))
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
        self._check_dense(value)
        storage = _storage(value)
        if self.owners.get(storage, set()) & self.moved:
            raise self.refusal("a value is read in a way that cannot be followed, as by .data")
        self.outside.add(storage)
        return value

    def _check_dense(self, tensor: Tensor) -> None:
        if layout := odd_layout(tensor):
            raise self.refusal(f"it computes with a {layout} tensor, which has no bounds")

    def _number(self, tensor: Tensor) -> int:
        self.kept.append(tensor)
        number = self.numbers[id(tensor)] = len(self.kept)
        self.owners.setdefault(_storage(tensor), set()).add(number)
        return number


class _ValueGuard(TorchFunctionMode):
    """Refuses to hand values that depend on the input to numpy and to Python, where no branch on them is seen.

    Circular padding, which torch writes in place through views, becomes pieces side by side; an instance norm, which
    makes the batch a part of the channels, the group norm that it is.
    """

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _LEAVING and any(map(self.recorder.is_moving, args)):
            raise self.recorder.refusal(f"{name} reads values of the input outside torch, where no bound sees them")
        if name == "pad" and "circular" in (*args[2:3], (kwargs or {}).get("mode")):
            sides = args[1] if len(args) > 1 else (kwargs or {})["pad"]
            return _wrapped(args[0], sides)
        if name == "instance_norm" and func is torch.nn.functional.instance_norm:
            return _instance_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _instance_norm(x: Tensor, running_mean: Any = None, running_var: Any = None, *rest: Any, **named: Any) -> Tensor:
    given = dict(zip(("weight", "bias", "use_input_stats", "momentum", "eps"), rest, strict=False)) | named
    weight, bias, eps = given.get("weight"), given.get("bias"), given.get("eps", 1e-5)
    if given.get("use_input_stats", True):
        return torch.nn.functional.group_norm(x, x.shape[1], weight, bias, eps)
    return torch.nn.functional.batch_norm(x, running_mean, running_var, weight, bias, False, eps=eps)


def _attention(layer: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor, **settings: Any) -> Any:
    """What ``layer`` returns, with the batch in front throughout; torch moves it behind the places."""
    width, heads, functional = layer.embed_dim, layer.num_heads, torch.nn.functional
    weights = layer.in_proj_weight.chunk(3)
    biases = (None,) * 3 if layer.in_proj_bias is None else layer.in_proj_bias.chunk(3)
    q, k, v = (
        functional.linear(x, weight, bias).unflatten(2, (heads, width // heads)).transpose(1, 2)
        for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
    )
    shares = (q @ k.transpose(2, 3) * (width // heads) ** -0.5).softmax(-1)
    result = functional.linear((shares @ v).transpose(1, 2).flatten(2), layer.out_proj.weight, layer.out_proj.bias)
    return result, shares.mean(1) if settings.get("need_weights", True) else None


def _follows(layer: nn.Module) -> bool:
    """Whether :func:`_attention` can stand for ``layer``, whatever it is called with."""
    plain = type(layer) is nn.MultiheadAttention and layer.batch_first and layer.in_proj_weight is not None
    return plain and layer.bias_k is None and not layer.add_zero_attn


@contextmanager
def _batch_in_front(model: nn.Module) -> Iterator[None]:
    """Let layers of attention keep the batch in front; masks are refused."""
    layers = [layer for layer in model.modules() if _follows(layer)]
    for layer in layers:

        def forward(query: Tensor, key: Tensor, value: Tensor, *masks: Any, _own: Any = layer, **settings: Any) -> Any:
            given = [settings.get(name) for name in ("key_padding_mask", "attn_mask")]
            if any(mask is not None for mask in (*masks, *given)) or query.dim() != 3:
                return type(_own).forward(_own, query, key, value, *masks, **settings)
            return _attention(_own, query, key, value, **settings)

        layer.forward = forward
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _wrapped(x: Tensor, sides: Sequence[int]) -> Tensor:
    """``x`` with as many numbers of its other end before and behind as ``sides`` says, from the last axis on."""
    for place, (before, behind) in enumerate(zip(sides[::2], sides[1::2], strict=True)):
        axis = x.dim() - 1 - place
        size = x.shape[axis]
        x = torch.cat([x.narrow(axis, size - before, before), x, x.narrow(axis, 0, behind)], axis)
    return x


def _is_deterministic(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operation that may draw random numbers draws none: dropout in eval mode, attention without it."""
    if "attention" in func.__name__:
        return not kwargs.get("dropout_p", args[3] if len(args) > 3 else 0.0)
    return "dropout" in func.__name__


def shape_of(result: Tensor) -> tuple[tuple[int, ...], bool]:
    """The shape of one input's part of ``result``, and whether its first axis is folded into the batch.

    (-1,) if it is no batch any more.
    """
    if result.dim() == 0 or len(result) % ROWS or len(result) == 0:
        return (-1,), False
    if len(result) == ROWS:
        return tuple(result.shape[1:]), False
    return (len(result) // ROWS, *result.shape[1:]), True


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
        hooks.callback(NODE_NAMES.reset, NODE_NAMES.set(partial(_rename, recorder.path)))
        yield


def _rename(path: list[str], name: str) -> None:
    path[-1] = name


def operation_name(record: Record) -> str:
    """The operation's name without its overload, the same in place and not."""
    return str(record.operation.__name__).split(".")[0].removesuffix("_")


def refusal(record: Record, why: str) -> InputError:
    """The error for an operation that has no bounds."""
    name = getattr(record.operation, "__name__", str(record.operation))
    return InputError(
        f"Layer {record.layer} cannot be bounded: {name} {why}. The guide (Prove) lists what can; smoothing certifies "
        "any model."
    )
