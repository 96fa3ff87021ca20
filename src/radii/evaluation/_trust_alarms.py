"""Trust alarms: signs that an attack failed for reasons other than robustness.

After Carlini et al. 2019 ("On evaluating adversarial robustness"), Tramèr et al.
2020, Pintor et al. 2021 ("Indicators of attack failure") and AutoAttack's flags.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from math import sqrt

import torch
from torch import Tensor, nn

from radii import progress
from radii.attacks.apgd import APGD
from radii.attacks.attack import Attack
from radii.attacks.caveats import Alarm
from radii.attacks.losses import cross_entropy
from radii.attacks.pgd import PGD, ascend
from radii.attacks.point_randomness import point_seeds, start_inside
from radii.evaluation.accuracy import accuracy
from radii.models.adapter import BlackBox
from radii.models.classifier import input_gradient, predict
from radii.networks.calling import ask, frozen
from radii.randomness import stream
from radii.threat import Ball, length

REPEATS = 5
STEPS = 20
LEAST_POINTS = 20  # with fewer, nothing is said about accuracy at chance
BLACK_BOX = ("square", "transfer", "noise", "blur")
TOLERATED = 0.002  # the share of points a black-box attack may break alone, AutoAttack's limit


def model_alarms(model: nn.Module, x: Tensor, y: Tensor, ball: Ball, seed: int = 0, sample: int = 64) -> list[Alarm]:
    """Alarms about the model and its inputs; each says that a robust accuracy may be too high.

    Args:
        x: inputs [n, …].
        y: labels [n].
        seed: seed of the short attacks; default 0.
        sample: so many points that the model classifies correctly are used; default 64.
    """
    alarms = [*train_mode(model), *_outside_unit_box(x, ball)]
    alarms += randomized(model, x[:sample])
    if alarms and alarms[-1].name == "randomized":
        return alarms  # what follows would only measure the noise
    alarms += at_chance(x, y, predict(model, x), model)
    right = torch.nonzero(predict(model, x) == y).squeeze(1)[:sample]
    if not len(right):
        return alarms
    x, y = x[right].float(), y[right]
    alarms += _probabilities(model, x)
    if differentiable(model, x[:1]):
        alarms += gradients(model, x, y, ball, seed)
        alarms += _bigger_radius(model, x, y, ball, seed)
        alarms += _unbounded(model, x, y, ball, seed)
    return alarms


def result_alarms(broken_by: Mapping[str, int], total: int) -> list[Alarm]:
    """Alarms from the result of a suite: a black-box attack should break nothing that gradient attacks did not."""
    if not any(name not in BLACK_BOX for name in broken_by):
        return []
    alarms = []
    for name, count in broken_by.items():
        if name in BLACK_BOX and count > max(TOLERATED * total, 1):  # one point may be chance
            kind = "transfer beats white-box" if name == "transfer" else "black-box beats white-box"
            alarms.append(
                Alarm(
                    kind,
                    f"{name} broke {count} of {total} points that no gradient attack broke: the model's "
                    "gradients mislead. Read the result as optimistic and attack with an adapted method.",
                )
            )
    return alarms


def train_mode(model: nn.Module) -> Iterator[Alarm]:
    """Only modules that compute something else in train mode are a reason to doubt."""
    training = [name or "the model" for name, module in model.named_modules() if module.training and _has_modes(module)]
    if training:
        yield Alarm(
            "train mode",
            f"The model came in train mode ({training[0]} and {len(training) - 1} more layers that compute something "
            "else in it); it is evaluated in eval mode. Call model.eval() so that you measure the same model.",
        )


def _has_modes(module: nn.Module) -> bool:
    """Whether a module, without its children, asks for its mode: torch's dropouts and norms do, own code may."""
    if isinstance(module, nn.modules.batchnorm._NormBase | nn.modules.dropout._DropoutNd | nn.RReLU):
        return True
    owner = next(base for base in type(module).__mro__ if "forward" in vars(base))
    code = getattr(vars(owner)["forward"], "__code__", None)
    return not owner.__module__.startswith("torch.") and code is not None and "training" in code.co_names


