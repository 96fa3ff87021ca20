"""A threat as it is on a dataset: in the units of its columns, with what stays fixed, and with their limits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from radii.change import Change
from radii.data.dataset import Data
from radii.errors import InputError
from radii.sparse_threat import Sparse, with_ranges
from radii.threat import Ball

UNLIKE = 10.0  # spreads of columns that differ by a larger factor are taken for different units


def threat_on(threat: Ball | Change, data: Data) -> Ball | Change:
    """``threat`` as it is on ``data``; a change needs images."""
    if isinstance(threat, Ball):
        return ball_on(threat, data)
    if data.train.box is None:
        raise InputError(f"The change {threat} needs inputs in [0, 1]; {data.name} has features in units of their own.")
    return threat


def attack_threat_on(threat: Ball | Change | Sparse, data: Data) -> Ball | Change | Sparse:
    """``threat`` as it is on ``data``; a feature of a table without a limit stays in its training column's range."""
    if not isinstance(threat, Sparse):
        return threat_on(threat, data)
    if data.train.is_image:
        return threat
    rules, box = data.train.rules, None if data.train.box is None else threat.box
    own = threat.changed(box=box) if rules is None else threat.changed(box=box, fixed=rules.fixed, limits=rules.limits)
    if groups := own.limits.groups:  # categories stay
        fixed = sorted({*own.fixed, *(feature for group in groups for feature in group)})
        own = own.changed(fixed=tuple(fixed), limits=own.limits.model_copy(update={"groups": ()}))
    return own if box is not None else with_ranges(own, data.train.x.min(0).tolist(), data.train.x.max(0).tolist())


def ball_on(ball: Ball, data: Data) -> Ball:
    """``ball`` as it is on ``data``: in units of the table, with the features that stay fixed and their limits.

    Features outside [0, 1] have no box. A radius ``sd`` counts standard deviations of the training columns; other
    radii count in the scale beside the table. A column without spread stays fixed where it would be the unit.

    Raises:
        InputError: a bare radius on features of different units.
    """
    if data.train.is_image:
        if ball.unit:
            raise InputError(f"{ball} is for columns of a table, and {data.name} has images: write {ball.norm}:8/255.")
        ball.check_room(int(np.prod(data.shape)))
        return ball
    fixed, scale, limits = ball.fixed, ball.scale, ball.limits
    if (rules := data.train.rules) is not None:
        fixed, scale = tuple(sorted({*rules.fixed, *fixed})), scale or rules.scale
        limits = limits if rules.limits.all_allowed else rules.limits
    if ball.unit and not ball.scale:
        spread = data.train.x.std(0, dtype=np.float64)
        spread[[feature for group in limits.groups for feature in group]] = 1.0  # a category counts 1
        fixed = tuple(sorted({*fixed, *np.flatnonzero(spread == 0).tolist()}))
        scale = tuple(np.where(spread == 0, 1.0, spread).tolist())
    box = None if data.train.box is None else ball.box
    _check_units(own := ball.changed(box=box, fixed=fixed, scale=scale, limits=limits), data)
    return own


def extreme_spreads(data: Data, fixed: Sequence[int] = ()) -> tuple[int, int] | None:
    """The columns of the least and the greatest standard deviation, where one number cannot be the radius of both.

    That is where they differ by more than a factor of 10, some values leave [0, 1], and nothing beside the table says
    what counts as 1. Columns ``fixed`` or without spread do not count.
    """
    if data.train.is_image or data.train.box is not None or (data.train.rules is not None and data.train.rules.scale):
        return None
    spread = data.train.x.std(0, dtype=np.float64)
    spread[list(fixed)] = 0
    moving = np.flatnonzero(spread > 0)
    if not len(moving) or spread.max() <= UNLIKE * spread[moving].min():
        return None
    return int(moving[spread[moving].argmin()]), int(spread.argmax())


def _check_units(ball: Ball, data: Data) -> None:
    """Question a bare radius on columns whose spreads are far apart: it is hardly the same change in each."""
    still = [*ball.fixed, *(feature for group in ball.limits.groups for feature in group)]
    extremes = None if ball.scale or ball.radius == 0 else extreme_spreads(data, still)
    if extremes is None:
        return
    spread = data.train.x.std(0, dtype=np.float64)
    rules = data.train.rules
    names = [f"feature {number}" for number in range(len(spread))] if rules is None else rules.names
    shown = " and ".join(f"{names[n]} has a standard deviation of {spread[n]:.3g}" for n in extremes)
    asked = ball.changed(box=(0.0, 1.0))
    raise InputError(
        f"{asked} is one number for columns of different units of {data.name} ({shown}): write {ball.norm}:0.1sd for a "
        "tenth of each column's standard deviation, or each column's unit in a [scale] table in the TOML beside it."
    )
