"""What the steps of the papers find, as typed records; they are read without loading the steps, and torch with them."""

from __future__ import annotations

from pydantic import JsonValue

from radii.runs.step_results import NeighborRow, Record, StepResult
from radii.tables import Estimate


class TheoryRow(Record):
    """A quantity of a theorem: predicted beside measured, and whether they agree; None: not a finite number."""

    quantity: str
    predicted: float | None
    relation: str
    measured: float | None
    tolerance: float | None
    holds: bool


class TheoryResult(StepResult):
    """A theorem that was simulated."""

    name: str
    source: str
    parameters: dict[str, JsonValue]
    rows: tuple[TheoryRow, ...]

    def headline(self) -> str:
        """``7 of 8 rows hold``."""
        return f"{sum(row.holds for row in self.rows)} of {len(self.rows)} rows hold"


class FormulaResult(StepResult):
    """A formula's figures by name."""

    figures: dict[str, float]


class VolumeResult(StepResult):
    """Mean bits of the room of an image, the range that any data of this size can have, and the number of images."""

    mean: float
    low: float
    high: float
    images: int

    def headline(self) -> str:
        """``-292.6 bits``."""
        return f"{self.mean:.4g} bits"


class InterclassResult(StepResult):
    """The inter-class distance, a mean over the classes."""

    mean: float

    def headline(self) -> str:
        """``distance 7.34``."""
        return f"distance {self.mean:.3g}"


class SpectrumResult(StepResult):
    """Shares of the variance by band of components, ``1-16``."""

    shares: dict[str, float]


class DistributionResult(StepResult):
    """Pixels and distances of ``images`` in [0, 1]^``dimensions``.

    ``histogram`` has shares of pixels in equal bins, ``at_ends`` the share within 0.05 of 0 or 1. Distances are L2 over
    the root of the dimensions: mean, standard deviation, and 5%, 50% and 95% quantiles over all pairs; ``interclass``
    is the inter-class distance in L2.
    """

    images: int
    dimensions: int
    histogram: tuple[float, ...]
    at_ends: float
    mean: float
    deviation: float
    quantiles: tuple[float, ...]
    interclass: float

    def headline(self) -> str:
        """``12% of pixels at the ends, distance 0.34 sqrt(d)``."""
        return f"{self.at_ends:.0%} of pixels at the ends, distance {self.mean:.2g} sqrt(d)"


class NeighborDistancesResult(StepResult):
    """Distances to the nearest of n points, the intrinsic dimension by either law, and log10 of the points needed."""

    curve: tuple[NeighborRow, ...]
    dimension: Estimate
    dimension_linear: Estimate
    log10_samples: Estimate

    def headline(self) -> str:
        """``dimension 28.1``."""
        return f"dimension {self.dimension.value:.3g}"


class LineFigures(Record):
    """A classifier on a line; ``curve`` has its values at some inputs."""

    accuracy: float
    astuteness: float
    steepness_times_r: float
    curve: tuple[tuple[float, float], ...]


class OneDimensionResult(StepResult):
    """Points ``x`` with labels ``y``, 2 ``r`` apart, and two classifiers on them."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    r: float
    smooth: LineFigures
    staircase: LineFigures


class NeighborGroup(Record):
    """Test points that are equally near to training points: their number, distances and accuracies."""

    points: int
    nearest: float
    mean: float
    farthest: float
    clean: float
    certified: float


class NearbyAccuracyResult(StepResult):
    """Groups of test points from the nearest to the farthest; certified at ``radius``."""

    radius: float
    groups: tuple[NeighborGroup, ...]
