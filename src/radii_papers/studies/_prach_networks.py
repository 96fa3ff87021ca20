"""The networks of Prach & Lampert's experiments, and the isometric network that two cores can afford beside them.

A function for each network plans its training; a study says which data, length and seeds.
"""

from __future__ import annotations

from typing import Any

from radii.budget import Budget
from radii.runs.component_specs import DataSpec
from radii.runs.planning import named_training, train_step
from radii.runs.steps import Train
from radii.training import certified_recipe
from radii.training.recipes import Settings, deep_merge

RADII = (36 / 255, 72 / 255, 108 / 255, 0.5, 1.0)
SIGMA = 1 / 8  # noise of the smoothed network
EPOCH = 195  # steps of 256 images in an epoch of CIFAR-10; shorter datasets get the same number of steps
POINTS: dict[Budget, int] = {"smoke": 200, "cpu": 10_000, "night": 10_000, "paper": 10_000}  # that are certified
NO_TEST_EPOCHS: Settings = {"test_every": 0}  # small subsets are passed thousands of times
NO_AUGMENTATION: Settings = {"augmentation": {"crop": 0, "flip": False, "erase": 0}, **NO_TEST_EPOCHS}
CPL: Settings = {"model": {"layer": "cpl"}, "optimizer": {"lr": 1.0}}
ISOMETRIC: dict[str, Settings] = {  # few large tokens for digits, 8 x 8 small ones for photographs
    "digits": {"width": 128, "depth": 4, "tokens": 1, "shift": 16},
    "mnist": {"width": 224, "depth": 4, "tokens": 2, "shift": 16},
    "cifar10": {"width": 128, "depth": 4, "tokens": 8, "shift": 32},
}

LOSS: dict[str, Settings] = {  # of the isometric network
    "digits": {"offset": 1.0, "temperature": 0.5},
    "mnist": {"offset": 1.5, "temperature": 0.5},
    "cifar10": {"offset": 0.75, "temperature": 0.4},
}


def doubled(largest: int, count: int) -> tuple[int, ...]:
    """``count`` numbers up to ``largest``, each twice the one before (rounded down)."""
    return tuple(largest >> power for power in range(count - 1, -1, -1))


def shrunk(steps: int, batch: int, width: int, **model: int) -> Settings:
    """A shorter training of a narrower network, with milder augmentation than 585,000 steps bear."""
    return {
        "steps": steps,
        "batch_size": batch,
        "model": {"width": width, **model},
        "optimizer": {"lr": 1.0 if model else 0.1},
        "augmentation": {"crop": 2, "erase": 0},
    }


def isometric_training(data: DataSpec, steps: int, changes: Settings = NO_TEST_EPOCHS, seed: int = 0) -> Train:
    """The isometric network under orthogonalized momentum, as the recipe ``certified`` has it, of a given length.

    Not a network of the paper: about twenty times cheaper than a ConvNet of equal certified
    accuracy, so that short trainings are limited by their data.

    Args:
        data: the dataset; its base must be in ``ISOMETRIC``.
        seed: seed of all random numbers; default 0.
    """
    loss: Settings = {"method": LOSS[data.base]}
    settings = deep_merge(isometric_settings(data, steps), deep_merge(loss, changes))
    return train_step(data, "isometric", "offset-cross-entropy", settings, "center", seed)


def isometric_settings(data: DataSpec, steps: int) -> dict[str, Any]:
    """The isometric network and its optimizer, without a loss.

    Args:
        data: the dataset; its base must be in ``ISOMETRIC``.
    """
    color = data.base == "cifar10"
    return {
        "steps": steps,
        "batch_size": 128 if color else 256,
        "optimizer": certified_recipe.OPTIMIZER,
        "augmentation": {"flip": color},
        "model": ISOMETRIC[data.base],
    }


def lipschitz_training(data: DataSpec, changes: Settings, seed: int = 0) -> Train:
    """The paper's 1-Lipschitz ConvNet, with ``changes``.

    Args:
        seed: seed of all random numbers; default 0.
    """
    return named_training(data, recipe="prach-lampert", budget="paper", settings=changes, seed=seed)


def mlp_training(data: DataSpec, changes: Settings, seed: int = 0) -> Train:
    """The paper's MLP of AOL layers, with ``changes``.

    Args:
        changes: settings laid over those of the paper; the width must be given.
        seed: seed of all random numbers; default 0.
    """
    deep = deep_merge({"model": {"depth": 8, "layer": "aol"}}, changes)
    return named_training(data, "lipschitz-mlp", recipe="prach-lampert", settings=deep, seed=seed)


def noisy_training(data: DataSpec, changes: Settings, seed: int = 0) -> Train:
    """SimpleConvNet trained with noise for smoothing, 100 epochs, with ``changes``.

    Args:
        seed: seed of all random numbers; default 0.
    """
    paper = {"steps": 100 * EPOCH, "method": {"sigma": SIGMA}}
    return named_training(
        data,
        "simple-convnet",
        "gaussian-noise",
        recipe="prach-lampert",
        settings=deep_merge(paper, changes),
        seed=seed,
    )


def standard_training(data: DataSpec, changes: Settings, seed: int = 0) -> Train:
    """SimpleConvNet, with ``changes`` and the paper's softmax temperature (which its code divides by), 24 epochs.

    Args:
        seed: seed of all random numbers; default 0.
    """
    paper = {
        "steps": 24 * EPOCH,
        "batch_size": 256,
        "optimizer": {"lr": 0.1},
        "augmentation": {"crop": 4, "flip": True, "erase": 8},
        "method": {"offset": 0.0, "temperature": 8.0},
    }
    return train_step(data, "simple-convnet", "offset-cross-entropy", deep_merge(paper, changes), "center", seed)
