"""Studies: plans of steps, run, resumed and spread over machines. ``radii.study.run("separation")``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["FailedStepsError", "Study", "run"]

_HOMES = {
    "FailedStepsError": "radii.study.executors",
    "Study": "radii.study.study",
    "run": "radii.study.runner",
}

if TYPE_CHECKING:
    from radii.study.executors import FailedStepsError
    from radii.study.runner import run
    from radii.study.study import Study


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'radii.study' has no attribute {name!r}")
