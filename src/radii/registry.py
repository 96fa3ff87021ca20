"""A name or an import path becomes a factory; arguments are checked against its signature.

A registry maps short names to ``module:attribute`` strings, so nothing is
imported before it is used. Three ways to add to it: pass the object itself
from Python; write ``package.module:factory`` on your own command line;
publish an entry point in the group ``radii.<kind>s``.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

from radii.errors import InputError, unknown_name


@dataclass(frozen=True)
class Registry:
    """Known factories of one kind (``model``, ``method``, ``attack``, …).

    ``positional`` names the arguments that the caller of a factory supplies
    (``input_shape`` and ``classes`` for a model) and a user may not override.
    """

    kind: str
    known: dict[str, str]
    positional: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.known | self._published()))

    def _published(self) -> dict[str, str]:
        return _published(f"radii.{self.kind}s".replace("studys", "studies"))

    def entry(self, name: str) -> Any:
        """The object called ``name``, or at the import path ``name``."""
        if ":" in name:
            return _imported(name, self.kind)
        table = self.known | self._published()
        if name not in table:
            raise unknown_name(self.kind, name, table, f"Or give an import path, package.module:{self.kind}.")
        return _imported(table[name], self.kind)

    def factory(self, name: str) -> Callable[..., Any]:
        """The factory called ``name``, or at the import path ``name``."""
        entry = self.entry(name)
        if not callable(entry):
            raise InputError(f"The {self.kind} {name!r} must be a class or a function, got {entry!r} instead.")
        return entry

    def arguments(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """``given`` checked against the factory's signature, with its defaults written out."""
        parameters = inspect.signature(self.factory(name)).parameters
        settable = {
            key: parameter
            for key, parameter in parameters.items()
            if key not in self.positional and parameter.kind is not inspect.Parameter.VAR_KEYWORD
        }
        for key in given:
            if key not in settable:
                raise unknown_name(f"argument of {self.kind} {name!r}", key, settable)
        complete = {}
        for key, parameter in settable.items():
            if key in given:
                complete[key] = _coerced(f"{name}.{key}", given[key], parameter.default)
            elif parameter.default is inspect.Parameter.empty:
                raise InputError(f"{self.kind} {name!r} needs the argument {key!r}.")
            else:
                complete[key] = parameter.default
        return complete


@lru_cache
def _published(group: str) -> dict[str, str]:
    """Entry points by name; read once, because it opens the metadata of every installed package."""
    return {entry.name: entry.value for entry in entry_points(group=group)}


def _imported(path: str, kind: str) -> Any:
    module_name, _, attribute = path.partition(":")
    if "" not in sys.path:  # a console script does not see the user's folder otherwise
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(f"The {kind} {path!r} cannot be imported: {error}.") from error
    if not hasattr(module, attribute):
        raise InputError(f"The {kind} {path!r} does not exist: module {module_name!r} has no attribute {attribute!r}.")
    return getattr(module, attribute)


def _coerced(where: str, value: Any, default: Any) -> Any:
    """``value`` in the type of ``default``: an integer for a float field is that float."""
    if default is None or default is inspect.Parameter.empty:
        return value
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise InputError(f"{where} must be true or false, got {value!r} instead.")
        return value
    if isinstance(default, float) and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(default, tuple) and isinstance(value, list | tuple):
        return tuple(value)
    if not isinstance(value, type(default)) or isinstance(value, bool):
        wanted = {"int": "a whole number", "float": "a number", "str": "a word"}
        name = type(default).__name__
        raise InputError(f"{where} must be {wanted.get(name, name)}, got {value!r} instead.")
    return value
