"""An audit for reading: tables and charts with grey levels as fractions, and the closest pairs as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.data import gallery
from radii.data.dataset import Dataset, as_float
from radii.errors import InputError
from radii.files import write_whole
from radii.geometry.audit import Audit
from radii.geometry.separation import Separation
from radii.tables import MISSING, ChartSpec, Estimate, Field, Rule, Table, format_radius, listing


def audit_table(audits: Sequence[tuple[str, Audit]], title: str = "") -> Table:
    """A table called ``title``: one row for each figure and one column for each of ``audits``, (name, audit)."""
    columns = [figures(audit) for _, audit in audits]
    names = dict.fromkeys(name for column in columns for name in column)
    lines = [(name, *(column.get(name, MISSING) for column in columns)) for name in names]
    return listing(title, ("", *(name for name, _ in audits)), lines)


def audit_charts(audits: Sequence[tuple[str, Audit]]) -> tuple[ChartSpec, ...]:
    """Charts of ``audits``: the possible radii; for deep audits also neighbor distances and variance."""
    first = audits[0][1]
    shapes = [(name, audit.shape) for name, audit in audits if audit.shape is not None]
    possible = [row | {"data": name} for name, a in audits for row in (a.test or a.train).curve()]
    nearer = [row | {"data": name} for name, shape in shapes if shape.curve for row in shape.curve.rows()]
    variance = [row | {"data": name} for name, shape in shapes for row in shape.spectrum.rows()]
    charts = (
        ChartSpec(
            "curves",
            possible,
            Field("epsilon", f"radius ({first.norm})"),
            Field("share", "points", percent=True),
            "data",
            "The share of points for which a radius is possible",
            "A point counts where every other class is at least twice the radius away.",
            rules=[Rule(first.epsilon, "epsilon")],
        ),
        ChartSpec(
            "points",
            nearer,
            Field("n", "training points", log=True),
            Field("mean", f"mean {first.norm} distance", log=True),
            "data",
            "How near the nearest training point comes",
            "A straight line falls by 1/d* per factor e.",
        ),
        ChartSpec(
            "curves",
            variance,
            Field("components", "principal components", log=True),
            Field("share", "variance", percent=True),
            "data",
            "The variance in the first principal components",
        ),
    )
    return tuple(chart for chart in charts if chart.rows)


def figures(audit: Audit) -> dict[str, str]:
    """The figures of ``audit`` by name, in the order of a table; what was not measured is left out."""
    rows: dict[str, str] = {}
    for name, separated in (("train-train", audit.train), ("test-train", audit.test)):
        if separated is not None:
            rows |= _separation(name, separated, audit.epsilon)
    if audit.rule is not None:
        rows["nearest-neighbor rule: right on test"] = f"{audit.rule.accuracy:.2%}"
        rows["… proved right within ε"] = f"{audit.rule.astuteness(audit.epsilon):.2%}"
    rows["equal inputs / contradictory"] = f"{len(audit.equal)} / {len(audit.contradictory)}"
    if audit.volume is not None:
        free = audit.summary()["log2_volume_without_box"]
        rows["log2 volume at ε, with / without box"] = f"{audit.volume.mean():,.1f} / {free:,.1f}"
    return rows | _shape(audit)


def distance(value: float) -> str:
    """``value`` as ``54/255 = 0.212`` for whole grey levels, else as a decimal."""
    if value == float("inf"):
        return "–"
    text = format_radius(value)
    return f"{text} = {value:.3f}" if "/" in text else f"{value:.4g}"


def _separation(name: str, separation: Separation, epsilon: float) -> dict[str, str]:
    hubs = separation.hubs(1)
    return {
        f"{name} separation": distance(separation.minimum),
        f"{name} median": distance(separation.quantile(0.5)),
        f"{name}: ε possible for": f"{separation.share_possible(epsilon):.2%}",
        f"{name}: one point is nearest to": f"{hubs[0].count:,}" if hubs else "–",
    }


def _shape(audit: Audit) -> dict[str, str]:
    if audit.shape is None:
        return {}
    rows = {}
    if audit.shape.interclass is not None:
        rows["inter-class distance (L2)"] = f"{audit.shape.interclass.mean:.3f}"
    for estimate in audit.shape.dimensions:
        name = f"intrinsic dimension, {estimate.method}, k={estimate.k}, n={estimate.references:,}"
        rows[name] = _interval(estimate.estimate)
    if audit.shape.curve is not None:
        for name, value in (("power law", audit.shape.curve.dimension), ("linear", audit.shape.curve.dimension_linear)):
            rows[f"d* from {audit.norm} neighbors, {name}"] = _interval(value)
    needed = audit.shape.spectrum.summary()
    rows["components for 50 / 90 / 99% of variance"] = f"{needed['0.5']} / {needed['0.9']} / {needed['0.99']}"
    if audit.log10_samples is not None:
        rows["points for the nearest-neighbor rule"] = f"10^{audit.log10_samples:.1f}"
    return rows


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.1f} [{estimate.low:.1f}, {estimate.high:.1f}]"


@dataclass(frozen=True)
class _PairPicture:
    """Two images [c, h, w] of different classes with their class names, their distance and their row numbers."""

    point: NDArray[Any]
    neighbor: NDArray[Any]
    classes: tuple[str, str]
    distance: float
    indices: tuple[int, int]


def closest_pairs(
    separation: Separation, points: Dataset, references: Dataset, count: int = 8
) -> tuple[_PairPicture, ...]:
    """The ``count`` closest pairs of a separation of ``points`` from ``references``, nearest first."""
    if not points.is_image:
        raise InputError(f"Pictures of pairs need images, {points.name} has features of shape {points.shape}.")
    return tuple(
        _PairPicture(
            points.x[pair.index],
            references.x[pair.neighbor],
            (points.classes[points.y[pair.index]], references.classes[references.y[pair.neighbor]]),
            pair.distance,
            (pair.index, pair.neighbor),
        )
        for pair in separation.pairs(count)
    )


def write_pairs(pairs: tuple[_PairPicture, ...], path: Path) -> Path:
    """Write ``pairs`` as one picture to ``path``: points above, their nearest neighbors of another class below."""
    if not pairs:
        raise InputError("There are no pairs of different classes to draw.")
    rows = [
        ("point", as_float(np.stack([pair.point for pair in pairs]))),
        ("nearest", as_float(np.stack([pair.neighbor for pair in pairs]))),
        ("apart by", np.stack([_gap(pair) for pair in pairs])),
    ]
    headings = [format_radius(float(f"{pair.distance:.3g}")) for pair in pairs]
    write_whole(path, gallery.encode(gallery.draw(rows, headings), path))
    return path


def _gap(pair: _PairPicture) -> NDArray[np.float32]:
    """|point - neighbor|, where the two differ: black is equal."""
    images = as_float(np.stack([pair.point, pair.neighbor]))
    return np.abs(images[0] - images[1])
