"""The papers' recipes: ``recipes.toml``, one entry point for each."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from radii.training.recipes import NamedRecipe


@cache
def _recipes() -> dict[str, NamedRecipe]:
    content = tomllib.loads((files("radii_papers") / "recipes.toml").read_text(encoding="utf-8"))
    return {name.replace("-", "_"): NamedRecipe(**recipe) for name, recipe in content.items()}


def __getattr__(name: str) -> NamedRecipe:
    """The recipe ``name``, with ``_`` for ``-``: what the entry points name."""
    try:
        return _recipes()[name]
    except KeyError:
        raise AttributeError(f"There is no recipe {name!r} in recipes.toml.") from None
