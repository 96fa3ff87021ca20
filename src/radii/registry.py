"""A name or an import path becomes a factory; arguments are checked against its signature.

A registry maps short names to ``module:attribute`` strings, so nothing is
imported before it is used. Three ways to add to it: pass the object itself
from Python; write ``package.module:factory`` or ``file.py:factory`` on your own
command line; publish an entry point in the group ``radii.<kind>s``.

Importing a module runs its code. An import path that a person typed is
followed; one that stands in a file (a study, a bundle) is followed only if the
person names it as trusted, see :func:`check_trust`.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

from radii.errors import InputError, reason, unknown_name


@dataclass(frozen=True)
class Registry:
    """Known factories of one kind (``model``, ``method``, ``attack``, …).

    ``positional`` names the arguments that the caller of a factory supplies
    (``input_shape`` and ``classes`` for a model) and a user may not override.
    ``product`` is the import path of the type that every factory must make. ``elsewhere`` has the names that other
    programs use for known ones.
    """

    kind: str
    known: dict[str, str]
    positional: tuple[str, ...] = ()
    product: str = ""
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._published() | self.known))

    def _published(self) -> dict[str, str]:
        return published(f"radii.{self.kind}s".replace("studys", "studies"))

    def check(self, name: str) -> None:
        """Refuse a name that nothing has, and an import path into a file that does not exist; nothing is imported."""
        place, _, _ = name.rpartition(":")
        if place.endswith(".py"):
            _check_source(Path(place).expanduser(), name, self.kind)
        if not is_import_path(name) and name not in self:
            hint = f"Or give an import path: package.module:{self.kind} or file.py:{self.kind}."
            if meant := self.elsewhere.get(name.lower()):
                hint = f"{name} of other programs is {meant!r} here. {hint}"
            raise unknown_name(self.kind, name, self, hint)

    def entry(self, name: str) -> Any:
        """The object called ``name``, or at the import path ``name``."""
        self.check(name)
        if is_import_path(name):
            return _imported_own(name, self.kind)
        return _imported((self._published() | self.known)[name], self.kind)

    def factory(self, name: str) -> Callable[..., Any]:
        """The factory called ``name``, or at the import path ``name``; it is not called."""
        entry = self.entry(name)
        if not callable(entry) or inspect.isbuiltin(entry):
            raise InputError(f"The {self.kind} {name!r} must be a class or a function, got {entry!r} instead.")
        if self.product and inspect.isclass(entry):
            wanted = _imported(self.product, self.kind)
            if not issubclass(entry, wanted):
                raise InputError(f"The {self.kind} {name!r} must be a {_spelled(wanted)}, got {entry!r} instead.")
        return entry

    def make(self, name: str, *values: Any, **arguments: Any) -> Any:
        """What the factory called ``name`` makes of these arguments; anything but a ``product`` is refused."""
        result = self.factory(name)(*values, **arguments)
        wanted = _imported(self.product, self.kind) if self.product else object
        if not isinstance(result, wanted):
            raise InputError(
                f"The {self.kind} {name!r} must return a {_spelled(wanted)}, got {type(result).__name__} instead."
            )
        return result

    def arguments(self, name: str, values: dict[str, Any]) -> dict[str, Any]:
        """``values`` checked against the factory's signature, with its defaults written out."""
        parameters = inspect.signature(self.factory(name)).parameters
        settable = {
            key: parameter
            for key, parameter in parameters.items()
            if key not in self.positional and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        }
        for key in values:
            if key not in settable:
                raise unknown_name(f"argument of {self.kind} {name!r}", key, settable)
        complete = {}
        for key, parameter in settable.items():
            if key in values:
                complete[key] = _coerced(f"{name}.{key}", values[key], parameter.default)
            elif parameter.default is inspect.Parameter.empty:
                raise InputError(f"{self.kind} {name!r} needs the argument {key!r}.")
            else:
                complete[key] = parameter.default
        return complete


