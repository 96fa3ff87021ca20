"""What a model's answers depend on: the state that a certificate compares, and behavior that no bound knows of.

A certificate speaks about layers. It is false for a layer that computes something else than its class
(a patched instance, a hook, an own way of being called), so such layers are refused by name before
anything is read. It is false for a changed model, too, so the state is compared before it is used.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from radii.errors import InputError

_CALL = nn.Module.__call__
_OWN = frozenset(vars(nn.Module()))  # torch's own attributes
_HOOKS = {
    "_forward_hooks": "forward hooks",
    "_forward_pre_hooks": "forward hooks",
    "_backward_hooks": "backward hooks",
    "_backward_pre_hooks": "backward hooks",
}
_GLOBAL_HOOKS = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
)


@dataclass(frozen=True)
class ModelState:
    """Digests of what a model's answers depend on, as far as its attributes reach; global variables are not seen.

    Attributes:
        weights: parameters, buffers and tensors among the attributes: names, shapes, values. Layers and tensors in
            lists, dictionaries and closures count.
        settings: numbers, words and flags among the attributes of every module, and the classes.
        types: data types of parameters and buffers.
        hooks: which modules have hooks or methods set on the instance, and hooks for all modules.
        training: names of the modules in training mode.
    """

    weights: str
    settings: str
    types: tuple[str, ...]
    hooks: str
    training: tuple[str, ...]

    @classmethod
    def of(cls, model: nn.Module) -> ModelState:
        """The state of ``model`` as it is now; reads every weight once."""
        weights, types = hashlib.blake2b(digest_size=16), set()
        for name, tensor in _tensors(model):
            types.add(str(tensor.dtype))
            weights.update(f"{name}{tuple(tensor.shape)}".encode())
            weights.update(_content(tensor))
        settings, foreign, training = hashlib.blake2b(digest_size=16), [], []
        for name, module in model.named_modules():
            plain = {key: value for key, value in vars(module).items() if _is_setting(key, value)}
            settings.update(f"{name}:{type(module).__qualname__}:{sorted(plain.items())!r}".encode())
            if reason := foreign_behavior(module):
                foreign.append(f"{name}:{reason}")
            if module.training:
                training.append(name)
        for name, value in _held(model):
            if isinstance(value, nn.Module):
                weights.update(f"{name}:{replace(cls.of(value), training=())}".encode())
            elif isinstance(value, Tensor):
                weights.update(f"{name}{value.dtype}{tuple(value.shape)}".encode())
                weights.update(_content(value))
            else:
                settings.update(f"{name}:{value!r}".encode())
        for_all = len(torch_module._global_forward_hooks) + len(torch_module._global_forward_pre_hooks)
        return cls(
            weights.hexdigest(), settings.hexdigest(), tuple(sorted(types)), f"{for_all};{foreign}", tuple(training)
        )

    def difference(self, now: ModelState) -> str | None:
        """What differs ``now``, in words; None if nothing does. Leaving training mode is no difference."""
        sentences = {
            "types": "its data type is another",
            "weights": "its weights or buffers have other values",
            "hooks": "hooks or methods were set on its modules or removed",
            "settings": "its modules or their attributes are others",
        }
        for name, sentence in sentences.items():
            if getattr(self, name) != getattr(now, name):
                return sentence
        if set(now.training) - set(self.training):
            return "it is in training mode and was in eval mode"
        return None


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters, buffers and plain tensor attributes, each with its name."""
    yield from model.named_parameters()
    yield from model.named_buffers()
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if isinstance(value, Tensor):
                yield f"{name}.{key}", value


def _held(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Modules, tensors and plain values in lists, dictionaries and closures of the attributes, each with its name."""
    registered = {id(part) for part in (*model.modules(), *model.parameters(), *model.buffers())}
    for name, module in model.named_modules():
        for key, value in _attributes(module).items():
            if key not in _OWN and not isinstance(value, Tensor) and not _is_setting(key, value):
                yield from _leaves(value, f"{name}.{key}", registered)


def _leaves(value: Any, name: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """What ``value`` holds; a thing that was met before is not met again."""
    parts = _parts(value)
    if isinstance(value, bool | int | float | str | bytes | None):
        yield name, value
    elif isinstance(value, np.ndarray):
        yield name, (str(value.dtype), value.shape, hashlib.blake2b(value.tobytes()).hexdigest())
    elif isinstance(value, nn.Module | Tensor) or parts is not None:
        if id(value) in seen:
            return
        seen.add(id(value))
        if parts is None:
            yield name, value
        for key, part in (parts or {}).items():
            yield from _leaves(part, f"{name}.{key}", seen)


def _parts(value: Any) -> dict[Any, Any] | None:
    """What a container or a function holds, by name; None for anything else."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list | tuple | deque):
        return dict(enumerate(value))
    if isinstance(value, set | frozenset):
        return dict(enumerate(sorted(value, key=repr)))
    if isinstance(value, partial):
        return {"function": value.func, "arguments": value.args, "keywords": value.keywords}
    if isinstance(value, MethodType):
        return {"self": value.__self__, "function": value.__func__}
    if isinstance(value, FunctionType):
        cells = (cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell))
        return dict(enumerate((*cells, *(value.__defaults__ or ()))))
    if isinstance(value, SimpleNamespace) or (is_dataclass(value) and not isinstance(value, type)):
        return vars(value) if hasattr(value, "__dict__") else None
    return None


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # the variable has no value
        return False


