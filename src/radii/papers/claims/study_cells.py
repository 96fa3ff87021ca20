"""How checks read the cells of a study: by place and path, and a missing cell is named, never guessed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from radii.studies.study import Measured

Coordinates = Mapping[str, str | int | float]


class NotMeasured(LookupError):  # noqa: N818
    """A cell or a figure that a claim needs is not among the results."""


@dataclass
class StudyCells:
    """The cells of a study.

    Args:
        measured: the cells that were measured.
        complete: whether these are all cells of the study.
        runs: collects the runs of the cells that were read.
    """

    measured: Sequence[Measured]
    complete: bool = True
    runs: list[str] = field(default_factory=list)

    def at(self, place: Coordinates) -> Mapping[str, Any]:
        """The result of the one cell at ``place`` (as many of its coordinates as tell it from others).

        Raises:
            NotMeasured: no cell or several cells fit.
        """
        cells = self._fitting(place)
        if len(cells) > 1:
            raise NotMeasured(f"single cell with {_words(place)}")
        return cells[0].result

    def every(self, place: Coordinates) -> list[Measured]:
        """All cells at ``place``.

        Raises:
            NotMeasured: no cell fits, or the study is not complete, so that cells may be missing.
        """
        if not self.complete:
            raise NotMeasured("complete set of cells")
        return self._fitting(place)

    def number(self, place: Coordinates, path: Sequence[str]) -> float:
        """A number of the one cell at a place.

        Args:
            place: as many coordinates as tell the cell from others.
            path: keys in its result.

        Raises:
            NotMeasured: there is no such cell, path or number.
        """
        return number(self.at(place), path)

    def _fitting(self, place: Coordinates) -> list[Measured]:
        cells = [cell for cell in self.measured if place.items() <= dict(cell.place).items()]
        if not cells:
            raise NotMeasured(f"cell with {_words(place)}")
        self.runs += [cell.run for cell in cells if cell.run not in self.runs]
        return cells


def _words(place: Coordinates) -> str:
    return ", ".join(f"{key} {value}" for key, value in place.items()) or "any place"


def entry(result: Any, path: Sequence[str]) -> Any:
    """What stands at ``path`` in nested mappings.

    Args:
        result: nested mappings, as JSON has them.
        path: the keys from the outermost to the innermost.

    Returns:
        The value there.

    Raises:
        NotMeasured: there is no such path.
    """
    for key in path:
        if not isinstance(result, Mapping) or key not in result:
            raise NotMeasured(f"entry {' / '.join(path)}")
        result = result[key]
    return result


def number(result: Any, path: Sequence[str]) -> float:
    """The number at ``path``; NaN where the result has null there.

    Raises:
        NotMeasured: there is no such path, or no number at it.
    """
    value = entry(result, path)
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotMeasured(f"number at {' / '.join(path)}")
    return float(value)


def certified(result: Mapping[str, Any], split: str, radius: float) -> float:
    """Certified accuracy on a split at a radius.

    Args:
        result: what the step ``certify`` returned: ``radii`` and, for each split, as many accuracies.
        split: ``train`` or ``test``.
        radius: one of the radii, up to rounding.

    Raises:
        NotMeasured: the results do not have this radius.
    """
    radii, values = entry(result, ("radii",)), entry(result, (split, "certified"))
    for one, share in zip(radii, values, strict=False):
        if math.isclose(one, radius, rel_tol=1e-6):
            return number(share, ("value",))
    raise NotMeasured(f"certified accuracy at radius {radius:.4g}")