@torch.no_grad()
def at_chance(x: Tensor, y: Tensor, prediction: Tensor, model: nn.Module) -> Iterator[Alarm]:
    """Accuracy that guessing would reach: most often a network that expects other inputs or another order of classes.

    Always naming the largest class is right with its share; accuracy within two standard deviations of that is
    at chance. Small samples are silent.

    Args:
        x: inputs [n, …].
        y: labels [n].
        prediction: the model's classes [n].
    """
    guess, share = float(torch.bincount(y).max() / len(y)), float((prediction == y).float().mean())
    if len(y) < LEAST_POINTS or guess == 1 or share > guess + 2 * sqrt(guess * (1 - guess) / len(y)):
        return
    from radii.evaluation._likely_cause import likely_cause  # seldom needed

    scaled = "scaled features (then put the scaler and the model into one Pipeline or function)"
    normalized = "normalized inputs (--mean and --std, radii.Classifier)"
    question = (
        f"Does the model expect {scaled if x.dim() == 2 else normalized}, and are its classes in the order of the "
        "data's?"
    )
    yield Alarm(
        "accuracy at chance",
        f"{share:.1%} of the clean points are right, no more than by guessing. {likely_cause(model, x, y) or question}",
    )


def say_clean_accuracy(model: nn.Module, x: Tensor, y: Tensor, prediction: Tensor) -> None:
    """Say before any attack how many clean points are right, and that it is chance if it is.

    Args:
        x: inputs [n, …].
        y: labels [n].
        prediction: the model's classes [n].
    """
    progress.say(f"Clean accuracy {accuracy((prediction == y).tolist())} of {len(y):,} points.")
    for alarm in at_chance(x, y, prediction, model):
        if not progress.say(f"Alarm, {alarm.name}: {alarm.message}"):
            logging.getLogger("radii").warning("%s", alarm.message)


def _outside_unit_box(x: Tensor, ball: Ball) -> Iterator[Alarm]:
    low, high = float(x.min()), float(x.max())
    if x.dim() == 4 and ball.box is None and not (low >= 0 and high <= 1):
        yield Alarm(
            "inputs outside [0, 1]",
            f"Images lie in [{low:.3g}, {high:.3g}] and the threat model has no box: they look normalized, and then "
            "a radius does not mean pixels. Put normalization inside the model: radii.Classifier(net, mean=…, std=…).",
        )


@torch.no_grad()
def randomized(model: nn.Module, x: Tensor) -> Iterator[Alarm]:
    """Answers that differ from pass to pass."""
    with frozen(model):
        answers = torch.stack([ask(model, x) for _ in range(REPEATS)])
    scale = answers[0].abs().amax().clamp_min(1e-12)
    spread = float((answers - answers[0]).abs().amax() / scale)
    if not spread <= 1e-4:
        yield Alarm(
            "randomized",
            f"{REPEATS} passes over the same inputs in eval mode differ by {spread:.2g} of the largest logit. "
            "An attack must average over the randomness, and one success is no proof; fix the seed inside the model.",
        )


@torch.no_grad()
def _probabilities(model: nn.Module, x: Tensor) -> Iterator[Alarm]:
    if isinstance(model, BlackBox):  # no gradients vanish, and a class that is only named has no other scores
        return
    with frozen(model):
        outputs = ask(model, x)
    if bool((outputs >= 0).all()) and torch.allclose(outputs.sum(1), outputs.new_ones(()), atol=1e-4):
        yield Alarm(
            "probabilities",
            "The model returns probabilities, not logits: softmax saturates and its gradients vanish in float32. "
            "Return the values before softmax.",
        )


def differentiable(model: nn.Module, x: Tensor) -> bool:
    """Whether the model's answers have a gradient."""
    with frozen(model), torch.enable_grad():
        return ask(model, x.detach().clone().requires_grad_()).requires_grad


