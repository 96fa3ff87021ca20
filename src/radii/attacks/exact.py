"""The nearest input of another class, for models whose classes are known as sets; each is confirmed by the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from radii.attacks.attack import AttackResult
from radii.attacks.minimum_norm import BrokenRadii
from radii.errors import InputError
from radii.models.adapter import BlackBox
from radii.models.classifier import check_inputs, predict
from radii.models.estimators import check_words
from radii.models.feature_reach import Floats, Reach
from radii.models.linear.affine_scores import TINY32, AffineScores
from radii.models.linear.category_swaps import SwapSets, least_lengths, swapped_to
from radii.models.linear.halfspace import lengths
from radii.models.linear.read import affine_scores
from radii.threat import Ball, Norm, per_row

if TYPE_CHECKING:
    from radii.models.trees.search import TreeSearch

# The share of the rounding's bound, and of the step, that is added until the model errs.
TRIES = ((0.0, 1e-7), (1e-3, 1e-7), (0.03, 1e-7), (1.0, 1e-7), (1.0, 1e-6), (1.0, 1e-5), (1.0, 1e-4), (1.0, 1e-3))


@dataclass(frozen=True)
class Exact:
    """The nearest input of another class: of linear models by a closed form, of tree ensembles by a search.

    It is as far as the certificates ``linear`` and ``trees`` say, up to rounding and, for trees, to the work that a
    search may cost. Other models are refused.
    """

    batch_size: int = 256

    def radii(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball) -> BrokenRadii:
        """The distance and place of the nearest other class of every row, however far; see :class:`BrokenRadii`."""
        check_inputs(x, ball.box)
        try:
            scores = affine_scores(model, tuple(x.shape[1:]), ball)
        except InputError as refusal:
            if not isinstance(model, BlackBox):
                raise InputError(f"No exact attack fits this model. {refusal}") from None
            from radii.models.trees.read import tree_search  # loads numba

            check_words(model.estimator, ball)
            return _of_trees(tree_search(model, tuple(x.shape[1:])), x, y, ball)
        return self._linear(scores, model, x, y, ball)

    def _linear(self, scores: AffineScores, model: nn.Module, x: Tensor, y: Tensor, ball: Ball) -> BrokenRadii:
        """Along the closed form, a little farther at each try until the model itself errs."""
        center, asked = x.detach().float(), torch.zeros_like(y)
        wrong = predict(model, center, self.batch_size) != y
        radius = torch.where(wrong, 0.0, torch.inf).double()
        nearest = center.clone()
        reach, labels = Reach.of(ball, center), y.cpu().numpy()
        for share, beyond in TRIES:
            left = torch.nonzero(radius.isinf().cpu())[:, 0]
            steps = _least_steps(scores, reach.rows(left.numpy()), labels[left.numpy()], share)
            left, steps = left[(known := steps.isfinite().all(1))], steps[known]
            if not len(left):
                break
            there = center.cpu().flatten(1)[left].double() + steps * (1 + beyond)
            there[:, reach.stepped] = there[:, reach.stepped].round()  # numbers and swaps that are whole
            low, high = ball.room(center[left])
            there = there.float().view_as(center[left]).to(center).maximum(low).minimum(high)
            asked[left] += 1
            changed = predict(model, there, self.batch_size) != y[left]
            changed &= predict(model, there, self.batch_size // 2 + 1) != y[left]
            found = left[changed.cpu()]
            nearest[found] = there[changed]
            radius[found] = ball.distance(center[found].double(), there[changed].double())
        return _allowed(BrokenRadii(radius, nearest, asked + 1), center, ball)

    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        ball: Ball,
        generator: Generator,  # noqa: ARG002
    ) -> AttackResult:
        """Break the points whose nearest other class lies in the ball."""
        reached = self.radii(model, x, y, ball)
        broken = reached.inside(x, ball)
        return AttackResult(torch.where(per_row(broken, x), reached.x_adv, x.float()), broken, reached.queries)


def exact_errors(model: nn.Module, x: Tensor, y: Tensor, ball: Ball) -> BrokenRadii | None:
    """The nearest input of another class than ``y`` of each row of ``x``; None for other models."""
    try:
        return Exact().radii(model, x, y, ball)
    except InputError:
        return None


def _allowed(found: BrokenRadii, x: Tensor, ball: Ball) -> BrokenRadii:
    """``found`` without errors that whole numbers or relations of features exclude."""
    if ball.limits.all_allowed:
        return found
    allowed = ball.limits.allows(found.x_adv.flatten(1).double(), x.flatten(1).double())
    return replace(found, radius=torch.where(allowed, found.radius, torch.inf))


def _of_trees(trees: TreeSearch, x: Tensor, y: Tensor, ball: Ball) -> BrokenRadii:
    """The nearest rows of cells that the model itself gives another class."""
    reach = Reach.of(ball, x.detach().float())
    answers = [trees.nearest(reach, row, int(label)) for row, label in enumerate(y.tolist())]
    nearest = torch.from_numpy(np.stack([answer.place for answer in answers])).view_as(x).to(x.device)
    radius = torch.tensor([answer.broken for answer in answers], dtype=torch.float64, device=x.device)
    return _allowed(BrokenRadii(radius, nearest, torch.ones_like(y)), x, ball)


def _least_steps(scores: AffineScores, reach: Reach, y: NDArray[np.int64], share: float) -> Tensor:
    """The step [n, d] from each center to the nearest row of another class than ``y``; infinite where there is none.

    Args:
        share: of the bound of the rounding, by which the other class is to lead.
    """
    steps, scores = np.full_like(reach.center, np.inf), replace(scores, link="order")
    for row, label in enumerate(y):
        own, one = scores.conditions(int(label)), reach.rows(slice(row, row + 1))
        off = own.rounding * (own.size @ np.abs(one.center[0]) + own.bias_size) + TINY32
        need = own.weight @ one.center[0] + own.bias + own.slack * share + share * off
        gain, toward = np.abs(own.weight) * one.scale, -np.sign(own.weight)
        room = np.where(own.weight > 0, one.center - one.low, one.high - one.center) / one.scale
        room[:, one.grouped] = 0.0
        sets, units = SwapSets.of(one, own.weight), np.broadcast_to(one.units, room.shape)
        distance, best, moves = _whole_moves(sets, gain, room, need, one.norm, units)
        if np.isfinite(distance[first := int(np.argmin(distance))]):
            steps[row] = moves[first] * toward[first] * one.scale
            for group in np.flatnonzero(sets.chosen[best[first]]).tolist():
                steps[row, list(one.groups[group])] = -one.center[0, list(one.groups[group])]
                steps[row, swapped_to(one, own.weight[first], group)] += 1
    return torch.from_numpy(steps)


def _whole_moves(
    sets: SwapSets, gain: Floats, room: Floats, need: Floats, norm: Norm, unit: Floats
) -> tuple[Floats, NDArray[np.int64], Floats]:
    """:func:`least_lengths` with moves of whole numbers that are whole: the least in Linf, short ones in L1 and L2.

    There the best moves of any numbers are rounded down, or up, or left out, and the other features gain the rest.
    """
    length, best, moves = least_lengths(sets, gain, room, need, norm, unit)
    if norm == "linf" or not (unit > 0).any():
        return length, best, moves
    found = np.full_like(length, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(unit > 0, moves / unit, 0.0)
    for rounded in (np.floor(steps + 1e-9), np.ceil(steps - 1e-9), 0 * steps):
        kept = np.where(np.isfinite(rounded), rounded, 0.0) * unit
        rest = need - (gain * kept).sum(1)
        _, which, others = least_lengths(sets, gain, np.where(unit > 0, 0.0, room), rest, norm, 0 * unit)
        total = lengths(np.concatenate([kept + others, sets.length[which][:, None]], 1), norm)
        total = np.where((kept <= room + 1e-9).all(1), total, np.inf)
        less = total < found
        found[less], best[less], moves[less] = total[less], which[less], (kept + others)[less]
    return found, best, moves
