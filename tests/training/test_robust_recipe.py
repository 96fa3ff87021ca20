"""The recipes standard and robust: their rules, that they fit data of every kind, and what they reach on digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import radii
from radii.attacks.pgd import PGD
from radii.data.dataset import Dataset
from radii.data.sources import load
from radii.errors import InputError
from radii.models import MODELS
from radii.models.classifier import predict
from radii.runs.store import Store
from radii.threat import Ball
from radii.training.objectives import METHODS
from radii.training.recipes import RULES
from radii.training.robust_recipe import LENGTHS, multiply_adds, robust_plan, standard_plan
from radii.training.schedule import Recipe

SHAPES = [(3, 32, 32), (1, 28, 28), (1, 8, 8), (3, 17, 40), (30,), (2000,)]


def data(shape: tuple[int, ...], n: int = 500) -> Dataset:
    x = np.zeros((n, *shape), dtype=np.uint8 if len(shape) == 3 else np.float32)
    return Dataset(x, np.arange(n) % 10, tuple("0123456789"), "zeros")


@pytest.mark.parametrize("recipe", ["standard", "robust"])
@pytest.mark.parametrize("threat", ["l2:0.5", "linf:0.1", "l1:1"])
@pytest.mark.parametrize("shape", SHAPES)
def test_they_fit_all_data(shape: tuple[int, ...], threat: str, recipe: str) -> None:
    made = RULES.factory(recipe)(data(shape), Ball.parse(threat), "smoke")
    rest = dict(made.settings)
    MODELS.factory(made.model)(shape, 10, **MODELS.arguments(made.model, rest.pop("model")))
    METHODS.factory(made.method)(**METHODS.arguments(made.method, rest.pop("method")))
    own = Recipe.model_validate(rest)
    own.augmentation.check(shape)
    assert own.optimizer.kind == "orthogonalized"


def test_budgets_grow_and_an_attack_shortens_a_training() -> None:
    images, ball = data((3, 32, 32), 50_000), Ball("linf", 8 / 255)
    work = []
    for budget in LENGTHS:
        robust, standard = robust_plan(images, ball, budget), standard_plan(images, ball, budget)
        assert robust.settings["model"] == standard.settings["model"]
        assert standard.settings["steps"] == pytest.approx(robust.settings["steps"] * 5 / 3, rel=0.01)
        work.append(robust.settings["steps"] * multiply_adds((3, 32, 32), robust.settings["model"]))
    assert work[1] == pytest.approx(10 * work[0], rel=0.02)
    assert work[2] == pytest.approx(5.5 * work[1], rel=0.02)
    assert robust_plan(data((1, 8, 8)), ball, "smoke").settings["watch"] == 25
    assert robust_plan(images, ball, "smoke").settings["watch"] == 200


def test_large_radii_meet_several_steps() -> None:
    """A single step left 42% of MNIST under PGD-40 at Linf 0.3, where several steps leave 90%."""
    for threat, method in (
        ("linf:8/255", "noise-fgsm"), ("linf:16/255", "noise-fgsm"), ("linf:0.3", "adversarial"),
        ("l2:0.5", "noise-fgsm"), ("l2:1.58", "adversarial"),
    ):  # fmt: skip
        made = robust_plan(data((1, 28, 28)), Ball.parse(threat), "smoke")
        assert made.method == method
        assert ("watch" in made.settings) == (method == "noise-fgsm")
        assert made.settings["method"]["warmup"] == 0.5


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (1, 8, 8), (3, 64, 48), (40,)])
def test_multiply_adds_are_those_of_the_layers(shape: tuple[int, ...]) -> None:
    made = standard_plan(data(shape), None, "cpu")
    model = MODELS.factory(made.model)(shape, 10, **MODELS.arguments(made.model, made.settings["model"])).eval()
    counted = 0

    def count(layer: nn.Module, _: object, out: Tensor) -> None:
        nonlocal counted
        counted += layer.weight[0].numel() * out[0].numel()  # type: ignore[index, operator]

    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(count)
    model(torch.rand(1, *shape))
    head = next(reversed([layer for layer in model.modules() if isinstance(layer, nn.Linear)]))
    assert multiply_adds(shape, made.settings["model"]) == counted - head.weight.numel()


def test_an_l1_ball_is_trained_as_the_l2_ball_around_it() -> None:
    ours = data((1, 8, 8))
    assert robust_plan(ours, Ball("l1", 0.3)) == robust_plan(ours, Ball("l2", 0.3))
    assert standard_plan(ours, Ball("l1", 0.3)) == standard_plan(ours)


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="smoke"):
        robust_plan(data((1, 8, 8)), Ball("l2", 0.1), "smok")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs a threat"):
        radii.train("digits", recipe="robust", store=Store(tmp_path))
    with pytest.raises(InputError, match="leave --model"):
        radii.train("digits", "mlp", recipe="standard", store=Store(tmp_path))


def test_digits_become_robust_and_stay_accurate(tmp_path: Path) -> None:
    """A short training of narrow networks: both recipes classify digits, and only one withstands PGD-40 at Linf 0.1."""
    digits, ball, shares = load("digits"), Ball("linf", 0.1), {}
    x, y = digits.test.tensors(slice(0, 150))
    for recipe in ("standard", "robust"):
        made = RULES.factory(recipe)(digits.train, ball, "smoke")
        settings = Recipe.model_validate(
            {key: value for key, value in made.settings.items() if key not in ("model", "method")} | {"steps": 80}
        )
        trained = radii.train(
            "digits", made.model, made.method, recipe=settings, model_arguments=made.settings["model"] | {"width": 16},
            method_arguments=made.settings["method"], preprocessing=made.preprocessing, store=Store(tmp_path),
        )  # fmt: skip
        broken = PGD(steps=40, step=0.1)(trained.model, x, y, ball, torch.Generator().manual_seed(0)).broken
        shares[recipe] = float((~broken).double().mean())
        assert float((predict(trained.model, x) == y).double().mean()) > 0.92
    assert shares["robust"] > shares["standard"] + 0.1
