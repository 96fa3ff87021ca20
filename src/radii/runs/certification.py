"""The results of certification runs, typed: accuracy over the radius, notes, tables and charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from radii.evaluation.accuracy import ROBUST_ACCURACY, Accuracy, certified_curve, curve_rows
from radii.models.io.tensor_files import read_tensors
from radii.runs.store import Run
from radii.tables import ChartSpec, Field, Row, Table, listing, pivot

POINTS = "points.safetensors"  # per split: label, prediction, radius


@dataclass(frozen=True)
class CertifiedPoints:
    """The points of a certification, [n] each.

    Args:
        right: whether the prediction is right.
        radius: the proved radius; 0 where nothing is proved.
    """

    right: NDArray[np.bool_]
    radius: NDArray[np.float64]


def load_certified_points(run: Run, split: Literal["train", "test"] = "test") -> CertifiedPoints:
    """The points of one split of a certification run."""
    arrays = {name: tensor.numpy() for name, tensor in read_tensors(run.folder / POINTS)[0].items()}
    label, prediction = arrays[f"{split}.label"], arrays[f"{split}.prediction"]
    return CertifiedPoints(prediction == label, arrays[f"{split}.radius"] * (prediction >= 0))


@dataclass(frozen=True)
class LayerConstant:
    """The Lipschitz bound of one layer: its name and kind, the constant, and how it was bounded."""

    name: str
    kind: str
    value: float
    method: str


@dataclass(frozen=True)
class Certification:
    """What one certification run says about its test points.

    Args:
        run: the run.
        name: the method, as ``--method`` has it.
        why: the reason for the method if ``auto`` chose it; else empty.
        kind: ``deterministic``, ``probabilistic`` or ``estimate``.
        clean: accuracy without a perturbation.
        radii: the radii asked for.
        shares: at each radius, the share of points that are right and certified (of an estimate: estimated).
    """

    run: Run
    name: str
    why: str
    kind: str
    clean: Accuracy
    radii: tuple[float, ...]
    shares: tuple[Accuracy, ...]

    @classmethod
    def of(cls, run: Run) -> Certification:
        """Read the run of a :class:`~radii.runs.steps.certify_step.Certify` step."""
        result = run.result
        test, word = result["test"], "estimated" if result["kind"] == "estimate" else "certified"
        shares, clean = tuple(map(_accuracy, test[word])), _accuracy(test["clean"])
        return cls(run, result["method"], result["why"], result["kind"], clean, tuple(result["radii"]), shares)

    @property
    def is_certified(self) -> bool:
        """False for an estimate from frequencies."""
        return self.kind != "estimate"

    @property
    def by_sqrt2(self) -> tuple[Accuracy, ...]:
        """The shares by the textbook rule, margin over sqrt(2) times L; empty for other methods than ``margin``."""
        return tuple(map(_accuracy, self.run.result["test"].get("certified_by_sqrt2", ())))

    @property
    def layers(self) -> tuple[LayerConstant, ...]:
        """The proved constants of the layers; empty for methods without a Lipschitz bound."""
        return tuple(LayerConstant(**layer) for layer in self.run.result.get("bound", {}).get("layers", ()))

    def layer_table(self) -> Table:
        """The Lipschitz bound of every layer."""
        lines = [(layer.name, layer.kind, layer.method, f"{layer.value:.6g}") for layer in self.layers]
        return listing("Lipschitz bounds", ("layer", "kind", "method", "constant"), lines)

    def rows(self) -> list[Row]:
        """Accuracy over the radius as tidy rows; radius 0 is clean accuracy."""
        label = self.name if self.is_certified else f"{self.name} (not certified)"
        curves = {label: self.shares} | ({f"{self.name} by the √2 rule": self.by_sqrt2} if self.by_sqrt2 else {})
        return [
            {"radius": radius, "accuracy": share.value, **share.ends(), "certificate": name}
            for name, shares in curves.items()
            for radius, share in zip((0.0, *self.radii), (self.clean, *shares), strict=True)
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know beside the table, in sentences."""
        result = self.run.result
        notes = [f"Chosen: {self.name}: {self.why}."] if self.why else []
        if not self.is_certified:
            return *notes, f"{self.name} is an estimate from frequencies: nothing about it is certified."
        alpha = f", alpha {result['alpha']:g}" if result["alpha"] is not None else ""
        notes.append(f"{self.name}: {self.kind}{alpha}.")
        if result["samples"] is not None:
            notes.append(f"{self.name}: {result['samples']:,.0f} samples an image; {result['assumptions'][-1]}.")
        if (bracket := result["test"].get("exact")) is not None:
            ends = [bracket[f"median_{end}"] for end in ("proved", "broken")]
            shown = " and ".join("none" if end is None else f"{end:.4g}" for end in ends)
            notes.append(
                f"True radius known to {bracket['tolerance']:.0%} for {bracket['known']} of {bracket['total']} points; "
                f"median proved and broken radius {shown}."
            )
        if (bound := result.get("bound")) is not None:
            how = "proved" if bound["proved"] else "bounded (fallback)"
            notes.append(f"Lipschitz constant {how}: {bound['value']:.6g}; before the head {bound['features']:.6g}.")
        return tuple(notes)

    def summary(self) -> dict[str, Any]:
        """The certification as JSON data."""
        result = self.run.result
        word = "certified" if self.is_certified else "estimated"
        rows = []
        for radius, share, stored in zip(self.radii, self.shares, result["test"][word], strict=True):
            row: dict[str, Any] = {"radius": radius, "accuracy": share.value, "interval": list(share.interval)}
            rows.append(row | {key: stored[key] for key in ("population_at_least",) if key in stored})
        for row, share in zip(rows, self.by_sqrt2, strict=False):
            row["by_sqrt2"] = share.value
        return {
            "name": self.name,
            "run": self.run.id,
            "method": result["certificate"],
            **{key: result[key] for key in ("kind", "norm", "alpha", "assumptions", "samples", "why")},
            "clean": self.clean.summary(),
            word: rows,
            **({"lipschitz": result["bound"]} if "bound" in result else {}),
            **({"exact": result["test"]["exact"]} if "exact" in result["test"] else {}),
        }


