"""The studies there are, by name; a module each, imported when asked for."""

from __future__ import annotations

from importlib import import_module

from radii.errors import unknown_name
from radii.study.study import Study

NAMES = ("separation", "sensitivity-mnist", "data-scaling", "subspaces", "provable", "theory", "geometry", "formulas")


def study(name: str) -> Study:
    """The study called ``name``."""
    if name not in NAMES:
        raise unknown_name("study", name, NAMES)
    found: Study = import_module(f"radii.study.catalog.{name.replace('-', '_')}").STUDY
    return found
