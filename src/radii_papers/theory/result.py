"""What running a theorem leaves behind: predictions against measurements, a verdict, a picture.

A simulation is a function decorated with :func:`theorem`; it returns its
:class:`Simulation`, and the decorator adds what the catalog and the call know.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, ParamSpec, get_origin, get_type_hints

from radii.tables import ChartSpec, Field, Row, Rule, Table, listing, plain
from radii_papers.theory._lines import ResultRow, verdict_word
from radii_papers.theory.statements import statement

P = ParamSpec("P")


def measured(x: float | str, y: float, series: str) -> Row:
    """A mark that a simulation made; ``x`` is a number or a word."""
    return {"x": x, "y": float(y), "series": series, "kind": "measured"}


def predicted(x: float | str, y: float, series: str) -> Row:
    """A mark that a formula made."""
    return {"x": x, "y": float(y), "series": series, "kind": "predicted"}


def chart(title: str, x: str, y: str, marks: Sequence[Row], *, log_x: bool = False, log_y: bool = False) -> ChartSpec:
    """Bars over words, dots for measurements and lines for formulas over numbers."""
    across, height = Field("x", x, log=log_x), Field("y", y, log=log_y)
    simulated = [mark for mark in marks if mark["kind"] == "measured"]
    formula = [mark for mark in marks if mark["kind"] == "predicted"]
    if isinstance(marks[0]["x"], str):
        levels = [Rule(mark["y"], mark["series"]) for mark in formula]
        return ChartSpec("bars", simulated, across, height, "series", title, levels=levels)
    if simulated and formula:
        note = "Dots measured, lines predicted."
        return ChartSpec("points", simulated, across, height, "series", title, note, fit=formula)
    return ChartSpec("curves", simulated or formula, across, height, "series", title)


@dataclass(frozen=True)
class Simulation:
    """What a simulation found."""

    rows: tuple[ResultRow, ...]
    chart: ChartSpec


@dataclass(frozen=True)
class Result:
    """A theorem that was run: its statement, the parameters, the table, the picture, the verdict."""

    name: str
    statement: str
    source: str
    parameters: Mapping[str, Any]
    rows: tuple[ResultRow, ...]
    chart: ChartSpec
    takeaway: str

    @property
    def holds(self) -> bool:
        """Whether every row agrees with its prediction."""
        return all(row.holds for row in self.rows)

    @property
    def verdict(self) -> Literal["holds", "fails"]:
        """The last word."""
        return verdict_word(self.holds)

    @property
    def marks(self) -> tuple[Row, ...]:
        """The marks of the chart, measured and predicted."""
        levels = [predicted(self.chart.rows[0]["x"], level.at, level.label) for level in self.chart.levels]
        return (*self.chart.rows, *self.chart.fit, *levels)

    @property
    def table(self) -> Table:
        """Measurements beside predictions, for people."""
        settings = ", ".join(f"{key} = {_brief(value)}" for key, value in self.parameters.items())
        return listing(settings, ("quantity", "measured", "predicted", ""), [row.cells for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON data; what is not a finite number is null."""
        table = [
            {
                "quantity": row.quantity,
                "predicted": plain(row.predicted),
                "relation": row.relation,
                "measured": plain(row.measured),
                "tolerance": plain(row.tolerance),
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
            "takeaway": self.takeaway,
            "chart": {
                "title": self.chart.title,
                "x": self.chart.x.heading,
                "y": self.chart.y.heading,
                "marks": [{key: plain(value) for key, value in mark.items()} for mark in self.marks],
            },
        }


def _brief(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(_brief(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def theorem(name: str) -> Callable[[Callable[P, Simulation]], Callable[P, Result]]:
    """Make a simulation return a :class:`Result` and list its parameters in its docstring."""
    says = statement(name)

    def wrap(simulate: Callable[P, Simulation]) -> Callable[P, Result]:
        signature = inspect.signature(simulate)

        @functools.wraps(simulate)
        def run(*args: P.args, **kwargs: P.kwargs) -> Result:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            evidence = simulate(*args, **kwargs)
            return Result(says.name, says.says, says.source, dict(bound.arguments), evidence.rows, evidence.chart,
                says.takeaway)  # fmt: skip

        run.__doc__ = f"{simulate.__doc__}\n\n{_arguments(simulate)}"
        return run

    return wrap


def _arguments(simulate: Callable[..., Simulation]) -> str:
    """The sections ``Args``, ``Returns`` and ``Raises`` of a simulation, from the annotations of its parameters."""
    hints = get_type_hints(simulate, include_extras=True)
    lines = ["Args:"]
    for name, parameter in inspect.signature(simulate).parameters.items():
        meaning = hints[name].__metadata__[0] if get_origin(hints[name]) is Annotated else "of all random draws"
        lines.append(f"    {name}: {meaning}; default {parameter.default}.")
    lines += ["", "Returns:", "    Predictions beside measurements, a chart and the verdict."]
    lines += ["", "Raises:", "    InputError: parameters are outside the assumptions of the theorem."]
    return "\n".join(lines)
