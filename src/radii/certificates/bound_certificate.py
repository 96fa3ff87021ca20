"""Certificates by bounds of the margins: the largest of stated radii at which each prediction is proved."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from radii import progress
from radii.bounds.provably_robust import ASSUMPTIONS, Bounded
from radii.certificates._model_comparison import about
from radii.certificates.certificate import Certificate
from radii.certificates.methods import METHODS, Request, check_bound_method, check_norm
from radii.errors import InputError
from radii.models.classifier import check_inputs
from radii.models.heads import assumed
from radii.networks.model_state import ModelState
from radii.threat import Ball, Norm

EXACT = ("exact arithmetic: the rounding of float32 is not covered",)


def certify_request(request: Request) -> Certificate:
    """:func:`certify` for a ``request`` of the table of methods."""
    ball, rounding = request.ball, request.arithmetic == "float32"
    return certify(request.model, request.x, request.radii, ball.norm, request.method, rounding=rounding, like=ball)


def certify(
    model: nn.Module,
    x: Tensor,
    radii: Sequence[float],
    norm: Norm = "linf",
    method: str = "crown",
    *,
    rounding: bool = True,
    box: tuple[float, float] | None = (0.0, 1.0),
    like: Ball | None = None,
) -> Certificate:
    """The largest of ``radii`` at which each prediction is proved, by bisection (a proof covers smaller radii).

    Guarantee: deterministic, for perturbations that stay in ``box``.

    Args:
        model: a network from inputs to logits; a layer that cannot be bounded is refused by name.
        x: inputs [n, …] in ``box``; never changed.
        norm: norm of the radii; default ``linf``.
        method: a method of bounds; default ``crown``.
        rounding: True (default) covers the network as float32 computes it; False the real-valued network.
        box: the least and the greatest value of an input; default (0, 1), None: no limit.
        like: a ball whose scale, fixed features and limits hold, in place of ``norm`` and ``box``.
    """
    like = like or Ball(norm, 0.0, box)
    norm, box = like.norm, like.box
    check_inputs(x, box)
    if not radii or min(radii) <= 0:
        raise InputError(f"Radii to certify must be positive numbers, got {list(radii)} instead.")
    check_norm(check_bound_method(method), norm)
    rising = sorted(set(radii))
    bounded = Bounded(model, tuple(x.shape[1:]), rounding)
    prediction, attempts = bounded.predict(x), METHODS[method].attempts
    # The first proved[i] radii are proved for input i; those up to still[i] may be. Bisection until both are equal.
    proved = torch.zeros(len(x), dtype=torch.int64)
    still = torch.where(prediction.cpu() >= 0, len(rising), 0)
    with progress.task(f"proving by {method}", len(rising), "radii") as bar:
        while bool((proved < still).any()):
            middle = (proved + still + 1) // 2
            for number in middle[proved < still].unique().tolist():
                rows = torch.nonzero((proved < still) & (middle == number))[:, 0]
                holds = bounded.proves(x[rows], prediction[rows], like.with_radius(rising[number - 1]), attempts).cpu()
                proved[rows[holds]] = number
                still[rows[~holds]] = number - 1
            bar.advance()
    certificate = Certificate(
        prediction=prediction,
        radius=torch.tensor([0.0, *rising], dtype=torch.float64)[proved],
        norm=norm,
        kind="deterministic",
        method=method,
        assumptions=(*ASSUMPTIONS, *assumed(model)) if rounding else EXACT,
        arithmetic="float32" if rounding else "exact",
        scale=like.scale,
        state=ModelState.of(model),
        exact_logits=None if rounding else bounded.logits,
    )
    return about(certificate, bounded.network, model, x) if rounding else certificate
