"""Recipes say what the papers say, scale, and fit the registries."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from radii.budget import Budget
from radii.errors import InputError
from radii.models import MODELS
from radii.training.objectives import METHODS
from radii.training.recipes import RECIPES, deep_merge, named_recipe, plan
from radii.training.schedule import Recipe


@pytest.mark.parametrize("budget", ["smoke", "cpu", "paper"])
@pytest.mark.parametrize("name", list(RECIPES))
def test_every_recipe_is_valid_at_every_budget(name: str, budget: str) -> None:
    for method in (None, *named_recipe(name).methods):
        made = plan(name, budget, method=method)  # type: ignore[arg-type]
        rest = dict(made.settings)
        MODELS.arguments(made.model, rest.pop("model", {}))
        given = rest.pop("method", {})
        if find_spec(METHODS.known[made.method].partition(":")[0]):
            METHODS.factory(made.method)(**METHODS.arguments(made.method, given))
        Recipe.model_validate(rest)


def test_ding_mnist_is_their_appendix() -> None:
    made = plan("ding-mnist")
    recipe = Recipe.model_validate({k: v for k, v in made.settings.items() if k not in ("model", "method")})
    assert (made.model, made.method, made.preprocessing) == ("lenet5", "adversarial", "none")
    assert recipe.length(1200) == 100_000
    assert recipe.batch_size == 50
    assert recipe.optimizer.at(99_999, 100_000)[0] == 1e-4
    assert made.settings["method"] == {"threat": "linf:0.3", "steps": 40, "step": pytest.approx(0.01 / 0.3)}


def test_ding_cifar_drops_where_they_say() -> None:
    made = plan("ding-cifar")
    recipe = Recipe.model_validate({k: v for k, v in made.settings.items() if k not in ("model", "method")})
    rates = [recipe.optimizer.at(step, 80_000)[0] for step in (0, 39_999, 40_000, 59_999, 60_000)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001])


@pytest.mark.parametrize("budget", ["smoke", "cpu", "night", "paper"])
def test_networks_of_ding_cifar_standardize_every_image_as_theirs_do(budget: Budget) -> None:
    made = plan("ding-cifar", budget)
    model = MODELS.factory(made.model)((3, 32, 32), 10, **{**made.settings["model"], "depth": 10, "widen": 0.25}).eval()
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(images), model(0.5 * images + 0.2), rtol=1e-3, atol=1e-4)
    assert "not standardized" not in named_recipe("ding-cifar").source


def test_prach_lampert_keeps_the_compute_whatever_the_size() -> None:
    recipe = Recipe.model_validate(
        {k: v for k, v in plan("prach-lampert").settings.items() if k in Recipe.model_fields}
    )
    assert recipe.length(50_000 // 256) == recipe.length(3) == 3000 * (50_000 // 256)


def test_another_method_or_model_brings_its_own_arguments() -> None:
    assert plan("yang-cifar", method="adversarial").settings["optimizer"]["lr"] == pytest.approx(0.064)
    assert plan("yang-cifar", method="natural").settings["method"] == {}
    assert plan("ding-mnist", "cpu", model="cnn1").settings["model"] == {}
    assert plan("ding-mnist", method="trades").settings["method"]["steps"] == 40
    assert plan("ding-mnist", "cpu", method="trades").settings["method"] == {
        "threat": "linf:0.3", "beta": 6.0, "steps": 7, "step": 0.2, "warmup": 0.3,
    }  # fmt: skip


def test_sections_are_merged_one_by_one() -> None:
    below = {"a": {"b": 1, "c": 2}, "d": 3}
    assert deep_merge(below, {"a": {"c": 9}, "e": 4}) == {"a": {"b": 1, "c": 9}, "d": 3, "e": 4}
    assert below == {"a": {"b": 1, "c": 2}, "d": 3}


def test_mistakes_are_told() -> None:
    with pytest.raises(InputError, match="Did you mean 'ding-mnist'"):
        plan("ding-minst")
    with pytest.raises(InputError, match="No budget is called 'gpu'"):
        plan("ding-mnist", "gpu")  # type: ignore[arg-type]
