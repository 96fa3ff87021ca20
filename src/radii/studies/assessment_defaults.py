"""What an assessment takes where its user does not say: a threat that suits the data, and the classifiers to train."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np

from radii.data.dataset import Data, Preprocessing
from radii.data.threat_on_data import ball_on, extreme_spreads
from radii.geometry.separation import separation
from radii.runs.component_specs import DataSpec
from radii.runs.planning import train_step
from radii.runs.steps import Train
from radii.threat import Ball
from radii.training.certified_recipe import certified_plan

PHOTO = 65  # pixels of the longer side from which an image is a photo


@dataclass(frozen=True)
class UsualThreat:
    """A threat and the reason for it."""

    ball: Ball
    why: str

    def __str__(self) -> str:
        return f"{self.ball}: {self.why}"


def usual_threat(data: Data) -> UsualThreat:
    """The threat for data of this kind and size.

    Returns:
        L2 0.5 for small grey images and for photos, 36/255 for small color images; for features a quarter of the
        distance that 95% of (at most 2,000 of) the points keep from other classes, to one digit; in standard
        deviations where the columns have different units.
    """
    if data.train.is_image:
        if max(data.shape[-2:]) >= PHOTO:
            why = "the default for photos, the least radius at which papers report certified accuracy on ImageNet"
            return UsualThreat(Ball("l2", 0.5), why)
        if data.shape[0] == 1:
            why = "the default for small grey images, a third of the 1.58 that papers use on MNIST"
            return UsualThreat(Ball("l2", 0.5), why)
        why = "the default for small color images, at which papers report certified accuracy on CIFAR-10"
        return UsualThreat(Ball("l2", 36 / 255), why)
    sample = data.train.subset(min(2000, len(data.train)))
    fixed = () if data.train.rules is None else data.train.rules.fixed
    unit: Literal["", "sd"] = "" if extreme_spreads(data, fixed) is None else "sd"
    scale = ball_on(Ball("l2", 1.0, unit=unit), data).scale
    rows = (sample.x / np.asarray(scale)).astype(np.float32) if scale else sample.x
    reach = separation(rows, sample.y, norm="l2").quantile(0.05) / 4
    ball = Ball("l2", float(f"{max(reach, 1e-3):.1g}"), data.train.box, unit=unit)
    why = "the default for features, a quarter of the distance that 95% of the points keep from other classes"
    return UsualThreat(ball, why)


STANDARD, ADVERSARIAL, LIPSCHITZ, INTERVAL = "standard", "adversarial", "1-Lipschitz", "interval-trained"
CERTIFIED = (LIPSCHITZ, INTERVAL)  # one of them, by the threat's norm
REFERENCES = {  # with what a reader should know of them
    STANDARD: "trained without attacks",
    ADVERSARIAL: "trained against attacks",
    LIPSCHITZ: "its outputs change by no more than its input",
    INTERVAL: "trained by bounds on its outputs",
}
ATTACK_STEPS = 5  # in adversarial training
INPUTS_SHOWN = 30_000  # inputs that each classifier sees during training on small data: seconds, enough for digits
SMALL_INPUT = 256  # numbers of one input up to which small data gets a network whose true radii can be computed
SMALL_NETWORK = {"width": 32, "depth": 2}  # of an MLP; on digits every bracket closes, half a CPU second a point


def classifiers(spec: DataSpec, data: Data, ball: Ball, epochs: int | None, seed: int) -> dict[str, Train]:
    """The three trainings: a standard network, the same against an attack, then one that can be proved in the norm.

    The first two are one network, so the difference of their accuracies is what the attack in training costs and
    gains. (The networks of the recipes ``standard`` and ``robust`` reach more, and cost minutes to evaluate.)

    Args:
        epochs: passes over the training data; None for about 30,000 inputs.
    """
    settings: dict[str, Any] = {
        "epochs": epochs or max(3, round(INPUTS_SHOWN / len(data.train))),
        "batch_size": min(256, max(16, len(data.train) // 45)),
    }
    plain, own = _standard(data, settings["epochs"], epochs is None)
    # features come in any unit; pixels need no scaling, which would also scale every radius
    inside: Preprocessing = "center" if data.train.box is not None else "standardize"
    trained = ball
    if ball_on(ball, data).scale:  # methods of training count in the features' units; standardized ones are alike
        trained = Ball("l2", ball.radius, ball.box)
    recipe = certified_plan(data.train, trained, "smoke")
    attacked = settings | own | {"method": _attack(trained)}
    length = {} if epochs is None else {"steps": 0, "epochs": epochs}
    return {
        STANDARD: train_step(spec, plain, "natural", settings | own, inside, seed),
        ADVERSARIAL: train_step(spec, plain, "adversarial", attacked, inside, seed),
        INTERVAL if trained.norm == "linf" else LIPSCHITZ: train_step(
            spec, recipe.model, recipe.method, recipe.settings | length, recipe.preprocessing, seed
        ),
    }


def _attack(ball: Ball) -> dict[str, Any]:
    """The attack of adversarial training; an L1 ball is trained as the L2 ball of its radius, which contains it."""
    norm = "l2" if ball.norm == "l1" else ball.norm
    return {"threat": str(Ball(norm, ball.radius, ball.box, ball.fixed)), "steps": ATTACK_STEPS, "step": 0.4}


def _standard(data: Data, epochs: int, free: bool) -> tuple[str, dict[str, Any]]:
    """The standard network with its own settings: as small as its true radii can be computed, where that is enough."""
    images = data.train.is_image
    if prod(data.shape) > SMALL_INPUT or len(data.train) > INPUTS_SHOWN:
        return ("lenet5", {"model": {"widen": 0.25}}) if images else ("mlp", {})
    rate = {"optimizer": {"lr": 0.3}} if images else {}  # features of any kind learn at the usual rate
    return "mlp", {"model": SMALL_NETWORK, "epochs": 2 * epochs if free else epochs, **rate}
