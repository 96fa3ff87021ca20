"""The smallest move into a half-space, with limits and a scale for each feature: closed forms for L1, L2 and Linf.

A move e (in units of the scale) gains sum g_i e_i, 0 <= e_i <= room_i. The least one with a gain of ``need`` is

* Linf, L2: e_i = min(room_i, lambda h_i), h = 1 or h = g, with the lambda at which the gain is reached. It grows
  piecewise linearly, with a corner where a feature reaches its limit;
* L1: the features with the largest g first, each up to its limit.
"""

from __future__ import annotations

import numpy as np

from radii.models.feature_reach import Floats
from radii.threat import Norm


def least_moves(gain: Floats, room: Floats, need: Floats, norm: Norm) -> Floats:
    """The least moves e [m, d] with ``gain`` [m, d] · e >= ``need`` [m] and 0 <= e <= ``room`` [m, d].

    Infinite where even the whole room does not gain it, and 0 where nothing is needed.
    """
    room = np.where(gain > 0, room, 0.0)
    moves = _greedy(gain, room, need) if norm == "l1" else _proportional(gain, room, need, norm)
    moves[need <= 0] = 0.0
    return moves


def lengths(moves: Floats, norm: Norm) -> Floats:
    """The ``norm`` of each row of ``moves`` [m, d]."""
    sizes = np.abs(moves)
    if norm == "linf":
        return sizes.max(1, initial=0.0)
    return sizes.sum(1) if norm == "l1" else np.sqrt((sizes**2).sum(1))


def _proportional(gain: Floats, room: Floats, need: Floats, norm: Norm) -> Floats:
    """min(room, lambda h) with the least lambda that gains ``need``."""
    h = np.where(gain > 0, 1.0, 0.0) if norm == "linf" else gain
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        corner = np.where(h > 0, room / h, 0.0)  # the lambda at which a feature reaches its limit
        order = np.argsort(corner, axis=1)
        corner = np.take_along_axis(corner, order, 1)
        slope = np.take_along_axis(gain * h, order, 1)
        full = np.cumsum(np.take_along_axis(np.where(np.isfinite(room), gain * room, 0.0), order, 1), axis=1)
        before = np.concatenate([np.zeros((len(gain), 1)), full[:, :-1]], axis=1)
        left = np.cumsum(slope[:, ::-1], axis=1)[:, ::-1]  # of the features that have not reached their limit
        reached = before + left * corner >= need[:, None]
        reached |= ~np.isfinite(corner) & (left > 0)
        place = np.argmax(reached, axis=1)[:, None]
        step = (need[:, None] - np.take_along_axis(before, place, 1)) / np.take_along_axis(left, place, 1)
        moves = np.minimum(room, np.maximum(step, 0.0) * h)
    moves[~reached.any(1)] = np.inf
    return moves


def _greedy(gain: Floats, room: Floats, need: Floats) -> Floats:
    """The features with the largest gain up to their limits, until ``need`` is reached."""
    order = np.argsort(-gain, axis=1, kind="stable")
    g, limit = np.take_along_axis(gain, order, 1), np.take_along_axis(room, order, 1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        each = np.where(g > 0, g * limit, 0.0)
        before = np.concatenate([np.zeros((len(g), 1)), np.cumsum(each, axis=1)[:, :-1]], axis=1)
        wanted = np.where(g > 0, (need[:, None] - before) / g, 0.0)
        ordered = np.minimum(limit, np.maximum(np.nan_to_num(wanted, nan=0.0, neginf=0.0, posinf=np.inf), 0.0))
    moves = np.empty_like(gain)
    np.put_along_axis(moves, order, ordered, 1)
    moves[~(each.sum(1) >= need)] = np.inf
    return moves
