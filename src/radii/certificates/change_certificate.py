"""Certificates about changes of images: the strength up to which each prediction is proved."""

from __future__ import annotations

from torch import nn

from radii.bounds.provably_robust import ASSUMPTIONS
from radii.certificates.certificate import Certificate
from radii.change import Change
from radii.models.heads import assumed
from radii.networks.model_state import ModelState
from radii.verification.change_radius import ChangeBracket

NAME = "pieces"


def of_bracket(model: nn.Module, change: Change, bracket: ChangeBracket) -> Certificate:
    """The lower ends of ``bracket`` as a certificate of ``model`` as it is now, in strengths of ``change``."""
    measured = bool(bracket.measured.any())
    return Certificate(
        prediction=bracket.prediction,
        radius=bracket.proved,
        norm="change",
        kind="deterministic",
        method=NAME,
        assumptions=(
            f"radii are strengths of {change.words}: the image is clipped to [0, 1] and rounded to float32",
            *ASSUMPTIONS[:1],
            *(() if measured else ASSUMPTIONS[1:]),
            *((bracket.note,) if measured else ()),
            *assumed(model),
        ),
        arithmetic="exact" if measured else "float32",
        state=ModelState.of(model),
    )
