"""The recipes ``standard`` and ``robust``: one small residual network, without and with an attack in its training.

Network, attack and length follow from the data, the threat and the budget. docs/notes/robust-training.md tells how
the figures were chosen, on held-out training images only. :mod:`radii.training.certified_recipe` has the third recipe.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from radii.budget import Budget, check_budget
from radii.data.dataset import Dataset
from radii.models.zoo.small_resnet import stem_stride
from radii.threat import Ball
from radii.training.recipes import Plan, Settings


@dataclass(frozen=True)
class _Length:
    """The size of a training at one budget.

    Args:
        work: multiply-adds of all passes, backward ones counted twice; 6e12 are about a core-minute with products in
            bfloat16 on an idle machine with AVX-512 BF16, and two or three times as long without.
        epochs: the largest number of passes over the data; small datasets reach it before ``work``.
        width: channels of the first stage.
        blocks: of each stage.
    """

    work: float
    epochs: int
    width: int
    blocks: tuple[int, ...]


LENGTHS: dict[Budget, _Length] = {
    "smoke": _Length(work=1.2e13, epochs=40, width=32, blocks=(1, 1, 1)),  # two core-minutes
    "cpu": _Length(work=1.2e14, epochs=100, width=40, blocks=(1, 2, 1)),  # twenty core-minutes
    "night": _Length(work=6.6e14, epochs=200, width=64, blocks=(1, 2, 2)),  # two core-hours
}
OPTIMIZER: Settings = {
    "kind": "orthogonalized", "schedule": "linear", "lr": 0.02, "warmup": 0.2, "others_lr": 0.1, "weight_decay": 0.02,
}  # fmt: skip
PLAIN, SINGLE = 3, 5  # passes of a training step: forward and twice that backward; the single step adds two
TINY_SIDE = 12  # pixels
GROWS = 0.5  # share of the training in which the radius of the attack grows to its full size
FEWEST_EPOCHS = 1
WATCHED = 200  # held-out training images
STEPS = 10  # of ascent on features, whose networks cost little
SINGLE_UP_TO = {"linf": 16 / 255, "l2": 1.0}  # radii of images; beyond, one step is too coarse
SEVERAL, SHORTER = 5, 0.3  # steps beyond, and their length as a share of the radius


def standard_plan(data: Dataset, ball: Ball | None = None, budget: Budget = "cpu") -> Plan:  # noqa: ARG001
    """How to train an accurate classifier on ``data`` within ``budget``: the recipe ``robust`` without its attack.

    Args:
        data: the training split; its size and shape matter, no label is read.
        ball: not used; all recipes are asked in the same words.
        budget: ``smoke``, ``cpu`` or ``night``, see :func:`robust_plan`.
    """
    return _plan(data, budget, PLAIN, "natural", {"label_smoothing": 0.1})


def robust_plan(data: Dataset, ball: Ball, budget: Budget = "cpu") -> Plan:
    """How to train a classifier on ``data`` that withstands attacks in ``ball``, within ``budget``.

    Images: :class:`radii.models.zoo.small_resnet.SmallResNet` under orthogonalized momentum
    (:class:`radii.training.optimizers.Orthogonalized`) against a single noisy step
    (:class:`radii.training.objectives.single_step.NoiseFGSM`), which is watched on held-out images; beyond Linf 16/255
    or L2 1 against five projected steps, because a single one misses most attacks there.
    Features: a small MLP against ten projected steps. An L1 ball is trained as the L2 ball of the same
    radius, which contains it. Nothing is proved: attacks must judge such a network.

    Args:
        data: the training split; its size and shape matter, no label is read.
        ball: the threat to withstand.
        budget: ``smoke``, ``cpu`` or ``night``: about 2, 20 or 120 core-minutes on 50,000 color images of
            32 x 32 on a core with AVX-512, less for what is smaller.
    """
    if ball.norm == "l1":
        ball = ball.changed(norm="l2")
    if len(data.shape) == 1:
        return _against_steps(data, ball, budget, STEPS, 0.25)
    if ball.radius > SINGLE_UP_TO[ball.norm]:
        return _against_steps(data, ball, budget, SEVERAL, SHORTER)
    plan = _plan(data, budget, SINGLE, "noise-fgsm", {"threat": str(ball), "warmup": GROWS})
    plan.settings["watch"] = min(WATCHED, len(data) // 20)
    return plan


def _against_steps(data: Dataset, ball: Ball, budget: Budget, steps: int, step: float) -> Plan:
    """Training against ``steps`` projected steps of length ``step`` radii, from a random start."""
    arguments = {"threat": str(ball), "steps": steps, "step": step, "warmup": GROWS}
    return _plan(data, budget, PLAIN + 2 * steps, "adversarial", arguments)


def _plan(data: Dataset, budget: Budget, passes: int, method: str, arguments: dict[str, Any]) -> Plan:
    check_budget(budget, tuple(LENGTHS))
    length = LENGTHS[budget]
    name, model = network(data.shape, length)
    batch_size = 128 if len(data) >= 10_000 else max(8, min(64, len(data) // 20))
    steps = length.work / (passes * batch_size * multiply_adds(data.shape, model))
    epochs = min(max(steps * batch_size / len(data), FEWEST_EPOCHS), length.epochs)
    images = len(data.shape) == 3
    settings: dict[str, Any] = {
        "steps": max(1, round(epochs * len(data) / batch_size)),
        "batch_size": batch_size,
        "test_every": 0,
        "optimizer": OPTIMIZER,
        "augmentation": augmentation(data.shape),
        "model": model,
        "method": arguments,
        **({"precision": "bfloat16"} if images else {}),
    }
    return Plan(name, method, "standardize", settings)


def network(shape: tuple[int, ...], length: _Length) -> tuple[str, dict[str, Any]]:
    """Name and arguments of the network for inputs of ``shape``."""
    if len(shape) == 1:
        return "mlp", {"width": 8 * length.width, "depth": 3, "activation": "silu"}
    return "small-resnet", {"width": length.width, "blocks": list(length.blocks)}


def multiply_adds(shape: tuple[int, ...], model: dict[str, Any]) -> float:
    """About how many multiply-adds one forward pass of an input of ``shape`` costs; ``model`` are its arguments."""
    width = model["width"]
    if len(shape) == 1:
        return float(width * (shape[0] + (model["depth"] - 2) * width))
    stride = stem_stride(shape)
    sides = [side // stride for side in shape[1:]]
    total = prod(sides) * shape[0] * width * (9 if stride == 1 else 4 * stride**2)
    inside = width
    for stage, count in enumerate(model["blocks"]):
        outside = width * 2**stage
        sides = [ceil(side / 2) for side in sides] if stage else sides
        total += prod(sides) * (9 * inside * outside + (inside * outside if stage else 0))
        total += prod(sides) * 9 * outside**2 * (2 * count - 1)
        inside = outside
    return float(total)


def augmentation(shape: tuple[int, ...]) -> dict[str, Any]:
    """Random changes for images of ``shape``: color images are mirrored and moved, grey ones moved, tiny ones kept."""
    if len(shape) == 1 or max(shape[1:]) <= TINY_SIDE:
        return {}
    return {"flip": shape[0] > 1, "crop": 2}