@lru_cache
def published(group: str) -> dict[str, str]:
    """The entry points of a group by name; read once, because it opens the metadata of every installed package."""
    return {entry.name: entry.value for entry in entry_points(group=group)}


@lru_cache
def published_folders(group: str) -> tuple[Path, ...]:
    """The folders of data that packages publish: an entry point of the group names ``package.folder``."""
    places = (value.partition(".")[::2] for value in published(group).values())
    return tuple(Path(str(files(package).joinpath(*inside.split(".")))) for package, inside in places)


def is_import_path(name: str) -> bool:
    """Whether ``name`` is ``package.module:attribute`` or ``file.py:attribute``, not a name that a registry knows."""
    return ":" in name


def source_file(path: str) -> Path | None:
    """The file of the module that an import path names, without running it; None if it has no source file."""
    place, _, _ = path.rpartition(":")
    if place.endswith(".py"):
        return Path(place).expanduser()
    spec = importlib.util.find_spec(place)
    origin = None if spec is None else spec.origin
    return Path(origin) if origin is not None and Path(origin).is_file() else None


def check_trust(name: str, trust: Collection[str], where: str) -> None:
    """Refuse an import path that a file names and its user did not."""
    if is_import_path(name) and name not in trust:
        raise InputError(
            f"{where} wants to import {name!r}, which runs code. If you trust it, say so: --trust {name} "
            f"(in Python: trust=[{name!r}])."
        )


def _imported_own(path: str, kind: str) -> Any:
    """What a user's own import path names; modules in the current folder are found, after all installed ones."""
    place, _, attribute = path.rpartition(":")
    if place.endswith(".py"):
        return _attribute(_module_of_file(Path(place).expanduser(), path, kind), attribute, path, kind)
    if path.partition(":")[0].partition(".")[0] in sys.stdlib_module_names:
        raise InputError(f"The {kind} {path!r} is a part of Python itself, which is no {kind}.")
    folder = os.getcwd()
    if folder not in sys.path and "" not in sys.path:  # a console script does not see the user's folder otherwise
        sys.path.append(folder)
    importlib.invalidate_caches()  # the module may have been written a moment ago
    return _imported(path, kind)


def _imported(path: str, kind: str) -> Any:
    module_name, _, attribute = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a user's module raises while it runs
        raise _import_error(path, kind, error) from error
    return _attribute(module, attribute, path, kind)


def _module_of_file(file: Path, path: str, kind: str) -> ModuleType:
    """The module in a file that the user named; run once, and again after its content has changed.

    The file's folder joins the import path at the end, so that the file finds its neighbors.
    """
    _check_source(file, path, kind)
    place = file.resolve()
    digest = hashlib.sha256(str(place).encode() + place.read_bytes()).hexdigest()
    name = f"{place.stem}_{digest[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    if str(place.parent) not in sys.path:
        sys.path.append(str(place.parent))
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None, "a file that ends in .py has a loader"
    assert spec.loader is not None, "a file that ends in .py has a loader"
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _import_error(path, kind, error) from error
    return module


def _check_source(file: Path, path: str, kind: str) -> None:
    if not file.is_file():
        raise InputError(f"The {kind} {path!r} cannot be imported: there is no file {str(file)!r}.")


def _import_error(path: str, kind: str, error: Exception) -> InputError:
    what = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
    return InputError(f"The {kind} {path!r} cannot be imported: {what}{reason(error)}.")


def _attribute(module: ModuleType, attribute: str, path: str, kind: str) -> Any:
    if not hasattr(module, attribute):
        name = path.rpartition(":")[0]
        near = get_close_matches(attribute, [each for each in vars(module) if not each.startswith("_")], n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(f"The {kind} {path!r} does not exist: module {name!r} has no attribute {attribute!r}.{guess}")
    return getattr(module, attribute)


def _spelled(wanted: type) -> str:
    return f"{wanted.__module__}.{wanted.__name__}"


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
