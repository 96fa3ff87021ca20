"""Distributions: what the variants change in the data, before any training.

Histograms of pixels (Ding et al. 2019, Fig. 1a and 1b), distances of pairs of images beside those of uniform points in
the cube and in the ball (section 2.2), inter-class distances of CIFAR-10 (Fig. 5), digits smoothed in one and in two
dimensions; and the variance that the first principal components of CIFAR-10 explain (Prach & Lampert 2025, Fig. 7).
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import Budget
from radii.runs.component_specs import DataSpec
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii_papers.distributions import MeasureDistribution
from radii_papers.measurements import DistributionResult, SpectrumResult
from radii_papers.steps import MeasureSpectrum

SMOOTH = tuple(f"+smooth:{size}" for size in (2, 3, 5, 8))
PLANE = tuple(f"+smooth2d:{size}" for size in (3, 5))
LEVELS = tuple(f"+saturate:{level}" for level in (1, 4, 8, 16, 64, "inf"))
DIGITS = tuple(f"mnist{variant}" for variant in ("", "+binarize", *SMOOTH, *PLANE))
COLOR = tuple(f"cifar10{variant}" for variant in ("", *LEVELS))
FIRST = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3072)
SERIES = 6  # of a chart, at most
PIXELS, VARIANCE = "pixels and distances", "explained variance"


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """A cell for each variant, and one for the spectrum; of the small digits for ``smoke``."""
    small = budget == "smoke"
    names = ("digits", "digits+binarize") if small else (*DIGITS, *COLOR)
    bands, spectrum = ((1, 16, 64), "digits") if small else (FIRST, "cifar10")
    measured = tuple(
        Cell({"measure": PIXELS, "data": name}, MeasureDistribution(data=DataSpec.of(name), points=_points(budget)))
        for name in names
    )
    step = MeasureSpectrum(data=DataSpec.of(spectrum), bands=tuple((1, last) for last in bands))
    return (*measured, Cell({"measure": VARIANCE, "data": spectrum}, step))


def _points(budget: Budget) -> int:
    return {"smoke": 200, "cpu": 2000, "night": 2000, "paper": 10_000}[budget]


def _analyze(measured: Sequence[Measured]) -> Findings:
    """A row for each variant; histograms and the explained variance as charts."""
    rows: list[Row] = []
    bins: list[Row] = []
    variance: list[Row] = []
    for cell in measured:
        name = cell.place["data"]
        if isinstance(cell.result, SpectrumResult):
            shares = {int(band.split("-")[1]): share for band, share in cell.result.shares.items()}
            variance += [{"first": first, "share": share, "series": f"{name}"} for first, share in shares.items()]
            rows.append({"data": name, "explained": shares[16]})
            continue
        found = cell.read(DistributionResult)
        low, _, high = found.quantiles
        rows.append(
            {
                "data": name,
                "ends": found.at_ends,
                "mean": found.mean,
                "spread": found.deviation / found.mean if found.mean > 0 else None,
                "low": low,
                "high": high,
                "interclass": found.interclass,
            }
        )
        width = 1 / len(found.histogram)
        bins += [
            {"pixel": (place + 0.5) * width, "share": share, "data": name}
            for place, share in enumerate(found.histogram)
        ]
    columns = (
        Field("data", "dataset"),
        Field("ends", "share: pixels within 0.05 of 0 or 1", percent=True),
        Field("mean", "mean distance over √d", digits=3),
        Field("spread", "deviation over mean", digits=3),
        Field("low", "5%", digits=3),
        Field("high", "95%", digits=3),
        Field("interclass", "inter-class distance", digits=2),
        Field("explained", "variance of components 1-16", percent=True),
    )
    digits = [row for row in bins if row["data"] in DIGITS[:SERIES]]
    color = [row for row in bins if row["data"] in (COLOR[0], *COLOR[-SERIES + 1 :])]
    drawn = (_histograms(digits, "Smoothing fills the middle"), _histograms(color, "Saturation empties it"))
    rows = [{column.name: row.get(column.name) for column in columns} for row in rows]
    charts = [chart for chart in (*drawn, _spectrum(variance)) if chart is not None]
    return Findings(table(rows, columns), tuple(charts))


def _histograms(rows: list[Row], title: str) -> ChartSpec | None:
    """Figure 1a or 1b, of as many variants as a chart can show."""
    if not rows:
        return None
    note = "Shares of pixels in ten equal bins."
    across, height = Field("pixel", "pixel"), Field("share", "share of pixels", percent=True)
    return ChartSpec("curves", rows, across, height, "data", title, note)


def _spectrum(rows: list[Row]) -> ChartSpec | None:
    """Figure 7."""
    if not rows:
        return None
    across, height = Field("first", "first components", log=True), Field("share", "explained variance", percent=True)
    return ChartSpec("curves", rows, across, height, "series", "A few components have most of the variance")


STUDY = Study(
    "distributions",
    "Pixels and distances of the variants, and the spectrum",
    "Ding et al. 2019, section 2.2, Fig. 1a, 1b and 5; Prach & Lampert 2025, Fig. 7",
    _cells,
    _analyze,
)
