"""Errors: a mistake of a user, explained in one sentence.

Every mistake of a user (a missing file, a misspelt name, a pixel of 255) is
raised as :class:`InputError`. The command line prints its message and exits
with code 2; from Python it is an ordinary ``ValueError``. :func:`checked`
refuses wrong arguments of public functions by their annotations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

P = ParamSpec("P")
R = TypeVar("R")
LONGEST = 60  # characters of a wrong value that are shown


class InputError(ValueError):
    """Bad input: the message names the file, field or value and what would be accepted."""


class OtherKindError(InputError):
    """What was asked for exists for another kind of model only: no news where several ways are tried."""


class ContradictionError(RuntimeError):
    """A proved radius exceeds a broken one: a certificate or an attack is wrong."""


def unknown_name(kind: str, name: str, known: Iterable[str], hint: str = "") -> InputError:
    """The error for a ``name`` of some ``kind`` that is not among ``known``, with the nearest known one and a ``hint``.

    >>> print(unknown_name("model", "lenet", ["lenet5", "mlp"]))
    No model is called 'lenet'. Did you mean 'lenet5'? Known: lenet5, mlp.
    """
    names = sorted(known)
    near = [known for known in names if len(name) > 1 and known.startswith(name)]
    near = near[:1] or get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    tail = f" {hint}" if hint else ""
    return InputError(f"No {kind} is called {name!r}.{guess} Known: {', '.join(names)}.{tail}")


def reason(error: Exception) -> str:
    """Why something failed, in one line without a full stop: the first line of ``error``, or its class.

    >>> print(reason(FileNotFoundError(2, "No such file or directory", "a.csv")))
    No such file or directory
    """
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text.strip().splitlines() or [""])[0].rstrip(".") or type(error).__name__


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of every call of ``function``: numbers, texts, paths, choices and objects of a class."""
    declared = signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = declared.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(_wrong_call(function.__name__, str(error), declared.parameters)) from None
        for name, value in given.items():
            _check_kind(name, value, _annotation(function, declared.parameters[name].annotation))
        return function(*args, **kwargs)

    return call


def _wrong_call(function: str, fault: str, parameters: Iterable[str]) -> str:
    """What is wrong with the arguments of a call, and which there are."""
    known = list(parameters)
    word = re.search(r"unexpected keyword argument '(\w+)'", fault)
    near = get_close_matches(word[1], known, n=1) if word else []
    guess = f" Did you mean {near[0]!r}?" if near else ""
    return f"radii.{function}: {fault}.{guess} Its arguments are {', '.join(known)}."


def _check_kind(name: str, value: Any, annotation: Any) -> None:
    """Refuse a ``value`` that is of no kind in ``annotation``.

    Args:
        annotation: a type, a choice, or a union of such; with an unknown part nothing is refused.
    """
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    kinds = [_kind(part) for part in parts]
    if any(kind is None or kind[1](value) for kind in kinds):
        return
    words = " or ".join(kind[0] for kind in kinds if kind and kind[0] != "None")
    if name == "threat" and _is_number(value):
        raise InputError(f"threat must be a text with its norm, 'l2:{value}' or 'linf:{value}', got {value} instead.")
    raise InputError(f"{name} must be {words or 'None'}, got {brief(value)} instead.")


def brief(value: Any) -> str:
    """``repr(value)`` in one line of at most 60 characters."""
    shown = re.sub(r"\s+", " ", repr(value))
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


def _annotation(function: Callable[..., Any], annotation: Any) -> Any:
    """The annotation itself; Any where it names something that is only known to type checkers."""
    try:
        # annotations are texts of this package's own source
        return eval(annotation, function.__globals__) if isinstance(annotation, str) else annotation  # noqa: S307
    except NameError:
        return Any


def _kind(part: Any) -> tuple[str, Callable[[Any], bool]] | None:
    """What a part of an annotation accepts, in words and as a test; None for an unknown part."""
    if get_origin(part) is Literal:
        choices = get_args(part)
        return " or ".join(map(repr, choices)), lambda value: isinstance(value, str) and value in choices
    plain: dict[Any, tuple[str, Callable[[Any], bool]]] = {
        NoneType: ("None", lambda value: value is None),
        None: ("None", lambda value: value is None),
        bool: ("True or False", lambda value: isinstance(_unboxed(value), bool)),
        int: ("a whole number", lambda value: isinstance(value, Integral) and not isinstance(value, bool)),
        float: ("a number", _is_number),
        str: ("a text", lambda value: isinstance(value, str)),
        Path: ("a path", lambda value: isinstance(value, str | PathLike)),
        Sequence[float]: ("several numbers", _are_numbers),
    }
    if get_origin(part) is tuple and set(get_args(part)) <= {int, float, ...}:
        return plain[Sequence[float]]
    if part in plain:
        return plain[part]
    if isinstance(part, type) and get_origin(part) is None and part not in (object, Any):
        return f"a {part.__name__}", lambda value: isinstance(value, part)
    return None


def _unboxed(value: Any) -> Any:
    """The number in an array or tensor without a dimension; anything else as it is."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def _is_number(value: Any) -> bool:
    number = _unboxed(value)
    return isinstance(number, Real) and not isinstance(number, bool) and number == number  # not NaN


def _are_numbers(value: Any) -> bool:
    if isinstance(value, str | dict | set) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) != 1:
        return False
    return all(_is_number(item) for item in value)
