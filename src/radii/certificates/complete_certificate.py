"""Certificates by complete verification: each radius is decided by branch and bound, within limits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from radii import progress
from radii.bounds.provably_robust import ASSUMPTIONS
from radii.certificates._model_comparison import about
from radii.certificates.certificate import Certificate
from radii.certificates.methods import REGION, ROOT, Request
from radii.errors import InputError
from radii.models.heads import assumed, freeze
from radii.networks.model_state import ModelState
from radii.threat import Ball
from radii.verification.answer import Limits
from radii.verification.true_radius import decide, prepared


def certify_request(request: Request) -> Certificate:
    """The largest radius of ``request`` at which each prediction is proved; the first that is not proved ends an input.

    The limit of each input and radius is a time or, for ``auto``, the regions that the passes left to it allow.
    """
    x, ball = request.x, request.ball
    if not request.radii or min(request.radii) <= 0:
        raise InputError(f"Radii to certify must be positive numbers, got {list(request.radii)} instead.")
    deployed, prediction, classes = prepared(request.model, x, ball.box)
    radius = torch.zeros(len(x), dtype=torch.float64) if request.proved is None else request.proved.clone()
    with progress.task("proving completely", len(x), "points") as bar:
        for i, label in enumerate(prediction.tolist()):
            for level in sorted({level for level in request.radii if level > float(radius[i])}) if label >= 0 else ():
                limits = _limits(request, i, classes)
                point = x[i : i + 1].float()
                if decide(deployed, point, label, classes, ball.with_radius(level), limits).verdict != "unsat":
                    break
                radius[i] = level
            bar.advance()
    return certificate_of(request.model, x, prediction, radius, ball)


def _limits(request: Request, point: int, classes: int) -> Limits:
    if request.passes is None:
        return Limits.of_seconds(request.seconds)
    return Limits(nodes=(int(request.passes[point]) - ROOT * (classes - 1)) // REGION)


def certificate_of(model: nn.Module, x: Tensor, prediction: Tensor, radius: Tensor, ball: Ball) -> Certificate:
    """``radius`` [n] in the norm and scale of ``ball``, proved for ``prediction`` [n] at ``x`` of ``model``."""
    certificate = Certificate(
        prediction=prediction,
        radius=radius,
        norm=ball.norm,
        kind="deterministic",
        method="complete",
        assumptions=(*ASSUMPTIONS, *assumed(model)),
        scale=ball.scale,
        state=ModelState.of(model),
    )
    return about(certificate, freeze(model, tuple(x.shape[1:])), model, x)
