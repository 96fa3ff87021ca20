"""Membership in a ball by fractions: no rounding anywhere."""

from __future__ import annotations

from fractions import Fraction

from torch import Tensor

from radii.threat import Ball


def is_in_ball(ball: Ball, point: Tensor, center: Tensor) -> bool:
    """Whether the numbers of one ``point`` lie in the closed ball around ``center`` and in the box."""
    values, origin = ([Fraction(value) for value in x.flatten().tolist()] for x in (point, center))
    scales = [Fraction(scale) for scale in ball.scale or [1.0] * len(values)]
    steps = [abs(value - middle) / scale for value, middle, scale in zip(values, origin, scales, strict=True)]
    radius = Fraction(ball.radius)
    within = {
        "linf": max(steps) <= radius,
        "l1": sum(steps) <= radius,
        "l2": sum(step * step for step in steps) <= radius * radius,
    }[ball.norm]
    low, high = (None, None) if ball.box is None else map(Fraction, ball.box)
    inside = all((low is None or value >= low) and (high is None or value <= high) for value in values)
    limits = ball.limits
    inside &= all(values[place].denominator == 1 or steps[place] == 0 for place in limits.whole)
    inside &= all(values[place] >= origin[place] for place in limits.rising)
    inside &= all(values[place] <= origin[place] for place in limits.falling)
    for j, least, most in limits.ranges:  # a row that starts outside may come back, step by step
        inside &= min(Fraction(least), origin[j]) <= values[j] <= max(Fraction(most), origin[j])
    return within and inside and all(steps[place] == 0 for place in ball.fixed)
