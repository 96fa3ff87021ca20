"""The figures of an audit as people read them: grey levels as fractions, counts with commas."""

from __future__ import annotations

from radii.geometry.audit import Audit
from radii.geometry.separation import Separation
from radii.threat import format_radius


def figures(found: Audit) -> dict[str, str]:
    """Named figures in the order of a table; what was not measured is not there."""
    rows: dict[str, str] = {}
    for name, separated in (("train-train", found.train), ("test-train", found.test)):
        if separated is not None:
            rows |= _separation(name, separated, found.epsilon)
    if found.rule is not None:
        rows["nearest-neighbor rule: right on test"] = f"{found.rule.accuracy:.2%}"
        rows["… proved right at epsilon"] = f"{found.rule.astuteness(found.epsilon):.2%}"
    rows["equal inputs / contradictory"] = f"{len(found.equal)} / {len(found.contradictory)}"
    if found.volume is not None:
        free = found.summary()["log2_volume_without_box"]
        rows["log2 volume at epsilon, with / without box"] = f"{found.volume.mean():,.1f} / {free:,.1f}"
    return rows | _shape(found)


def distance(value: float) -> str:
    """``54/255 = 0.212`` for whole grey levels, else a decimal."""
    if value == float("inf"):
        return "–"
    text = format_radius(value)
    return f"{text} = {value:.3f}" if "/" in text else f"{value:.4g}"


def _separation(name: str, found: Separation, epsilon: float) -> dict[str, str]:
    hubs = found.hubs(1)
    return {
        f"{name} separation": distance(found.minimum),
        f"{name} median": distance(found.quantile(0.5)),
        f"{name}: epsilon possible for": f"{found.share_possible(epsilon):.2%}",
        f"{name}: largest hub serves": f"{hubs[0].count:,}" if hubs else "–",
    }


def _shape(found: Audit) -> dict[str, str]:
    if found.shape is None:
        return {}
    rows = {}
    if found.shape.interclass is not None:
        rows["inter-class distance (l2)"] = f"{found.shape.interclass.mean:.3f}"
    for estimate in found.shape.dimensions:
        name = f"intrinsic dimension, {estimate.method}, k={estimate.k}, n={estimate.references:,}"
        rows[name] = f"{estimate.estimate:.1f} [{estimate.low:.1f}, {estimate.high:.1f}]"
    if found.shape.curve is not None:
        for name, value in (("power law", found.shape.curve.dimension), ("linear", found.shape.curve.dimension_linear)):
            rows[f"d* from {found.norm} neighbors, {name}"] = f"{value.value:.1f} [{value.low:.1f}, {value.high:.1f}]"
    needed = found.shape.spectrum.summary()
    rows["components for 50 / 90 / 99% of variance"] = f"{needed['0.5']} / {needed['0.9']} / {needed['0.99']}"
    if found.log10_samples is not None:
        rows["points for the nearest-neighbor rule"] = f"10^{found.log10_samples:.1f}"
    return rows
