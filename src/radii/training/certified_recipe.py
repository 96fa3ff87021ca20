"""The recipe ``certified``: the network, its length and its loss follow from the data, the threat and the budget.

L2 threats get an isometric network, Linf threats a small network trained by interval bounds.

docs/notes/certified-training.md tells how its figures were chosen, on held-out
training images only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import Any

from radii.budget import Budget, check_budget
from radii.data.dataset import Dataset, Preprocessing
from radii.threat import Ball
from radii.training.recipes import Plan, Settings


@dataclass(frozen=True)
class Length:
    """The size of a training at one budget.

    Args:
        work: multiply-adds of all forward passes, see :func:`multiply_adds`; 3.8e11 are about a core-minute.
        epochs: the largest number of passes over the data; small datasets reach it before ``work``.
    """

    work: float
    epochs: int
    width: int
    spread: int


LENGTHS: dict[Budget, Length] = {
    "smoke": Length(work=3.8e11, epochs=60, width=128, spread=1),  # a core-minute
    "cpu": Length(work=8e12, epochs=200, width=192, spread=2),  # twenty core-minutes
    "night": Length(work=4.8e13, epochs=400, width=256, spread=2),  # two core-hours
}
OPTIMIZER: Settings = {"kind": "manifold", "schedule": "linear", "lr": 0.03, "warmup": 0.1, "others_lr": 2e-3}
DEPTH, FEWEST_EPOCHS = 4, 1
MOST_WIDTH = 512
FIRST, LAST = 2.0, 0.6  # the temperatures of the loss over the middle one
MIX, OVERLAP = 4, 1  # where there are many tokens: a quarter of the channels is mixed, patches overlap by a pixel


def certified_plan(data: Dataset, ball: Ball, budget: Budget = "cpu") -> Plan:
    """How to train a classifier on ``data`` that is proved at ``ball``, within ``budget``.

    For a Linf ball see ``_interval_plan``. For an L2 ball, and for an
    L1 ball, which the L2 ball of the same radius contains, the network is
    :class:`radii.models.zoo.isometric.Isometric` under orthogonalized
    momentum, with the loss T * CE((s - o * onehot) / T). The target radius r
    sets the offset, o = 0.6 + 0.9 r, and with the number of epochs e the middle temperature M:
    the larger of 0.5 (4 / e)^(1/4), kept within [0.3, 0.5], and 2 r for color
    images or 0.2 + 0.3 r^2 for grey images and features, whose classes are farther apart.
    Long trainings can afford to look at small margins, large radii must not. T falls linearly from 2 M to
    0.6 M: large margins first, the doubtful points last. Networks of few tokens are as wide as a patch has numbers
    at ``smoke``, and twice as wide at larger budgets: width limits long trainings on grey images.

    Args:
        data: the training split; its size and shape matter, no label is read.
        budget: ``smoke``, ``cpu`` or ``night``: about 1, 20 or 120 core-minutes
            on 50,000 color images of 32 x 32, less for what is smaller.
    """
    check_budget(budget, tuple(LENGTHS))
    if ball.norm == "linf":
        return _interval_plan(data, ball, budget)
    length, color = LENGTHS[budget], len(data.shape) == 3 and data.shape[0] > 1
    model = network(data.shape, length.width, length.spread)
    few_tokens = model.get("tokens", 1) <= 2  # where the optimizer costs as much as a batch
    batch_size = (256 if few_tokens else 128) if len(data) >= 10_000 else max(8, min(64, len(data) // 20))
    steps = length.work / multiply_adds(data.shape, model, batch_size)
    epochs = min(max(steps * batch_size / len(data), FEWEST_EPOCHS), length.epochs)
    middle = temperature(ball.radius, epochs, color)
    settings: dict[str, Any] = {
        "steps": max(1, round(epochs * len(data) / batch_size)),
        "batch_size": batch_size,
        "test_every": 0,
        "optimizer": OPTIMIZER,
        "augmentation": augmentation(data.shape, epochs),
        "model": model,
        "method": {
            "offset": offset(ball.radius),
            "first_temperature": round(FIRST * middle, 3),
            "temperature": round(LAST * middle, 3),
        },
    }
    # features come in any unit; pixels need no scaling, which would also scale every radius
    return Plan("isometric", "offset-cross-entropy", "center" if data.box is not None else "standardize", settings)


def offset(radius: float) -> float:
    """The margin that the loss asks for at the L2 ``radius``, in logits."""
    return round(0.6 + 0.9 * radius, 3)


def temperature(radius: float, epochs: float, color: bool) -> float:
    """The middle temperature of the loss from ``radius``, ``epochs`` and ``color``; a larger one rewards margins."""
    by_length = min(max(0.5 * (4 / epochs) ** 0.25, 0.3), 0.5)
    by_radius = min(2 * radius, 2.0) if color else 0.2 + 0.3 * radius**2
    return round(max(by_length, by_radius), 3)


def network(shape: tuple[int, ...], width: int, spread: int = 1) -> dict[str, Any]:
    """Arguments of the isometric network for inputs of ``shape``: few large tokens for grey images, 8 x 8 for color.

    ``width`` is the number of channels where there are many tokens, ``spread`` times the numbers of a patch where
    there are few.
    """
    if len(shape) == 1:
        return {"width": _even(max(64, min(shape[0], MOST_WIDTH))), "depth": DEPTH}
    channels, side = shape[0], max(shape[1:])
    tokens = 1 if side <= 12 else 2 if channels == 1 else 8
    patch = -(-side // tokens)
    many = {"mix": MIX, "overlap": OVERLAP if patch >= 4 else 0} if tokens == 8 else {}
    numbers = channels * (patch + 2 * many.get("overlap", 0)) ** 2
    wide = max(width, min(numbers, MOST_WIDTH)) if tokens == 8 else max(128, min(spread * numbers, MOST_WIDTH))
    return {"width": -(-wide // 32) * 32, "depth": DEPTH, "tokens": tokens, "shift": 32 if tokens == 8 else 16, **many}


def multiply_adds(shape: tuple[int, ...], model: dict[str, Any], batch_size: int) -> float:
    """About how many multiply-adds of forward passes one training step costs.

    The optimizer counts as two products of each square matrix: it computes about
    twenty, but they are faster than products with tokens and have no backward pass.
    """
    tokens, width, depth, patch = 1, model["width"], model["depth"], float(shape[0])
    if len(shape) == 3:
        tokens = model["tokens"] ** 2
        patch = shape[0] * (sqrt(prod(shape[1:]) / tokens) + 2 * model.get("overlap", 0)) ** 2
    mixed = tokens * (width // model["mix"]) if model.get("mix") else 0
    return batch_size * tokens * (width * (patch + (depth - 1) * width) + mixed) + 2 * depth * width**3


def augmentation(shape: tuple[int, ...], epochs: float) -> dict[str, Any]:
    """Random changes for images of ``shape``: color images are mirrored, and moved by a pixel beyond 60 ``epochs``."""
    if len(shape) == 1 or max(shape[1:]) <= 12:
        return {}
    return {"flip": shape[0] > 1, "crop": 1 if shape[0] > 1 and epochs > 60 else 0}


def _even(number: int) -> int:
    return number + number % 2


@dataclass(frozen=True)
class _IntervalLength:
    """How much a budget computes.

    ``work``: multiply-adds of forward passes (see :func:`_interval_multiply_adds`); 1.3e11 to 2.3e11 are about a
    core-minute of training, more for wider networks. ``epochs``: the most passes over the data, which small
    datasets reach first.
    ``width``, ``hidden``: of the network for images of more than 12 pixels a side.
    """

    work: float
    epochs: int
    width: int
    hidden: int


INTERVAL_LENGTHS: dict[Budget, _IntervalLength] = {
    "smoke": _IntervalLength(work=6e10, epochs=60, width=8, hidden=128),  # half a core-minute
    "cpu": _IntervalLength(work=1.2e12, epochs=120, width=16, hidden=256),  # nine core-minutes
    "night": _IntervalLength(work=1.44e13, epochs=200, width=32, hidden=512),  # a core-hour
}
FEWEST_EPOCHS = 2
TINY_SIDE = 12  # pixels
CLIPS_FROM = 0.05  # smaller radii leave grey pixels apart
MIXES_BELOW = 4 / 255  # color images: below, CROWN proves what intervals cannot
SHARE, COST_OF_ATTACK = 0.1, 1.6  # of the intervals in the mixed loss; of its steps over those of intervals alone
MEMORIZES_AFTER = 30  # epochs, after which grey training images are almost all proved
MEMORIZES_BELOW = 0.2  # Linf radius, below which this was seen


def _interval_plan(data: Dataset, ball: Ball, budget: Budget) -> Plan:
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
    cost = _interval_multiply_adds(shape, model) * (COST_OF_ATTACK if mixed else 1)
    steps = length.work / (batch_size * cost)
    epochs = min(max(steps * batch_size / len(data), FEWEST_EPOCHS), length.epochs)
    settings: dict[str, Any] = {
        "steps": max(1, round(epochs * len(data) / batch_size)),
        "batch_size": batch_size,
        "test_every": 0,
        "optimizer": {"kind": "adam", "schedule": "one-cycle", "lr": 2e-3, "warmup": 0.1, "clip_gradient": 10.0},
        "augmentation": _interval_augmentation(shape, ball.radius, epochs),
        "model": model,
        "method": {"threat": str(ball), **({"share": SHARE} if mixed else {})},
    }
    # standardized colors and features train faster; what clipping leaves lies in [0, 1] already
    preprocessing: Preprocessing = "none" if "clip" in model else "standardize"
    return Plan("interval-network", "mtl-ibp" if mixed else "fast-ibp", preprocessing, settings)


def _interval_augmentation(shape: tuple[int, ...], radius: float, epochs: float) -> dict[str, Any]:
    """Random changes of training images: color images are mirrored, grey ones moved by a pixel where data limits.

    Long trainings at small radii prove grey training images almost without exception, and test images less often.

    Args:
        radius: the Linf radius.
    """
    if len(shape) == 1 or max(shape[1:]) <= TINY_SIDE:
        return {}
    if shape[0] > 1:
        return {"flip": True}
    return {"crop": 1} if epochs > MEMORIZES_AFTER and radius < MEMORIZES_BELOW else {}


def interval_network(shape: tuple[int, ...], length: _IntervalLength, radius: float) -> dict[str, Any]:
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


def _interval_multiply_adds(shape: tuple[int, ...], model: dict[str, Any]) -> float:
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
