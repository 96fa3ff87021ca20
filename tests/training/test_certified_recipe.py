"""The recipe certified: its rules, and that it fits data of every kind."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from radii.certificates.lipschitz import certify
from radii.data.dataset import Dataset
from radii.data.sources import load
from radii.errors import InputError
from radii.models import MODELS
from radii.models.io.bundle import load_bundle
from radii.models.lipschitz.network_bound import lipschitz_bound
from radii.models.zoo.interval_network import IntervalNetwork
from radii.models.zoo.isometric import Isometric
from radii.runs.planning import data_spec, train_step
from radii.runs.store import Store
from radii.threat import Ball
from radii.training.certified_recipe import (
    INTERVAL_LENGTHS,
    LENGTHS,
    _interval_multiply_adds,
    certified_plan,
    multiply_adds,
    network,
    offset,
    temperature,
)
from radii.training.objectives import METHODS
from radii.training.schedule import Recipe

SHAPES = [(3, 32, 32), (1, 28, 28), (1, 8, 8), (3, 17, 40), (3, 224, 224), (30,), (2000,)]


def data(shape: tuple[int, ...], n: int = 500) -> Dataset:
    x = np.zeros((n, *shape), dtype=np.uint8 if len(shape) == 3 else np.float32)
    return Dataset(x, np.arange(n) % 10, tuple("0123456789"), "zeros")


@pytest.mark.parametrize("budget", LENGTHS)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_fits_all_data(shape: tuple[int, ...], budget: str) -> None:
    made = certified_plan(data(shape), Ball("l2", 0.5), budget)  # type: ignore[arg-type]
    rest = dict(made.settings)
    model = MODELS.factory(made.model)(shape, 10, **MODELS.arguments(made.model, rest.pop("model")))
    METHODS.factory(made.method)(**METHODS.arguments(made.method, rest.pop("method")))
    recipe = Recipe.model_validate(rest)
    recipe.augmentation.check(shape)
    assert recipe.optimizer.kind == "manifold"
    assert sum(parameter.numel() for parameter in model.parameters()) > 0


def test_the_stated_rule() -> None:
    assert offset(36 / 255) == pytest.approx(0.727)
    assert offset(1.0) == 1.5
    assert temperature(36 / 255, epochs=2, color=True) == 0.5
    assert temperature(36 / 255, epochs=16, color=True) == pytest.approx(0.354, abs=1e-3)
    assert temperature(36 / 255, epochs=1000, color=True) == 0.3
    assert temperature(108 / 255, epochs=1000, color=True) == pytest.approx(0.847)
    assert temperature(1.0, epochs=50, color=False) == 0.5
    assert temperature(2.0, epochs=50, color=False) == pytest.approx(1.4)


def test_work_bounds_the_length() -> None:
    """A core-minute shows each of 50,000 color images less than twice; small data end at the most epochs."""
    images = certified_plan(data((3, 32, 32), 50_000), Ball("l2", 0.1), "smoke").settings
    assert images["steps"] * images["batch_size"] / 50_000 == pytest.approx(1.8, abs=0.2)
    small = certified_plan(data((1, 8, 8), 1400), Ball("l2", 0.5), "smoke").settings
    assert small["steps"] * small["batch_size"] / 1400 == pytest.approx(60, abs=1)
    lengths = [certified_plan(data((3, 32, 32), 50_000), Ball("l2", 0.1), b).settings["steps"] for b in LENGTHS]
    assert lengths == sorted(lengths)


def test_multiply_adds_are_those_of_the_matrices() -> None:
    arguments = {"width": 64, "depth": 3, "tokens": 8}
    model = Isometric((3, 32, 32), 10, **arguments)
    weights = sum(part.weight.numel() for part in model if hasattr(part, "position"))
    assert multiply_adds((3, 32, 32), arguments, 5) == 5 * 64 * weights + 2 * 3 * 64**3
    arguments |= {"overlap": 1, "mix": 4}
    model = Isometric((3, 32, 32), 10, **arguments)
    weights = sum(part.weight.numel() for part in model if hasattr(part, "position"))
    assert multiply_adds((3, 32, 32), arguments, 5) == 5 * 64 * (weights + 64 * 16) + 2 * 3 * 64**3


@pytest.mark.parametrize("budget", INTERVAL_LENGTHS)
@pytest.mark.parametrize("shape", SHAPES)
def test_linf_threats_get_interval_training(shape: tuple[int, ...], budget: str) -> None:
    made = certified_plan(data(shape), Ball("linf", 0.1), budget)  # type: ignore[arg-type]
    rest = dict(made.settings)
    if max(shape) <= 40:  # large images only take memory
        MODELS.factory(made.model)(shape, 10, **MODELS.arguments(made.model, rest.pop("model")))
    METHODS.factory(made.method)(**METHODS.arguments(made.method, made.settings["method"]))
    recipe = Recipe.model_validate({key: value for key, value in rest.items() if key not in ("model", "method")})
    recipe.augmentation.check(shape)
    assert made.method == "fast-ibp"
    assert ("clip" in made.settings["model"]) == (shape[0] == 1)


def test_small_radii_of_color_images_mix_attacks_and_intervals() -> None:
    color, grey = data((3, 32, 32)), data((1, 28, 28))
    small, large = (certified_plan(color, Ball("linf", radius), "cpu") for radius in (2 / 255, 8 / 255))
    assert (small.method, large.method) == ("mtl-ibp", "fast-ibp")
    METHODS.factory(small.method)(**METHODS.arguments(small.method, small.settings["method"]))
    assert small.settings["steps"] <= large.settings["steps"], "a step with an attack costs more"
    assert certified_plan(grey, Ball("linf", 2 / 255), "cpu").method == "fast-ibp"


def test_grey_images_move_where_a_long_interval_training_would_memorize_them() -> None:
    def changes(images: Dataset, radius: float, budget: str) -> dict[str, object]:
        return certified_plan(images, Ball("linf", radius), budget).settings["augmentation"]  # type: ignore[arg-type]

    grey = data((1, 28, 28), 60_000)
    assert changes(grey, 0.1, "night") == {"crop": 1}
    assert changes(grey, 0.3, "night") == changes(grey, 0.1, "cpu") == {}, "where it was not measured, nothing moves"
    assert changes(data((3, 32, 32), 50_000), 8 / 255, "night") == {"flip": True}
    assert changes(data((1, 8, 8), 1400), 0.1, "night") == {}, "a pixel is an eighth of such an image"


def test_multiply_adds_of_intervals_are_those_of_the_layers() -> None:
    arguments = {"width": 6, "hidden": 20, "convolutions": 2}
    model = IntervalNetwork((3, 16, 16), 10, **arguments)  # type: ignore[arg-type]
    convolutions = [part for part in model if isinstance(part, nn.Conv2d)]
    places = [64, 16]
    linear = 20 * 12 * 16
    expected = sum(part.weight.numel() * n for part, n in zip(convolutions, places, strict=True)) + linear
    assert _interval_multiply_adds((3, 16, 16), arguments) == expected


def test_l1_threats_get_the_l2_ball() -> None:
    assert certified_plan(data((1, 8, 8)), Ball("l1", 0.3)) == certified_plan(data((1, 8, 8)), Ball("l2", 0.3))


def test_refusals() -> None:
    with pytest.raises(InputError, match="smoke"):
        certified_plan(data((1, 8, 8)), Ball("l2", 0.1), "smok")  # type: ignore[arg-type]


def test_the_recipe_trains_on_a_folder_of_images(tmp_path: Path) -> None:
    """``examples/texture_folder.py``: real photographs, three classes, a few steps of the recipe; more than chance."""
    write = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "texture_folder.py"))["write"]
    assert write(tmp_path / "textures") == 768
    textures = load(str(tmp_path / "textures"))
    assert (len(textures.train), len(textures.test)) == (576, 192)
    assert textures.train.classes == ("brick", "grass", "gravel")
    recipe, store = certified_plan(textures.train, Ball("l2", 36 / 255), "smoke"), Store(tmp_path / "runs")
    assert recipe.model == "isometric"
    settings = {**recipe.settings, "steps": 60}
    spec = data_spec(str(tmp_path / "textures"), store)
    step = train_step(spec, recipe.model, recipe.method, settings, recipe.preprocessing)
    model = load_bundle(store.ensure(step).folder)[0]
    x, y = textures.test.tensors()
    certificate = certify(model, x, lipschitz_bound(model, textures.shape))
    proved = (certificate.prediction == y) & (certificate.radius >= 36 / 255)
    assert float(proved.double().mean()) > 0.45


def test_grey_images_get_a_wider_network_at_larger_budgets() -> None:
    """As wide as the 196 numbers of a patch at smoke, twice as wide at cpu; color images are not concerned."""
    shape = (1, 28, 28)
    assert [network(shape, 128, spread)["width"] for spread in (1, 2)] == [224, 416]
    assert network((3, 32, 32), 192, 1) == network((3, 32, 32), 192, 2)
