"""Refuses modules that do not do what their class does: patched instances, hooks, own ways of being called.

A certificate speaks about layers. It is false for a layer that computes something else than its class,
so such layers are refused by name before anything is read.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module

from radii.errors import InputError

_CALL = nn.Module.__call__
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


def check_behavior(model: nn.Module) -> None:
    """Refuse a model with a module whose behavior is not its class's.

    Args:
        model: the network to be certified; all its submodules are looked at.

    Raises:
        InputError: a module has hooks, a method set on the instance (as LoRA and accelerate do), an own
            ``__call__``, a compiled call, or a torch class whose ``forward`` was replaced. The sentence
            names the module and the reason.
    """
    if any(getattr(torch_module, name, None) for name in _GLOBAL_HOOKS):
        raise InputError(
            "Hooks are registered for all modules (register_module_forward_hook or a relative of it), which no bound "
            "knows of. Remove them before certifying."
        )
    for name, module in model.named_modules():
        if reason := foreign_behavior(module):
            raise InputError(f"{title(name, module)} has {reason}, which no bound knows of.")


def title(name: str, module: nn.Module) -> str:
    """How messages name a module: its place in the model and its class."""
    return f"Layer {name!r} ({type(module).__name__})" if name else f"The model ({type(module).__name__})"


def foreign_behavior(module: nn.Module) -> str | None:
    """What makes this module, without its children, do something else than its class; None if nothing does."""
    for field, hooks in _HOOKS.items():
        if getattr(module, field, None):
            return hooks
    kind: Any = type(module)
    for name in vars(module):
        if callable(getattr(kind, name, None)) and not isinstance(getattr(kind, name), type):
            return f"a {name!r} of its own, set on the instance"
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
