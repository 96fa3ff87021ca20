"""Recipes as data: model, method, optimizer, schedule, length, augmentation, and smaller budgets.

``settings`` of a recipe are what a user would write as ``KEY=VALUE``. The budget
``cpu`` (minutes on two cores, smaller networks) or ``smoke`` (seconds) replaces
some of them, and the user's own settings replace any. Packages publish recipes
by entry points of the group ``radii.recipes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from radii.budget import BUDGETS, WITHOUT_NIGHT, Budget, check_budget
from radii.data.dataset import Preprocessing
from radii.errors import InputError, unknown_name
from radii.registry import Registry

Settings = Mapping[str, Any]
NO_SETTINGS: Settings = MappingProxyType({})
SAME_SEARCH = {"adversarial", "trades", "robust-self-training"}  # their inner searches have the same settings


@dataclass(frozen=True)
class NamedRecipe:
    """How somebody trains one kind of network on one kind of data.

    Args:
        source: where the settings come from, for example paper and section.
        night: what the budget ``night`` changes of ``cpu``; None: there is no such budget.
        preprocessing: what the classifier does to the pixels first.
    """

    source: str
    data: str
    model: str
    method: str
    settings: Settings
    cpu: Settings = field(default_factory=dict)
    smoke: Settings = field(default_factory=dict)
    preprocessing: Preprocessing = "none"
    methods: Mapping[str, Settings] = field(default_factory=dict)
    night: Settings | None = None

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets to which it can be scaled."""
        return BUDGETS if self.night is not None else WITHOUT_NIGHT

    def scaled(self, budget: Budget) -> Settings:
        """What a budget changes of the settings."""
        if budget == "night":
            return deep_merge(self.cpu, self.night or NO_SETTINGS)
        return {"paper": NO_SETTINGS, "cpu": self.cpu, "smoke": self.smoke}[budget]


@dataclass(frozen=True)
class Plan:
    """A recipe at a budget, ready to be trained."""

    model: str
    method: str
    preprocessing: Preprocessing
    settings: dict[str, Any]


RECIPES = Registry("recipe", {})
RULES = Registry(  # radii's own recipes: functions (data, ball, budget) -> Plan
    "rule",
    {
        "standard": "radii.training.robust_recipe:standard_plan",
        "robust": "radii.training.robust_recipe:robust_plan",
        "certified": "radii.training.certified_recipe:certified_plan",
    },
)


def check_recipe(name: str) -> None:
    """Refuse a name that no recipe has; those of :data:`RULES` are radii's own, packages publish the others."""
    if name not in (*RULES, *RECIPES):
        raise unknown_name("recipe", name, [*RULES, *RECIPES])


def named_recipe(name: str) -> NamedRecipe:
    """The recipe that a package publishes as ``name``."""
    check_recipe(name)
    recipe = RECIPES.entry(name)
    if not isinstance(recipe, NamedRecipe):
        raise InputError(f"The recipe {name!r} must be a {NamedRecipe.__module__}.NamedRecipe, got {recipe!r} instead.")
    return recipe


def plan(name: str, budget: Budget = "paper", model: str | None = None, method: str | None = None) -> Plan:
    """The recipe ``name`` at a budget.

    Args:
        budget: ``paper``, ``night``, ``cpu`` or ``smoke``.
        model: another network than the recipe's; drops the recipe's arguments of its own network.
        method: another objective than the recipe's; drops the recipe's arguments of its own objective.
    """
    recipe = named_recipe(name)
    check_budget(budget, recipe.budgets)
    scaled = recipe.scaled(budget)
    settings = deep_merge(recipe.settings, scaled)
    if method is not None and method != recipe.method:
        own = recipe.methods.get(method, NO_SETTINGS)
        shorter = scaled.get("method", {}) if {method, recipe.method} <= SAME_SEARCH else {}
        settings = {**deep_merge(settings, own), "method": deep_merge(own.get("method", {}), shorter)}
    if model is not None and model != recipe.model:
        settings["model"] = {}
    return Plan(model or recipe.model, method or recipe.method, recipe.preprocessing, settings)


def deep_merge(base: Settings, overrides: Settings) -> dict[str, Any]:
    """Settings of ``base`` with those of ``overrides`` in their place, section by section."""
    merged = dict(base)
    for key, value in overrides.items():
        inner = merged.get(key)
        both_sections = isinstance(inner, Mapping) and isinstance(value, Mapping)
        merged[key] = deep_merge(inner, value) if both_sections else value  # type: ignore[arg-type]
    return merged
