"""Budgets: how much work a study or a recipe may be.

``smoke`` takes seconds on bundled data, ``cpu`` up to 40 minutes and ``night``
up to 8 hours on two cores, ``paper`` has the paper's own settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from radii.errors import unknown_name

Budget = Literal["smoke", "cpu", "night", "paper"]
BUDGETS: tuple[Budget, ...] = ("smoke", "cpu", "night", "paper")  # smallest first
WITHOUT_NIGHT: tuple[Budget, ...] = ("smoke", "cpu", "paper")  # the papers' recipes, and studies that need no night


def check_budget(name: str, among: Sequence[Budget] = BUDGETS) -> Budget:
    """The budget called ``name``."""
    if name not in among:
        raise unknown_name("budget", name, among)
    return cast(Budget, name)