def _accuracy(stored: dict[str, Any]) -> Accuracy:
    return Accuracy(stored["correct"], stored["total"])


def accuracy_table(certifications: Sequence[Certification], title: str) -> Table:
    """Accuracy of ``certifications`` over the radius, called ``title``: a line per radius, a column per method.

    Intervals are exact 95% intervals.
    """
    rows = [row for certification in certifications for row in certification.rows()]
    radii = certifications[0].radii
    table = pivot(rows, Field("radius", radius=True), [Field("certificate")], ROBUST_ACCURACY, radii)
    return replace(table, title=title)


def certified_chart(certifications: Sequence[Certification], name: str, norm: str) -> ChartSpec:
    """Certified accuracy over the radius with its exact 95% interval, a curve for each method.

    Args:
        certifications: of one model on the same points.
        name: the model, for the title.
        norm: of the radii.
    """
    points = {each.name: load_certified_points(each.run) for each in certifications}
    radii = np.linspace(0, max(float(each.radius.max()) for each in points.values()), 101).tolist()
    curves = {method: certified_curve(each.right, each.radius, radii) for method, each in points.items()}
    return ChartSpec(
        "curves",
        [row for method, curve in curves.items() for row in curve_rows(curve, ("proved",), certificate=method)],
        Field("radius", f"{norm.replace('l', 'L', 1)} radius"),
        replace(ROBUST_ACCURACY, title="certified accuracy"),
        "certificate",
        f"Certified accuracy of {name}",
        "Right and proved, with 95% intervals for the population; estimates are marked in their name.",
        step=True,
    )
