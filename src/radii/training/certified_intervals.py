"""The recipe ``certified`` for Linf threats: a small network trained by interval bounds.

How its figures were chosen, on held-out training images only, is told in
docs/notes/certified-training.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from radii.budget import Budget
from radii.data.dataset import Dataset, Preprocessing
from radii.threat import Ball
from radii.training.recipes import Plan


@dataclass(frozen=True)
class IntervalLength:
    """How much a budget computes.

    ``work``: multiply-adds of forward passes (see :func:`interval_multiply_adds`); 1.3e11 to 2.3e11 are about a
    core-minute of training, more for wider networks. ``epochs``: the most passes over the data, which small
    datasets reach first.
    ``width``, ``hidden``: of the network for images of more than 12 pixels a side.
    """

    work: float
    epochs: int
    width: int
    hidden: int


INTERVAL_LENGTHS: dict[Budget, IntervalLength] = {
    "smoke": IntervalLength(work=6e10, epochs=60, width=8, hidden=128),  # half a core-minute
    "cpu": IntervalLength(work=1.2e12, epochs=120, width=16, hidden=256),  # nine core-minutes
    "night": IntervalLength(work=1.44e13, epochs=200, width=32, hidden=512),  # a core-hour
}
FEWEST_EPOCHS = 2
TINY_SIDE = 12  # pixels
CLIPS_FROM = 0.05  # smaller radii leave grey pixels apart
MIXES_BELOW = 4 / 255  # color images: below, CROWN proves what intervals cannot
SHARE, COST_OF_ATTACK = 0.1, 1.6  # of the intervals in the mixed loss; of its steps over those of intervals alone
MEMORIZES_AFTER = 30  # epochs, after which grey training images are almost all proved
MEMORIZES_BELOW = 0.2  # Linf radius, below which this was seen


def interval_plan(data: Dataset, ball: Ball, budget: Budget) -> Plan:
    """How to train a classifier on ``data`` that intervals prove at the Linf ``ball``, within ``budget``.

    The network is :class:`radii.models.zoo.interval_network.IntervalNetwork`, the method
    :class:`radii.training.objectives.interval_training.FastIBP`. Grey images are clipped at the radius, which
    makes black and white pixels certain. Color images at small radii are trained by
    :class:`radii.training.objectives.interval_training.MtlIBP`, attacks beside intervals, and proved by CROWN.

    Args:
        data: the training split; its size and shape matter, no label is read.
        ball: the Linf threat to be proved.
        budget: ``smoke``, ``cpu`` or ``night``: about half a core-minute, nine or sixty on 60,000 grey
            images of 28 x 28.
    """
    length, shape = INTERVAL_LENGTHS[budget], data.shape
    model = interval_network(shape, length, ball.radius)
    batch_size = 256 if len(data) >= 10_000 else max(16, min(64, len(data) // 20))
    mixed = len(shape) == 3 and shape[0] > 1 and ball.radius < MIXES_BELOW
    cost = interval_multiply_adds(shape, model) * (COST_OF_ATTACK if mixed else 1)
    steps = length.work / (batch_size * cost)
    epochs = min(max(steps * batch_size / len(data), FEWEST_EPOCHS), length.epochs)
    settings: dict[str, Any] = {
        "steps": max(1, round(epochs * len(data) / batch_size)),
        "batch_size": batch_size,
        "test_every": 0,
        "optimizer": {"kind": "adam", "schedule": "one-cycle", "lr": 2e-3, "warmup": 0.1, "clip_gradient": 10.0},
        "augmentation": interval_augmentation(shape, ball.radius, epochs),
        "model": model,
        "method": {"threat": str(ball), **({"share": SHARE} if mixed else {})},
    }
    # standardized colors and features train faster; what clipping leaves lies in [0, 1] already
    preprocessing: Preprocessing = "none" if "clip" in model else "standardize"
    return Plan("interval-network", "mtl-ibp" if mixed else "fast-ibp", preprocessing, settings)


def interval_augmentation(shape: tuple[int, ...], radius: float, epochs: float) -> dict[str, Any]:
    """Random changes of training images: color images are mirrored, grey ones moved by a pixel where data limits.

    Long trainings at small radii prove grey training images almost without exception, and test images less often.

    Args:
        shape: the shape of one input.
        radius: the Linf radius.
        epochs: passes over the data.
    """
    if len(shape) == 1 or max(shape[1:]) <= TINY_SIDE:
        return {}
    if shape[0] > 1:
        return {"flip": True}
    return {"crop": 1} if epochs > MEMORIZES_AFTER and radius < MEMORIZES_BELOW else {}


def interval_network(shape: tuple[int, ...], length: IntervalLength, radius: float) -> dict[str, Any]:
    """Arguments of the network for inputs of ``shape``, of the sizes ``length``, at the Linf ``radius``.

    Large images get three convolutions, others two; grey images are clipped. Features and tiny images cost
    little, so they get at least the sizes of the budget ``cpu``.
    """
    least = INTERVAL_LENGTHS["cpu"]
    if len(shape) == 1 or max(shape[1:]) <= TINY_SIDE:
        length = replace(length, width=max(length.width, least.width), hidden=max(length.hidden, least.hidden))
    if len(shape) == 1:
        return {"hidden": length.hidden}
    clip = {"clip": min(radius, 0.4)} if shape[0] == 1 and radius >= CLIPS_FROM else {}
    convolutions = 1 if min(shape[1:]) <= 8 else 2 if max(shape[1:]) <= 64 else 3
    return {"width": length.width, "hidden": length.hidden, "convolutions": convolutions, **clip}


def interval_multiply_adds(shape: tuple[int, ...], model: dict[str, Any]) -> float:
    """About how many multiply-adds one forward pass of an input of ``shape`` costs; ``model`` are its arguments."""
    hidden = model["hidden"]
    if len(shape) == 1:
        return float(hidden * (shape[0] + hidden))
    total, channels, sides = 0.0, shape[0], list(shape[1:])
    for number in range(model["convolutions"]):
        wide = model["width"] * 2**number
        sides = [side // 2 for side in sides]
        total += prod(sides) * wide * channels * 16
        channels = wide
    return total + channels * prod(sides) * hidden
