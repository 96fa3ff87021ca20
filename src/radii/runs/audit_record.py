"""What an audit finds, as a typed record: the figures of :class:`radii.geometry.audit.Audit`, without geometry."""

from __future__ import annotations

from typing import ClassVar

from radii.runs.step_results import NeighborRow, Record, StepResult
from radii.tables import Estimate
from radii.threat import Norm


class HubFigures(Record):
    """A training point that is the nearest one of another class to ``count`` points."""

    index: int
    count: int


class PairFigures(Record):
    """A point and its nearest training point of another class."""

    index: int
    neighbor: int
    distance: float


class EqualFigures(Record):
    """Equal training inputs: where, and with which labels."""

    indices: tuple[int, ...]
    labels: tuple[int, ...]


class SeparationFigures(Record):
    """Distances of points to the nearest training point of another class; None where there is no other class.

    Attributes:
        quantiles: distances by share, ``0.05``.
        hubs: the training points that are nearest to the most points.
        share_possible: the share of points for which the audit's epsilon is possible.
    """

    long: ClassVar[tuple[str, ...]] = ("points", "closest")

    norm: Norm
    points: int | None = None
    minimum: float | None
    radius: float | None
    quantiles: dict[str, float | None]
    hubs: tuple[HubFigures, ...]
    closest: tuple[PairFigures, ...] = ()
    share_possible: float


class RuleFigures(Record):
    """The nearest-neighbor rule on test points: right, and proved right within epsilon."""

    accuracy: float
    astuteness: float


class DimensionFigures(Record):
    """An estimate of the intrinsic dimension with its 95% interval, and what it depends on."""

    estimate: float
    low: float
    high: float
    method: str
    k: int
    points: int
    references: int


class CurveFigures(Record):
    """Distances to the nearest neighbor over the number of points, and the dimension by either law."""

    norm: Norm
    rows: tuple[NeighborRow, ...]
    dimension: Estimate
    dimension_linear: Estimate


class ShapeFigures(Record):
    """How the data lies in its space; None where the dataset is too small to measure it."""

    neighbor_curve: CurveFigures | None
    intrinsic_dimension: tuple[DimensionFigures, ...]
    interclass_distance: float | None
    components_for_variance: dict[str, int]


class AuditResult(StepResult):
    """What robustness the data itself allows at ``epsilon`` in ``norm``."""

    long: ClassVar[tuple[str, ...]] = ("verdict", "contradictory")

    name: str
    norm: Norm
    epsilon: float
    dimensions: int
    classes: tuple[str, ...]
    verdict: tuple[str, ...] = ()
    train: SeparationFigures
    test: SeparationFigures | None
    nearest_neighbor_rule: RuleFigures | None
    equal_inputs: int
    contradictory: tuple[EqualFigures, ...] = ()
    contradictory_count: int
    log2_volume: float | None
    log2_volume_without_box: float
    log10_samples: float | None
    shape: ShapeFigures | None

    def headline(self) -> str:
        """``separation 0.211``."""
        return "" if self.train.minimum is None else f"separation {self.train.minimum:.3g}"