def _ascent(model: nn.Module, x: Tensor, y: Tensor, ball: Ball, seed: int) -> tuple[Tensor, Tensor]:
    """Losses [steps + 1, m] and gradient norms [steps, m] along a PGD run without early exit."""
    losses, norms = [], []
    seeds = point_seeds(x, y, stream(seed, "alarms"))
    point = start_inside(x, ball, seeds)
    with frozen(model):
        for _ in range(STEPS):
            with torch.enable_grad():
                point = point.detach().requires_grad_()
                loss = cross_entropy(ask(model, point), y)
                gradient = input_gradient(loss.sum(), point)
            losses.append(loss.detach())
            norms.append(length(gradient, "l2"))
            point = ascend(point.detach(), gradient.nan_to_num(0.0, 0.0, 0.0), x, ball, 0.1 * ball.radius)
        with torch.no_grad():
            losses.append(cross_entropy(ask(model, point), y))
    return torch.stack(losses), torch.stack(norms)


def gradients(model: nn.Module, x: Tensor, y: Tensor, ball: Ball, seed: int) -> Iterator[Alarm]:
    """Zero or exploding gradients, and a loss that does not rise along its own gradient."""
    losses, norms = _ascent(model, x, y, ball, seed)
    zero = float((norms.amax(0) == 0).float().mean())
    if zero > 0.05:
        yield Alarm(
            "zero gradients",
            f"At {zero:.0%} of the points the gradient of the loss is exactly 0 at every one of {STEPS} steps: "
            "gradient attacks see nothing there. Saturated outputs, rounding or a detached path are usual causes.",
        )
    exploding = float((~norms.isfinite() | (norms > 1e6)).any(0).float().mean())
    if exploding > 0.05:
        yield Alarm(
            "exploding gradients",
            f"At {exploding:.0%} of the points the gradient of the loss is not finite or above 1e6.",
        )
    flat = float((~(losses[-1] > losses[0] + 1e-6 * losses[0].abs())).float().mean())
    if flat > 0.25:
        yield Alarm(
            "loss does not rise",
            f"At {flat:.0%} of the points {STEPS} steps along the gradient do not raise the loss: "
            "the gradient is not that of the function the model computes.",
        )


def _unbroken(attack: Attack, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, seed: int) -> int:
    return int((~attack(model, x, y, ball, stream(seed, "alarms", "attack")).broken).sum())


def _bigger_radius(model: nn.Module, x: Tensor, y: Tensor, ball: Ball, seed: int) -> Iterator[Alarm]:
    """More room can only help an attack that works."""
    if ball.radius == 0:
        return
    attack = PGD(steps=STEPS, step=0.1)
    near = _unbroken(attack, model, x, y, ball, seed)
    far = _unbroken(attack, model, x, y, ball.with_radius(2 * ball.radius), seed)
    if far > near + max(1, 0.02 * len(x)):
        yield Alarm(
            "bigger radius is weaker",
            f"PGD leaves {near} of {len(x)} points unbroken at radius {ball.radius:.3g} and {far} at twice the radius, "
            "which contains the former: the model's gradients mislead the attack.",
        )


def _unbounded(model: nn.Module, x: Tensor, y: Tensor, ball: Ball, seed: int) -> Iterator[Alarm]:
    """Within Linf radius 1.0 every image can become any other, so nothing may survive."""
    if not ball.limits.all_allowed:
        return
    low, high = ball.box or (float(x.min()), float(x.max()))
    everything = ball.changed(norm="linf", radius=(high - low) / min(ball.scale or (1.0,)))
    left = torch.ones_like(y, dtype=torch.bool)
    for loss in ("ce", "dlr"):
        result = APGD(loss, steps=50)(model, x[left], y[left], everything, stream(seed, "alarms", loss))  # type: ignore[arg-type]
        left[left.clone()] = ~result.broken
        if not bool(left.any()):
            return
    if not bool((predict(model, x.flip(0)) == y).all()):  # else the model has one class on these points
        yield Alarm(
            "unbounded attack fails",
            f"{int(left.sum())} of {len(x)} points survive gradient attacks of Linf radius {high - low:g}, within "
            "which any input can become any other: the attack fails for reasons other than robustness.",
        )