def _attributes(module: nn.Module) -> dict[str, Any]:
    """The attributes of ``module`` without what it remembers only to compute faster, which its copies leave out."""
    try:
        state = module.__getstate__()  # type: ignore[operator]
    except Exception:  # TorchScript has none
        state = None
    return state if isinstance(state, dict) else vars(module)


def odd_layout(tensor: Tensor) -> str | None:
    """How ``tensor`` is stored, if not as dense numbers: quantized, sparse_coo, mkldnn, …; None if it is dense."""
    if tensor.is_quantized:
        return "quantized"
    return None if tensor.layout == torch.strided else str(tensor.layout).removeprefix("torch.").strip("_")


def _odd_tensor(module: nn.Module) -> str | None:
    """A parameter, buffer or tensor attribute of ``module`` that is not dense; None if all are."""
    own = {**module._parameters, **module._buffers, **vars(module)}
    for name, value in own.items():
        if isinstance(value, Tensor) and (layout := odd_layout(value)):
            return f"a {layout} tensor {name!r} instead of dense numbers"
    return None


def _content(tensor: Tensor) -> memoryview:
    dense = tensor.detach().dequantize() if tensor.is_quantized else tensor.detach().to_dense()
    plain = dense.cpu().contiguous().flatten()
    return plain.view(torch.uint8).numpy().data if plain.numel() else memoryview(b"")


def _is_setting(key: str, value: object) -> bool:
    return key != "training" and isinstance(value, bool | int | float | str | tuple) and _is_plain(value)


def _is_plain(value: object) -> bool:
    return all(map(_is_plain, value)) if isinstance(value, tuple) else isinstance(value, bool | int | float | str)


def check_behavior(model: nn.Module) -> None:
    """Refuse a model with a module whose behavior is not its class's.

    Args:
        model: the network to be certified; all its submodules are looked at.
    """
    if has_global_hooks():
        raise InputError(
            "Hooks are registered for all modules (register_module_forward_hook or a relative of it), which no bound "
            "knows of. Remove them before certifying."
        )
    for name, module in model.named_modules():
        if reason := foreign_behavior(module):
            raise InputError(f"{title(name, module)} has {reason}, which no bound knows of.")


def has_global_hooks() -> bool:
    """Whether hooks are registered for all modules."""
    return any(getattr(torch_module, name, None) for name in _GLOBAL_HOOKS)


def title(name: str, module: nn.Module) -> str:
    """How messages name a module: its place in the model and its class."""
    return f"Layer {name!r} ({type(module).__name__})" if name else f"The model ({type(module).__name__})"


def foreign_behavior(module: nn.Module) -> str | None:
    """What makes this module, without its children, do something else than its class; None if nothing does."""
    for field, hooks in _HOOKS.items():
        if getattr(module, field, None):
            return hooks
    kind: Any = type(module)
    if isinstance(module, torch.jit.ScriptModule):
        return "TorchScript code, which is optimized as it runs (certify the module that it was made from)"
    for name in vars(module):
        if callable(getattr(kind, name, None)) and not isinstance(getattr(kind, name), type):
            return f"a {name!r} of its own, set on the instance"
    if odd := _odd_tensor(module):
        return odd
    if getattr(module, "_compiled_call_impl", None) is not None:
        return "a compiled call (module.compile()); certify the module before it is compiled"
    if kind.__call__ is not _CALL or kind._call_impl is not nn.Module._call_impl:
        return "a '__call__' of its own"
    if issubclass(kind, nn.Sequential) and kind.__iter__ is not nn.Sequential.__iter__:
        return "an '__iter__' of its own, so its layers run in another order"
    owner = next(base for base in kind.__mro__ if "forward" in vars(base))
    if owner.__module__.startswith("torch.nn.") and owner.forward.__module__ != owner.__module__:
        return f"a 'forward' that replaces that of torch's {owner.__name__}"
    return None
