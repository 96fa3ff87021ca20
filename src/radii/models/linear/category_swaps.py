"""Swaps of categories in front of an affine function: which of them, and the least move that gains the rest.

A group of features with one 1 is a discrete choice. A swap of its 1 from i to j gains w_i - w_j and counts one length,
whatever j, so the best j is that of the least w_j. The groups that swap are chosen from those sets of swaps that no
other set beats in both length and gain. What is still needed then is the closed form of
:mod:`radii.models.linear.halfspace`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError
from radii.models.feature_reach import Floats, Reach
from radii.models.linear.halfspace import least_moves, lengths
from radii.threat import Norm

STEPS = 100  # of whole numbers that are followed; beyond, they are taken for any numbers
MOST = 4096  # sets of swaps that are kept: groups of one scale need one more than there are groups


@dataclass(frozen=True)
class SwapSets:
    """The sets of swaps for each row and each affine function.

    Attributes:
        pair: which pair of row and function a set belongs to [m]; all pairs have the empty set.
        length: what the set counts [m].
        gain: what it gains [m].
        chosen: its groups [m, groups].
    """

    pair: NDArray[np.int64]
    length: Floats
    gain: Floats
    chosen: NDArray[np.bool_]

    @classmethod
    def of(cls, reach: Reach, weight: Floats) -> SwapSets:
        """Of the rows of ``reach`` and functions ``weight`` [c, d]: pairs are numbered row by row."""
        count = len(reach.center) * len(weight)
        if not reach.groups:
            nothing = np.zeros(count)
            return cls(np.arange(count), nothing, nothing, np.zeros((count, 0), bool))
        gains = np.stack([_gains(reach, weight, number) for number in range(len(reach.groups))], 2).reshape(count, -1)
        sets = [_front(own, reach.swap_length, reach.norm) for own in gains]
        pair = np.repeat(np.arange(count), [len(own) for own in sets])
        chosen = np.concatenate(sets)
        return cls(pair, lengths(chosen * reach.swap_length, reach.norm), (chosen * gains[pair]).sum(1), chosen)


def least_lengths(
    sets: SwapSets, gain: Floats, room: Floats, need: Floats, norm: Norm, unit: Floats
) -> tuple[Floats, NDArray[np.int64], Floats]:
    """For each pair the least length of swaps and moves that gain ``need`` [pairs], the set of swaps, and the moves.

    In Linf, moves of whole numbers are whole: within a radius each feature moves by as many units as fit, so the radius
    grows from one such step to the next until what fits gains enough. In L1 and L2 they are taken for any numbers.

    Args:
        gain: of moves, which leave the features of groups alone [pairs, d].
        room: the largest moves [pairs, d].
        unit: the length of a move by 1 of whole numbers [pairs, d]; 0 for others.
    """
    if norm != "linf" or not (unit > 0).any():
        return _least(sets, gain, room, need, norm)
    whole = (unit > 0) & (gain > 0)
    reached, open_ = np.zeros(len(need)), np.ones(len(need), bool)
    length, best, moves = _least(sets, gain, room, need, norm)
    for _ in range(STEPS):
        with np.errstate(divide="ignore", invalid="ignore"):
            fitting = np.where(whole, np.floor(reached[:, None] / unit + 1e-9), np.inf) * np.where(whole, unit, 1.0)
        later = np.where(whole & (fitting < room), fitting + unit, np.inf).min(1)
        own, which, how = _least(sets, gain, np.minimum(room, fitting), need, norm)
        own = np.maximum(own, reached)
        how = np.where(whole, np.minimum(np.minimum(room, fitting), own[:, None]), how)
        done = open_ & (own < later)
        length[done], best[done], moves[done] = own[done], which[done], how[done]
        open_ &= ~done
        if not open_.any():
            break
        reached[open_] = np.minimum(later, own)[open_]
    length[open_] = np.maximum(reached, length)[open_]
    return length, best, moves


def _least(
    sets: SwapSets, gain: Floats, room: Floats, need: Floats, norm: Norm
) -> tuple[Floats, NDArray[np.int64], Floats]:
    """:func:`least_lengths` where every feature is any number."""
    moves = least_moves(gain[sets.pair], room[sets.pair], need[sets.pair] - sets.gain, norm)
    total = lengths(np.stack([sets.length, lengths(moves, norm)], 1), norm)
    order = np.lexsort((total, sets.pair))
    best = order[np.searchsorted(sets.pair[order], np.arange(len(need)))]
    return total[best], best, moves[best]


def swapped_to(reach: Reach, weight: Floats, number: int) -> int:
    """Of the group ``number``, the feature to which a swap lowers the function ``weight`` [d] most."""
    group = reach.groups[number]
    return group[int(np.argmin(weight[list(group)]))]


def _gains(reach: Reach, weight: Floats, number: int) -> Floats:
    """What the best swap of a group gains, for each row and function [n, c]; 0 where it may not swap."""
    group = list(reach.groups[number])
    gain = reach.center[:, group] @ weight[:, group].T - weight[:, group].min(1)
    return np.where(reach.swaps[:, number, None], gain, 0.0)


def _front(gains: Floats, length: Floats, norm: Norm) -> NDArray[np.bool_]:
    """The sets of groups [m, groups] that no other set beats in both its length and its gain."""
    chosen, total, gained = np.zeros((1, len(gains)), bool), np.zeros(1), np.zeros(1)
    for group in np.flatnonzero(gains > 0):
        more = chosen.copy()
        more[:, group] = True
        chosen = np.concatenate([chosen, more])
        total, gained = lengths(chosen * length, norm), (chosen * gains).sum(1)
        order = np.lexsort((-gained, total))
        better = np.maximum.accumulate(np.concatenate([[-np.inf], gained[order][:-1]]))
        kept = order[gained[order] > better]
        if len(kept) > MOST:
            raise InputError(f"The categories of {len(gains)} groups with unlike scales have too many combinations.")
        chosen, total, gained = chosen[kept], total[kept], gained[kept]
    return chosen
