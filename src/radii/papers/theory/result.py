"""What running a theorem leaves behind: predictions against measurements, a verdict, a picture.

A simulation is a function decorated with :func:`theorem`; it returns its
:class:`Evidence`, and the decorator adds what the catalog and the call know.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, ParamSpec

from radii.errors import InputError
from radii.papers.theory.statements import statement

P = ParamSpec("P")
Relation = Literal["=", "≤", "≥", "reported"]
SIGMAS = 4.0  # noise is allowed four standard errors: one false alarm in 16,000 rows


@dataclass(frozen=True)
class Row:
    """One line of the table: ``measured`` must stand in ``relation`` to ``predicted``, up to ``tolerance``.

    A row without a prediction only reports.
    """

    quantity: str
    measured: float
    relation: Relation = "reported"
    predicted: float | None = None
    tolerance: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the measurement agrees; NaN agrees with nothing."""
        if self.predicted is None:
            return True
        excess = self.measured - self.predicted
        return {
            "=": abs(excess) <= self.tolerance,
            "≤": excess <= self.tolerance,
            "≥": excess >= -self.tolerance,
            "reported": True,
        }[self.relation]

    @property
    def verdict(self) -> Literal["holds", "fails"]:
        """:attr:`holds` as a word."""
        return _word(self.holds)


def _word(holds: bool) -> Literal["holds", "fails"]:
    return "holds" if holds else "fails"


def equals(quantity: str, measured: float, predicted: float, tolerance: float) -> Row:
    """``measured = predicted ± tolerance``."""
    return Row(quantity, float(measured), "=", float(predicted), float(tolerance))


def at_most(quantity: str, measured: float, predicted: float, tolerance: float = 0.0) -> Row:
    """``measured ≤ predicted + tolerance``."""
    return Row(quantity, float(measured), "≤", float(predicted), float(tolerance))


def at_least(quantity: str, measured: float, predicted: float, tolerance: float = 0.0) -> Row:
    """``measured ≥ predicted − tolerance``."""
    return Row(quantity, float(measured), "≥", float(predicted), float(tolerance))


def reports(quantity: str, measured: float) -> Row:
    """A measurement that no statement predicts."""
    return Row(quantity, float(measured))


@dataclass(frozen=True)
class Mark:
    """One point of a picture; ``x`` is a number or a word."""

    x: float | str
    y: float
    series: str
    kind: Literal["measured", "predicted"]


def measured(x: float | str, y: float, series: str) -> Mark:
    """A mark that a simulation made."""
    return Mark(x, float(y), series, "measured")


def predicted(x: float | str, y: float, series: str) -> Mark:
    """A mark that a formula made."""
    return Mark(x, float(y), series, "predicted")


@dataclass(frozen=True)
class Chart:
    """A picture as tidy marks and the names of its axes; drawing is somebody else's work."""

    title: str
    x: str
    y: str
    marks: tuple[Mark, ...]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Evidence:
    """What a simulation found."""

    rows: tuple[Row, ...]
    chart: Chart


@dataclass(frozen=True)
class Result:
    """A theorem that was run: its statement, the parameters, the table, the picture, the verdict."""

    name: str
    statement: str
    source: str
    parameters: Mapping[str, Any]
    rows: tuple[Row, ...]
    chart: Chart

    @property
    def holds(self) -> bool:
        """Whether every row agrees with its prediction."""
        return all(row.holds for row in self.rows)

    @property
    def verdict(self) -> Literal["holds", "fails"]:
        """The last word."""
        return _word(self.holds)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON data; what is not a finite number is null."""
        table = [
            {
                "quantity": row.quantity,
                "predicted": _finite(row.predicted),
                "relation": row.relation,
                "measured": _finite(row.measured),
                "tolerance": _finite(row.tolerance),
                "holds": row.holds,
            }
            for row in self.rows
        ]
        return {
            "name": self.name,
            "statement": self.statement,
            "source": self.source,
            "parameters": {
                key: list(value) if isinstance(value, tuple) else value for key, value in self.parameters.items()
            },
            "rows": table,
            "verdict": self.verdict,
            "chart": {
                "title": self.chart.title,
                "x": self.chart.x,
                "y": self.chart.y,
                "marks": [{key: _finite(value) for key, value in asdict(mark).items()} for mark in self.chart.marks],
            },
        }


def _finite(value: Any) -> Any:
    if isinstance(value, bool | str) or value is None:
        return value
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if isinstance(value, int) else number


def theorem(name: str) -> Callable[[Callable[P, Evidence]], Callable[P, Result]]:
    """Make a simulation return a :class:`Result` under the catalog's ``name``."""
    says = statement(name)

    def wrap(simulate: Callable[P, Evidence]) -> Callable[P, Result]:
        signature = inspect.signature(simulate)

        @functools.wraps(simulate)
        def run(*args: P.args, **kwargs: P.kwargs) -> Result:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            evidence = simulate(*args, **kwargs)
            return Result(says.name, says.says, says.source, dict(bound.arguments), evidence.rows, evidence.chart)

        return run

    return wrap


def assume(condition: bool, assumption: str, came: object) -> None:
    """Refuse parameters outside a theorem's assumption, naming it."""
    if not condition:
        raise InputError(f"{assumption}, got {came} instead.")


def assume_positive(**counts: float) -> None:
    """Refuse counts and lengths that are not positive."""
    for name, count in counts.items():
        assume(count > 0, f"{name} must be positive", f"{count:g}")


def standard_error(values: Sequence[float] | Any) -> float:
    """Standard error of the mean of independent ``values``."""
    import numpy as np

    sample = np.asarray(values, dtype=np.float64)
    return float(sample.std(ddof=1) / math.sqrt(len(sample))) if len(sample) > 1 else math.inf


def proportion_error(p: float, trials: int) -> float:
    """Standard error of a share of ``trials`` independent draws whose probability is ``p``."""
    return math.sqrt(max(p * (1 - p), 0.0) / trials)
