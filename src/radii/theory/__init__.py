"""Every theorem of the papers as a simulation: ``theory.no_free_robustness(n=1024).holds``."""

from __future__ import annotations

from collections.abc import Callable

from radii.theory.catalog import STATEMENTS
from radii.theory.result import Result

_FUNCTIONS = {statement.function: statement for statement in STATEMENTS.values()}
__all__ = ["STATEMENTS", "Result", *_FUNCTIONS]


def __getattr__(name: str) -> Callable[..., Result]:
    """The simulations by name, imported when first asked for."""
    if name in _FUNCTIONS:
        return _FUNCTIONS[name].simulation()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
