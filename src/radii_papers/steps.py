"""The steps of the papers, which train nothing: simulate a theorem, compute a formula, measure a dataset."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from pydantic import Field

from radii.geometry.interclass import interclass_distance
from radii.geometry.neighbor_curve import neighbor_curve
from radii.geometry.spectrum import principal_spectrum
from radii.geometry.volume import log_volume, volume_range
from radii.runs.component_specs import DataSpec
from radii.runs.step import Step
from radii.runs.step_results import NeighborRow
from radii.runs.store import Workspace
from radii_papers.formulas import formula
from radii_papers.measurements import (
    FormulaResult,
    InterclassResult,
    NeighborDistancesResult,
    SpectrumResult,
    TheoryResult,
    VolumeResult,
)
from radii_papers.theory.statements import statement


class Theory(Step):
    """A theorem of the papers, simulated, with every parameter written out."""

    kind: ClassVar[str] = "theory"
    Result: ClassVar[type[TheoryResult]] = TheoryResult

    name: str
    arguments: dict[str, Any] = {}
    seed: int = 0

    @classmethod
    def of(cls, name: str, chosen: dict[str, Any] | None = None, seed: int = 0) -> Theory:
        """The step for a theorem.

        Args:
            name: as ``radii theory`` lists it.
            chosen: parameters that differ from the defaults of its simulation.
            seed: of all random draws.

        Raises:
            InputError: there is no theorem of that name.
        """
        parameters = inspect.signature(statement(name).simulation()).parameters
        defaults = {key: _listed(value.default) for key, value in parameters.items() if key != "seed"}
        return cls(name=name, arguments=defaults | (chosen or {}), seed=seed)

    def perform(self, work: Workspace) -> TheoryResult:  # noqa: ARG002
        """The table of predictions and measurements; the picture stays with ``radii theory``."""
        chosen = {key: tuple(value) if isinstance(value, list) else value for key, value in self.arguments.items()}
        return TheoryResult.model_validate(statement(self.name).simulation()(**chosen, seed=self.seed).to_dict())


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


class Formula(Step):
    """A formula of the papers, computed with this package's own functions (:mod:`radii_papers.formulas`)."""

    kind: ClassVar[str] = "formula"
    Result: ClassVar[type[FormulaResult]] = FormulaResult

    name: str
    seed: int = 0

    def perform(self, work: Workspace) -> FormulaResult:  # noqa: ARG002
        """Its figures by name."""
        return FormulaResult(figures=formula(self.name)(self.seed))


class MeasureVolume(Step):
    """How much room the box leaves to an Linf attacker, over the test split (Ding et al. 2019, Table 6)."""

    kind: ClassVar[str] = "volume"
    Result: ClassVar[type[VolumeResult]] = VolumeResult

    data: DataSpec
    epsilon: float = Field(gt=0)

    def perform(self, work: Workspace) -> VolumeResult:  # noqa: ARG002
        """Mean bits per image, and the range that any data of this size can have."""
        data = self.data.load()
        bits = log_volume(data.test.x, self.epsilon)
        low, high = volume_range(data.test.x[0].size, self.epsilon)
        return VolumeResult(mean=float(bits.mean()), low=low, high=high, images=len(bits))


class MeasureInterclassDistance(Step):
    """How far the classes of the test split lie apart on average, in L2 (Ding et al. 2019, Table 1)."""

    kind: ClassVar[str] = "interclass"
    Result: ClassVar[type[InterclassResult]] = InterclassResult

    data: DataSpec

    def perform(self, work: Workspace) -> InterclassResult:  # noqa: ARG002
        """The mean over the classes."""
        test = self.data.load().test
        return InterclassResult(mean=interclass_distance(test.x, test.y).mean)


class MeasureSpectrum(Step):
    """Shares of the training split's variance in bands of principal components (Prach & Lampert 2025, Table 1)."""

    kind: ClassVar[str] = "spectrum"
    Result: ClassVar[type[SpectrumResult]] = SpectrumResult

    data: DataSpec
    bands: tuple[tuple[int, int], ...]

    def perform(self, work: Workspace) -> SpectrumResult:  # noqa: ARG002
        """The share of each band, ``"1-16"``."""
        spectrum = principal_spectrum(self.data.load().train)
        return SpectrumResult(shares={f"{first}-{last}": spectrum.share(first, last) for first, last in self.bands})


class MeasureNeighborDistances(Step):
    """Distance of test points to the nearest of n training points, for growing n (Prach & Lampert 2025, section 12)."""

    kind: ClassVar[str] = "neighbor-distances"
    Result: ClassVar[type[NeighborDistancesResult]] = NeighborDistancesResult

    data: DataSpec
    queries: int = Field(2000, ge=2)
    distance: float = Field(1.0, gt=0, description="for which the number of points needed is extrapolated")

    def perform(self, work: Workspace) -> NeighborDistancesResult:  # noqa: ARG002
        """The curve, both estimates of the intrinsic dimension and log10 of the points needed."""
        data = self.data.load()
        curve = neighbor_curve(data.train.x, data.test.x[: self.queries], norm="l2")
        return NeighborDistancesResult(
            curve=tuple(NeighborRow.model_validate(row) for row in curve.rows()),
            dimension=curve.dimension,
            dimension_linear=curve.dimension_linear,
            log10_samples=curve.log10_samples(self.distance),
        )
