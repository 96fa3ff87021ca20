"""How checks read the cells of a study: by place and path, and a missing cell is named, never guessed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scipy.stats import spearmanr

from radii.runs.step_results import CertifiedSplit, CertifyResult, EvaluateResult, ProveResult, StepResult
from radii.studies.study import Measured
from radii_papers.measurements import NearbyAccuracyResult, TheoryResult

Coordinates = Mapping[str, str | int | float]
ABSENT = object()  # where a path ends before its last name


class NotMeasured(LookupError):  # noqa: N818
    """A cell or a figure that a claim needs is not among the results."""


@dataclass
class StudyCells:
    """The cells of a study."""

    measured: Sequence[Measured]
    complete: bool = True
    runs: list[str] = field(default_factory=list)

    def at(self, place: Coordinates) -> StepResult:
        """The result of the one cell at ``place`` (as many of its coordinates as tell it from others)."""
        cells = self._fitting(place)
        if len(cells) > 1:
            raise NotMeasured(f"single cell with {_words(place)}")
        return cells[0].result

    def every(self, place: Coordinates) -> list[Measured]:
        """All cells at ``place``."""
        if not self.complete:
            raise NotMeasured("complete set of cells")
        return self._fitting(place)

    def number(self, place: Coordinates, path: Sequence[str]) -> float:
        """A number of the one cell at a place."""
        return number(self.at(place), path)

    def least(self, place: Coordinates, path: Sequence[str]) -> float:
        """The least of the numbers of all cells at a place that are measured so far; NaN where one is NaN.

        Args:
            place: coordinates that they share.
        """
        numbers = [number(cell.result, path) for cell in self._fitting(place)]
        return math.nan if any(map(math.isnan, numbers)) else min(numbers)

    def counts(self) -> dict[str, int]:
        """Behind the cells that were read: the least number of ``points``, and the parameters of theorems by name."""
        results = [cell.result for cell in self.measured if cell.run in self.runs]
        points = [count for result in results for count in _points(result)]
        theorems = [result.parameters for result in results if isinstance(result, TheoryResult)]
        parameters = {name: value for own in theorems for name, value in own.items() if isinstance(value, int)}
        return {**parameters, **({"points": min(points)} if points else {})}

    def _fitting(self, place: Coordinates) -> list[Measured]:
        cells = [cell for cell in self.measured if place.items() <= dict(cell.place).items()]
        if not cells:
            raise NotMeasured(f"cell with {_words(place)}")
        self.runs += [cell.run for cell in cells if cell.run not in self.runs]
        return cells


def _points(result: StepResult) -> list[int]:
    """On how many points a result measures accuracies, where it says so."""
    match result:
        case EvaluateResult(clean=clean) | ProveResult(clean=clean) | CertifyResult(test=CertifiedSplit(clean=clean)):
            return [clean.total]
        case NearbyAccuracyResult(groups=groups):
            return [group.points for group in groups]
        case _:
            return []


def _words(place: Coordinates) -> str:
    return ", ".join(f"{key} {value}" for key, value in place.items()) or "any place"


def entry(result: Any, path: Sequence[str]) -> Any:
    """What stands at ``path`` in nested records; a mapping in them, as of figures by name, is read by key."""
    for name in path:
        result = result.get(name, ABSENT) if isinstance(result, Mapping) else getattr(result, name, ABSENT)
        if result is ABSENT:
            raise NotMeasured(f"entry {' / '.join(path)}")
    return result


def number(result: Any, path: Sequence[str]) -> float:
    """The number at ``path``; NaN where the result has null there."""
    value = entry(result, path)
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotMeasured(f"number at {' / '.join(path)}")
    return float(value)


def certified(result: StepResult, split: str, radius: float) -> float:
    """Certified accuracy that the step ``certify`` found on a split, ``train`` or ``test``, at a radius.

    By keys, as all checks read: tests try them on results whose numbers are no shares.
    """
    radii, measured = entry(result, ("radii",)), entry(result, (split,))
    shares = None if measured is None else entry(measured, ("certified",))
    for one, share in zip(radii, shares or (), strict=False):
        if math.isclose(one, radius, rel_tol=1e-6):
            return number(share, ("value",))
    raise NotMeasured(f"certified accuracy at radius {radius:.4g} of {split} points")


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rank correlation of two numbers per item; NaN where one side is constant or not a number."""
    if any(map(math.isnan, (*first, *second))) or min(len(set(first)), len(set(second))) < 2:
        return math.nan
    return float(spearmanr(first, second).statistic)


def spread(values: Sequence[float]) -> float:
    """The greatest less the least; NaN where one is not a number."""
    return math.nan if any(map(math.isnan, values)) else max(values) - min(values)
