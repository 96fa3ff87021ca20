"""Attacks by name, with the settings that results are compared at, or by import path."""

from __future__ import annotations

from numpy.typing import ArrayLike
from torch import Tensor

from radii.attacks import ATTACKS
from radii.attacks.attack import Attack, AttackResult
from radii.change import Change, given_threat
from radii.errors import InputError, checked
from radii.models.adapter import ModelLike, Outputs, prepare
from radii.randomness import stream
from radii.sparse_threat import Sparse, attack_threat_of
from radii.threat import Ball


def attack_by_name(name: str) -> Attack:
    """The attack called ``name``.

    Args:
        name: a known name, one of an entry point in the group ``radii.attacks``, or an import path
            ``package.module:attribute`` of an attack or of a class whose instances without arguments are attacks.
    """
    entry = ATTACKS.entry(name)
    attack: Attack = entry() if isinstance(entry, type) else entry
    if not callable(attack):
        raise InputError(f"The attack {name!r} must be callable with (model, x, y, ball, generator), got {attack!r}.")
    return attack


@checked
def attack(
    model: ModelLike,
    x: ArrayLike | Tensor,
    y: ArrayLike | Tensor | str | None = None,
    threat: Ball | Change | Sparse | str | None = None,
    *,
    name: str | None = None,
    seed: int = 0,
    outputs: Outputs = "auto",
    nhwc: bool = False,
) -> AttackResult:
    """Run one attack by name. The unbroken share is an upper bound of robust accuracy and may be far from it.

    To report robust accuracy, use :func:`radii.evaluation.evaluate.evaluate`.

    Args:
        model: a network from inputs to logits, or anything that :func:`radii.models.adapter.adapt` takes.
        x: inputs [n, …]; never changed.
        y: labels [n]; None if ``x`` has them, as in :func:`radii.evaluate`.
        threat: must be given: norm, radius and box of the perturbations, or their text (``linf:8/255``); or a change
            of images, as ``brightness:0.2``; or a number of features or pixels, as ``l0:5``.
        name: name of the attack, or its import path; default ``apgd-ce``, ``grid`` for changes of images, and
            ``sparse`` for a number of features.
        seed: seed of its random numbers; default 0.
        outputs: what the model returns: ``auto`` (default), ``logits`` or ``probabilities``.
        nhwc: whether images have their channels last; default False.

    Returns:
        Adversarial inputs, which of them break the model, and the passes that each point took.

    Raises:
        InputError: an unknown attack, inputs outside the box, or a model without gradients.
    """
    given: Ball | Change | Sparse | str = given_threat("attack", threat)
    wanted = attack_threat_of(given)
    own = prepare(model, x, y, outputs=outputs, nhwc=nhwc)
    ball = wanted if isinstance(wanted, Change) else own.within(wanted)
    name = checked_name(name, ball)
    return attack_by_name(name)(own.model, own.x, own.y, ball, stream(seed, "attack", name))  # type: ignore[arg-type]


def checked_name(name: str | None, threat: Ball | Change | Sparse) -> str:
    """The name of an attack for ``threat``: the default, or ``name``, which must fit what is no ball."""
    if isinstance(threat, Ball):
        return name or "apgd-ce"
    what, own = ("Changes of images", "grid") if isinstance(threat, Change) else ("Sparse changes", "sparse")
    if name not in (None, own):
        raise InputError(f"{what} are attacked by {own!r}, got {name!r} for {threat}: leave the attack out.")
    return own
