"""The two classifiers that an assessment trains: a standard one, and one of a family that can be proved."""

from __future__ import annotations

from math import prod
from typing import Any

from radii.data.dataset import Data, Preprocessing
from radii.runs.inputs import DataSpec
from radii.runs.planning import train_step
from radii.runs.steps import Train
from radii.threat import Ball
from radii.training.certified import certified_plan

STANDARD, LIPSCHITZ, INTERVAL = "standard", "1-Lipschitz", "interval-trained"
INPUTS_SHOWN = 30_000  # inputs that each classifier sees during training on small data: seconds, enough for digits
SMALL_INPUT = 256  # numbers of one input up to which small data gets a network whose true radii can be computed
SMALL_NETWORK = {"width": 32, "depth": 2}  # of an MLP; on digits a bracket closes in half a CPU second


def classifiers(spec: DataSpec, data: Data, ball: Ball, epochs: int | None, seed: int) -> dict[str, Train]:
    """The two trainings: a standard network, then the family that can be proved in the threat's norm.

    Args:
        spec: the dataset.
        data: the same, loaded.
        ball: the threat.
        epochs: passes over the training data; None for about 30,000 inputs.
        seed: the seed of every random stream.

    Returns:
        The steps by name, ``standard`` first, then ``1-Lipschitz`` or, for a Linf threat, ``interval-trained``.
    """
    settings: dict[str, Any] = {
        "epochs": epochs or max(3, round(INPUTS_SHOWN / len(data.train))),
        "batch_size": min(256, max(16, len(data.train) // 45)),
    }
    plain, own = _standard(data, settings["epochs"], epochs is None)
    # features come in any unit; pixels need no scaling, which would also scale every radius
    inside: Preprocessing = "center" if data.train.box is not None else "standardize"
    recipe = certified_plan(data.train, ball, "smoke")
    length = {} if epochs is None else {"steps": 0, "epochs": epochs}
    return {
        STANDARD: train_step(spec, plain, "natural", settings | own, inside, seed),
        INTERVAL if ball.norm == "linf" else LIPSCHITZ: train_step(
            spec, recipe.model, recipe.method, recipe.settings | length, recipe.preprocessing, seed
        ),
    }


def _standard(data: Data, epochs: int, free: bool) -> tuple[str, dict[str, Any]]:
    """The standard network with its own settings: as small as its true radii can be computed, where that is enough.

    Args:
        data: the dataset.
        epochs: passes over the training data.
        free: whether the network may take more of them.
    """
    images = data.train.is_image
    if prod(data.shape) > SMALL_INPUT or len(data.train) > INPUTS_SHOWN:
        return ("lenet5", {"model": {"widen": 0.25}}) if images else ("mlp", {})
    rate = {"optimizer": {"lr": 0.3}} if images else {}  # features of any kind learn at the usual rate
    return "mlp", {"model": SMALL_NETWORK, "epochs": 2 * epochs if free else epochs, **rate}
