"""One dimension: a smooth and a staircase classifier, both right on the data, one of them robust.

The picture of Yang et al. 2020: labelled points on a line, 2r apart. The smooth function interpolates the
labels -1 and 1 linearly, so it is 1/r-Lipschitz and right up to distance r. The staircase jumps just
beyond a point wherever the label changes: as accurate, and vulnerable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from radii.randomness import numpy_stream
from radii.runs.step import Step
from radii.runs.store import Workspace
from radii_papers.measurements import LineFigures, OneDimensionResult

Line = NDArray[np.float64]


@dataclass(frozen=True)
class LabelledLine:
    """Points 0, 2r, 4r, … with labels -1 and 1."""

    x: Line
    y: Line
    r: float

    @classmethod
    def drawn(cls, points: int, r: float, seed: int) -> LabelledLine:
        """``points`` points, labels drawn from ``seed``; the first two differ, so that both labels occur."""
        y = numpy_stream(seed, "labels").choice([-1.0, 1.0], points)
        y[:2] = -1.0, 1.0
        return cls(2 * r * np.arange(points, dtype=np.float64), y, r)

    def smooth(self, at: Line) -> Line:
        """Linear interpolation of the labels."""
        return np.interp(at, self.x, self.y)

    def staircase(self, at: Line, share: float) -> Line:
        """The label of the last point whose step, ``share`` of r to its right, is not passed."""
        jumps = self.x[:-1] + share * self.r
        return self.y[np.searchsorted(jumps, at)]

    def astuteness(self, values: Line, radius: float, grid: Line) -> float:
        """The share of points whose sign stays right on the grid within ``radius``; a tie is an error."""
        right = [(values[np.abs(grid - x) <= radius] * y > 0).all() for x, y in zip(self.x, self.y, strict=True)]
        return float(np.mean(right))


class OneDimension(Step):
    """Both classifiers on a line: curves, accuracy, steepness, and the share of points robust at a radius."""

    kind: ClassVar[str] = "one-dimension"
    Result: ClassVar[type[OneDimensionResult]] = OneDimensionResult

    points: int = Field(8, ge=3)
    r: float = Field(0.5, gt=0)
    share: float = Field(0.1, gt=0, lt=1, description="of r: how far beyond a point the staircase jumps")
    radius: float = Field(0.9, gt=0, lt=1, description="of r: the attacker's reach")
    seed: int = 0

    def perform(self, work: Workspace) -> OneDimensionResult:  # noqa: ARG002
        """The figures, and the curves to draw."""
        line = LabelledLine.drawn(self.points, self.r, self.seed)
        grid = np.linspace(line.x[0] - self.r, line.x[-1] + self.r, 2000 * self.points + 1)
        return OneDimensionResult(
            x=tuple(line.x),
            y=tuple(line.y),
            r=self.r,
            smooth=self._figures(line, line.smooth, grid),
            staircase=self._figures(line, lambda at: line.staircase(at, self.share), grid),
        )

    def _figures(self, line: LabelledLine, curve: Callable[[Line], Line], grid: Line) -> LineFigures:
        values, drawn = curve(grid), slice(None, None, 40)
        return LineFigures(
            accuracy=float(np.mean(curve(line.x) * line.y > 0)),
            astuteness=line.astuteness(values, self.radius * self.r, grid),
            steepness_times_r=float(np.max(np.abs(np.diff(values) / np.diff(grid)))) * self.r,
            curve=tuple(zip(grid[drawn].round(4), values[drawn].round(4), strict=True)),
        )
