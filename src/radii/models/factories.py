"""Calls a factory of a model with what its signature asks for: nothing, the classes, or the input's shape too.

A factory of this package takes ``(input_shape, classes)``. Factories that
users have already take nothing, or ``num_classes`` as torchvision does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from radii.errors import InputError
from radii.models import MODELS

CLASSES = ("classes", "num_classes", "n_classes", "num_labels")
CHANNELS = ("in_channels", "in_chans")
SIGNATURES = "(), (num_classes) or (input_shape, classes)"


def build(
    name: str, input_shape: tuple[int, ...], classes: int, arguments: Mapping[str, Any] | None = None
) -> nn.Module:
    """The network that the factory called ``name`` makes.

    Args:
        name: a known model or an import path.
        input_shape: of one input.
        classes: how many.
        arguments: further ones, as keywords.

    Raises:
        InputError: the factory asks for something else, or returns no network.
    """
    network = call_factory(MODELS.factory(name), name, input_shape, classes, arguments)
    if not isinstance(network, nn.Module):
        raise InputError(
            f"The model {name!r} must return a torch.nn.modules.module.Module, got {type(network).__name__} instead."
        )
    return network


def call_factory(
    factory: Callable[..., Any],
    name: str,
    input_shape: tuple[int, ...],
    classes: int,
    arguments: Mapping[str, Any] | None = None,
) -> Any:
    """What ``factory`` returns, called with the parts of (input_shape, classes) that its signature names.

    Args:
        factory: a class or function.
        name: for error messages.
        input_shape: of one input; its first entry is ``in_channels``.
        classes: how many; under any of the names in :data:`CLASSES`.
        arguments: further ones, as keywords.

    Raises:
        InputError: it needs other arguments, or it fails.
    """
    values: dict[str, Any] = {"input_shape": input_shape, **dict.fromkeys(CLASSES, classes)}
    values |= dict.fromkeys(CHANNELS, input_shape[0])
    parameters = inspect.signature(factory).parameters
    keywords = {key: value for key, value in values.items() if key in parameters} | dict(arguments or {})
    unknown = [
        key
        for key, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and key not in keywords
    ]
    if unknown:
        raise InputError(
            f"The model {name!r} must take {SIGNATURES}: it needs {', '.join(map(repr, unknown))}, which is not known."
        )
    passes_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    try:
        if passes_on and not keywords.keys() & set(CLASSES):  # as torchvision's factories do
            try:
                return factory(num_classes=classes, **keywords)
            except TypeError:
                pass
        return factory(**keywords)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # a user's own code
        if "allocate memory" in str(error):  # torch's own RuntimeError
            raise MemoryError(str(error)) from error
        raise InputError(f"The model {name!r} cannot be built: {type(error).__name__}: {error}.") from error
