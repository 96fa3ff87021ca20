"""Robust accuracy over the radius as a chart, drawn as far as proofs and attacks were tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import floor, log10
from typing import TYPE_CHECKING

import numpy as np

from radii.change import radius_words
from radii.evaluation.accuracy import BOUNDS, ROBUST_ACCURACY
from radii.tables import ChartSpec, Field, Rule, format_radius, listed

if TYPE_CHECKING:
    from radii.evaluation.scores import Scores

STEPS = 60  # about so many radii between 0 and the largest
FARTHEST = 0.98  # quantile of the broken radii at which a chart ends


def radius_grid(scores: Iterable[Scores]) -> list[float]:
    """Round radii for curves of evaluations under one threat: from 0 as far as was tried, and the threat's radius."""
    several = list(scores)
    radius = several[0].ball.radius
    top = radius
    if any(own.attacked_beyond or own.proved_beyond for own in several):
        broken = np.concatenate([own.points.broken_radius for own in several])
        reached = broken[np.isfinite(broken)]
        top = max(2 * radius, float(np.quantile(reached, FARTHEST)) if len(reached) else 0.0)
    if top == 0:
        return [0.0]
    power = 10.0 ** floor(log10(top / STEPS))
    step = next(power * digit for digit in (1, 2, 5, 10) if top / STEPS <= power * digit)
    grid = [float(f"{k * step:.10g}") for k in range(floor(top / step + 1e-9) + 1)]
    return sorted({radius, *(own for own in grid if abs(own - radius) > 1e-6 * step)})


def curve_chart(scores: Mapping[str, Scores], name: str, series: str = "split") -> ChartSpec:
    """Robust accuracy over the radius with its 95% bands: proved below, unbroken above."""
    radii, ball = radius_grid(scores.values()), next(iter(scores.values())).ball
    rows = [row for key, own in scores.items() for row in own.curve_rows(radii, **{series: key})]
    rows.sort(key=lambda row: BOUNDS.index(row["bound"]))  # a color has one meaning, whichever model comes first
    return ChartSpec(
        "curves",
        rows,
        Field("radius", radius_words(ball)),
        ROBUST_ACCURACY,
        "bound",
        f"Robust accuracy of {name}",
        " ".join(["The true accuracy lies between proved and unbroken. Bands are 95% intervals.", *efforts(scores)]),
        dash=series,
        first_color=BOUNDS.index(rows[0]["bound"]),
        rules=[Rule(ball.radius, f"ε = {format_radius(ball.radius)}")],
    )


def efforts(scores: Mapping[str, Scores]) -> list[str]:
    """How far proofs and attacks were tried: why lines end, and what they are beyond the threat's radius."""
    said = []
    if unproved := [name for name, own in scores.items() if own.certificate_method is None]:
        said.append(f"No proofs of {listed(unproved)}: no certificate was tried or fits.")
    if fixed := [name for name, own in scores.items() if own.certificate_method and not own.proved_beyond]:
        said.append(
            f"Proofs of {listed(fixed)} were made for ε: at smaller radii more points may be provable, and the proved "
            "line ends there."
        )
    if unattacked := [name for name, own in scores.items() if not own.attacked_beyond]:
        said.append(
            f"Attacks on {listed(unattacked)} were made at ε only: at smaller radii attacks may break points, too. "
            "The unbroken line ends at ε."
        )
    if len(unattacked) < len(scores):
        said.append("Beyond ε only the minimum-norm attack was tried.")
    return said
