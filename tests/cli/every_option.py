"""Every option of every command, found by the signatures of the commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, get_args, get_type_hints

from radii.cli.main import COMMANDS
from radii.registry import published


@dataclass(frozen=True)
class CommandOption:
    """An option: the words that call its command, its name, its type and its default."""

    words: tuple[str, ...]
    name: str
    kind: Any
    default: Any
    required: int  # how many arguments the command must have


def options_of_kind(*kinds: str) -> Iterator[CommandOption]:
    """The options of all commands with one of these words in their type, as ``Path`` or ``float``."""
    for words, function in functions():
        parameters = signature(function).parameters.values()
        hints = get_type_hints(function, include_extras=True)
        required = sum(each.default is Parameter.empty and "Argument" in str(hints[each.name]) for each in parameters)
        for each in parameters:
            hint = hints[each.name]
            if "OptionInfo" in str(hint) and any(kind in str(get_args(hint)[0]) for kind in kinds):
                yield CommandOption(words, each.name, get_args(hint)[0], each.default, required)


def functions() -> Iterator[tuple[tuple[str, ...], Callable[..., Any]]]:
    """Every command and the words that call it."""
    places = {name: f"radii.cli.{name.replace('-', '_')}" for name in COMMANDS}
    places |= {name: place.partition(":")[0] for name, place in published("radii.commands").items()}
    for name, place in places.items():
        module = import_module(place)
        if not hasattr(module, "app"):
            yield (name,), getattr(module, name.replace("-", "_"))
            continue
        for each in module.app.registered_commands:
            own = each.name or each.callback.__name__
            yield (name,) if own == name else (name, own), each.callback
