"""Certification runs for readers: accuracy over the radius, notes, tables and charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError
from radii.evaluation.accuracy import ROBUST_ACCURACY, certified_curve, curve_rows
from radii.runs.record_files import read_record
from radii.runs.step_results import CertifiedAccuracy, CertifiedSplit, CertifyResult
from radii.runs.store import Run
from radii.tables import ChartSpec, Field, Row, Table, listing, pivot

POINTS = "points.safetensors"


@dataclass(frozen=True)
class SplitPoints:
    """The points of one split, [n] each.

    Attributes:
        label: the right class.
        prediction: the certified class; -1 where the method abstains.
        radius: the proved radius; 0 where nothing is proved.
        broken: the distance of a known error, where true radii were asked for.
    """

    label: NDArray[np.int64]
    prediction: NDArray[np.int64]
    radius: NDArray[np.float64]
    broken: NDArray[np.float64] | None = None

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the prediction is right."""
        return self.prediction == self.label

    @property
    def proved_radius(self) -> NDArray[np.float64]:
        """The proved radius; 0 where the method abstains."""
        return self.radius * (self.prediction >= 0)


@dataclass(frozen=True)
class CertifiedPoints:
    """The points of a certification; None for a split that was not certified."""

    train: SplitPoints | None = None
    test: SplitPoints | None = None


@dataclass(frozen=True)
class Certification:
    """A certification run with its result, for tables and charts about its test points."""

    run: Run
    result: CertifyResult

    @classmethod
    def of(cls, run: Run) -> Certification:
        """Read the run of a :class:`~radii.runs.steps.certify_step.Certify` step."""
        return cls(run, run.read(CertifyResult))

    @property
    def name(self) -> str:
        """The method, as ``--method`` has it."""
        return self.result.method

    @property
    def test(self) -> CertifiedSplit:
        """The figures of the test points."""
        if self.result.test is None:
            raise InputError(f"The run {self.run.id} certified no test points.")
        return self.result.test

    def points(self) -> SplitPoints:
        """The test points."""
        points = read_record(self.run.folder / POINTS, CertifiedPoints).test
        assert points is not None, "test points were certified"
        return points

    def layer_table(self) -> Table | None:
        """The Lipschitz bound of every layer; None for methods without one."""
        if self.result.bound is None:
            return None
        lines = [(layer.name, layer.kind, layer.method, f"{layer.value:.6g}") for layer in self.result.bound.layers]
        return listing("Lipschitz bounds", ("layer", "kind", "method", "constant"), lines)

    def rows(self) -> list[Row]:
        """Accuracy over the radius as tidy rows; radius 0 is clean accuracy."""
        label = self.name if self.result.is_certified else f"{self.name} (not certified)"
        curves = {label: self.test.shares, f"{self.name} by the √2 rule": self.test.certified_by_sqrt2}
        return [
            {"radius": radius, "accuracy": share.value, **share.ends(), "certificate": name}
            for name, shares in curves.items()
            if shares is not None
            for radius, share in zip((0.0, *self.result.radii), (self.test.clean, *shares), strict=True)
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know beside the table, in sentences."""
        result = self.result
        notes = [f"Chosen: {self.name}: {result.why}."] if result.why else []
        if not result.is_certified:
            return *notes, f"{self.name} is an estimate from frequencies: nothing about it is certified."
        alpha = f", alpha {result.alpha:g}" if result.alpha is not None else ""
        notes.append(f"{self.name}: {result.kind}{alpha}.")
        if result.samples is not None:
            notes.append(f"{self.name}: {result.samples:,.0f} samples an image; {result.assumptions[-1]}.")
        if (exact := self.test.exact) is not None:
            ends = (exact.median_proved, exact.median_broken)
            shown = " and ".join("none" if end is None else f"{end:.4g}" for end in ends)
            notes.append(
                f"True radius known to {exact.tolerance:.0%} for {exact.known} of {exact.total} points; "
                f"median proved and broken radius {shown}."
            )
        if (bound := result.bound) is not None:
            how = "proved" if bound.proved else "bounded (fallback)"
            notes.append(f"Lipschitz constant {how}: {bound.value:.6g}; before the head {bound.features:.6g}.")
        return tuple(notes)

    def summary(self) -> dict[str, Any]:
        """The certification as JSON data."""
        result, test = self.result, self.test
        rows = [{"radius": radius, **_figures(share)} for radius, share in zip(result.radii, test.shares, strict=True)]
        for row, share in zip(rows, test.certified_by_sqrt2 or (), strict=False):
            row["by_sqrt2"] = share.value
        return {
            "name": self.name,
            "run": self.run.id,
            "method": result.certificate,
            "kind": result.kind,
            "norm": result.norm,
            "alpha": result.alpha,
            "assumptions": list(result.assumptions),
            "samples": result.samples,
            "why": result.why,
            "clean": test.clean.summary(),
            "certified" if result.is_certified else "estimated": rows,
            **({} if result.bound is None else {"lipschitz": result.bound.model_dump()}),
            **({} if test.exact is None else {"exact": test.exact.model_dump()}),
        }


def _figures(share: CertifiedAccuracy) -> dict[str, Any]:
    """A share in the JSON of the command line."""
    bound = share.population_at_least
    figures = {"accuracy": share.value, "interval": list(share.interval)}
    return figures | ({} if bound is None else {"population_at_least": bound})


def accuracy_table(certifications: Sequence[Certification], title: str) -> Table:
    """Accuracy of ``certifications`` over the radius, called ``title``: a line per radius, a column per method.

    Intervals are exact 95% intervals.
    """
    rows = [row for certification in certifications for row in certification.rows()]
    radii = certifications[0].result.radii
    table = pivot(rows, Field("radius", radius=True), [Field("certificate")], ROBUST_ACCURACY, radii)
    return replace(table, title=title)


def certified_chart(certifications: Sequence[Certification], name: str, radius: str) -> ChartSpec:
    """Certified accuracy over the radius with its exact 95% interval over the ``radius``, as it is called."""
    points = {each.name: each.points() for each in certifications}
    largest = max(float(each.proved_radius.max()) for each in points.values())
    radii = sorted({*np.linspace(0, largest, 101).tolist(), *certifications[0].result.radii})  # the table's radii, too
    curves = {method: certified_curve(each.right, each.proved_radius, radii) for method, each in points.items()}
    return ChartSpec(
        "curves",
        [row for method, curve in curves.items() for row in curve_rows(curve, ("proved",), certificate=method)],
        Field("radius", radius),
        replace(ROBUST_ACCURACY, title="certified accuracy"),
        "certificate",
        f"Certified accuracy of {name}",
        "Right and proved, with 95% intervals for the population; estimates are marked in their name.",
        step=True,
    )
