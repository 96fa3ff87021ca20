"""Exact certificates of linear models: the distance to the nearest half-space of another class.

Class y holds while z_y(x') - z_c(x') exceeds 0 for all c. Each is affine, so the least move that ends it is a
closed form in L1, L2 and Linf, with limits and scales of features (:mod:`radii.models.linear.halfspace`) and swaps of
categories (:mod:`radii.models.linear.category_swaps`). The model
computes z up to rounding, which is taken off before: the radius is smaller than the true one by this share alone.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from radii.certificates.certificate import Certificate
from radii.certificates.methods import Request
from radii.errors import InputError
from radii.models.classifier import check_inputs, predict
from radii.models.feature_reach import Floats, Reach
from radii.models.heads import assumed
from radii.models.linear.affine_scores import LARGEST32, TINY32, UNIT64, AffineScores, growth
from radii.models.linear.category_swaps import SwapSets, least_lengths
from radii.models.linear.halfspace import lengths
from radii.models.linear.read import affine_scores
from radii.networks.model_state import ModelState

NUMBERS = 2_000_000  # of one array
ASSUMPTIONS = ("a linear model: sums in float32 or float64, in any order; their rounding is taken off",)


def certify_request(request: Request) -> Certificate:
    """The exact radii of the linear model of ``request``; any other model is refused."""
    model, x, ball = request.model, request.x, request.ball
    scores = affine_scores(model, tuple(x.shape[1:]), ball)
    if scores.weight.shape[1] != x[0].numel():
        raise InputError(f"The model reads {scores.weight.shape[1]} features, and the inputs have {x[0].numel()}.")
    check_inputs(x, ball.box)
    prediction = predict(model, x).cpu()
    radius = proved_radii(scores, Reach.of(ball, x), prediction.numpy())
    return Certificate(
        prediction=prediction,
        radius=torch.from_numpy(radius),
        norm=ball.norm,
        kind="deterministic",
        method="linear",
        assumptions=(*ASSUMPTIONS, *assumed(model)),
        scale=ball.scale,
        state=ModelState.of(model),
    )


def proved_radii(scores: AffineScores, reach: Reach, prediction: NDArray[np.int64]) -> Floats:
    """The radius within which each class of ``prediction`` [n] holds: [n]; that of all rows where nothing ends it."""
    radius = np.zeros(len(prediction))
    for label in np.unique(prediction[prediction >= 0]):
        conditions = scores.conditions(int(label))
        rows = np.flatnonzero(prediction == label)
        size = max(1, NUMBERS // conditions.weight.size)
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            radius[some] = _until_the_first(conditions, reach.rows(some))
    return radius


def _until_the_first(conditions: AffineScores, reach: Reach) -> Floats:
    """The distance at which the first condition may end, for each row of ``reach``: [n]."""
    size = np.where(np.isfinite(reach.largest), reach.largest, np.abs(reach.center))
    off = conditions.rounding * (size @ conditions.size.T + conditions.bias_size) + TINY32
    need = reach.center @ conditions.weight.T + conditions.bias - conditions.slack - off
    unlimited = ~np.isfinite(reach.largest)[:, None, :]
    steep, more = np.abs(conditions.weight), conditions.rounding * conditions.size * unlimited
    gain = steep + more  # a larger number is rounded by more
    down = (reach.center - reach.low)[:, None, :]
    room = np.where(conditions.weight > 0, down, (reach.high - reach.center)[:, None, :])
    room = np.where(more > steep, np.inf, room) / reach.scale  # there rounding alone may gain by the other direction
    room[:, :, reach.grouped] = 0.0
    flat, sets = (-1, reach.center.shape[1]), SwapSets.of(reach, conditions.weight)
    scaled = (gain * reach.scale).reshape(flat)
    units = np.broadcast_to(reach.units[:, None, :], room.shape).reshape(flat)
    distance, _, _ = least_lengths(sets, scaled, room.reshape(flat), need.reshape(-1), reach.norm, units)
    distance = distance.reshape(need.shape).min(1)
    end = np.minimum(_farthest(reach), _until_overflow(conditions, reach))
    distance = np.minimum(distance, end) * (1 - growth(8 * flat[1] + 32, UNIT64))
    return np.where((need > 0).all(1), distance, 0.0)


def _farthest(reach: Reach) -> Floats:
    """The distance of the farthest allowed row: no move is longer."""
    return lengths(np.maximum(reach.center - reach.low, reach.high - reach.center) / reach.scale, reach.norm)


def _until_overflow(conditions: AffineScores, reach: Reach) -> Floats:
    """The distance within which no sum exceeds what float32 holds."""
    start = (np.abs(reach.center) @ conditions.size.T + conditions.bias_size).max(1)
    steep = (conditions.size * reach.scale).sum(1).max()
    if conditions.peak is not None:
        start = np.maximum(start, np.abs(reach.center) @ conditions.peak + conditions.peak_bias)
        steep = max(steep, (conditions.peak * reach.scale).sum())
    return np.maximum(LARGEST32 - start, 0.0) / max(steep, 1.0)
