"""The vocabulary of results: fields, rows, tables and charts as data, without anything that draws them.

Everything that is shown is made of tidy rows, one dictionary for each line or
mark: ``{"radius": 0.1, "accuracy": 0.93, "low": 0.92, "high": 0.94, "model": "LeNet-5"}``.
A :class:`Field` says what one key of them means, a :class:`Table` lists rows and
a :class:`ChartSpec` says how to draw them. :mod:`radii.report` draws them, the
command line prints tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from fractions import Fraction
from html import escape
from importlib import import_module
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

from radii.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Row = Mapping[str, Any]
MISSING = "–"
RESAMPLES = 200  # of a bootstrap
MOST_LINES = 12  # of the table beside a curve


@dataclass(frozen=True)
class Estimate:
    """A number with the ends of its interval; the function that returns it says which interval."""

    value: float
    low: float
    high: float

    def summary(self) -> dict[str, float]:
        """As JSON data."""
        return asdict(self)

    @classmethod
    def bootstrap(
        cls, statistic: Callable[[NDArray[np.float64]], float], sample: NDArray[np.float64], rng: np.random.Generator
    ) -> Estimate:
        """``statistic`` of ``sample`` [n, …] with the 95% percentile interval over resampled rows.

        Args:
            sample: one row for each independent unit.
        """
        import numpy as np

        count = len(sample)
        again = [statistic(sample[rng.integers(0, count, count)]) for _ in range(RESAMPLES)]
        low, high = np.quantile(again, [0.025, 0.975])
        return cls(statistic(sample), float(low), float(high))


@dataclass(frozen=True)
class Field:
    """One key of tidy rows: its title, how its values are written, and where its interval stands.

    Args:
        title: the heading of a column or an axis; None takes the name, with spaces.
        percent: the value is a share, written with one decimal.
        points: the value is a difference of shares, written in percentage points (pp) with one decimal.
        from_zero: a vertical axis of this field begins at zero; False where only differences matter.
        low: key of the lower end of the value's interval; empty without an interval.
        high: key of the upper end.
        digits: significant digits of plain numbers; default 3.
        toward: ``down`` for what is proved, ``up`` for what is broken, so that no table says more than is known.
    """

    name: str
    title: str | None = None
    percent: bool = False
    points: bool = False
    radius: bool = False
    log: bool = False
    from_zero: bool = True
    low: str = ""
    high: str = ""
    digits: int = 3
    toward: Toward = "nearest"

    @property
    def heading(self) -> str:
        """The title, or the name with spaces."""
        return self.name.replace("_", " ") if self.title is None else self.title

    def text(self, row: Row) -> str:
        """The value with its interval as text.

        >>> Field("a", percent=True, low="l", high="h").text({"a": 0.931, "l": 0.925, "h": 0.936})
        '93.1% [92.5, 93.6]'
        """
        value = plain(row.get(self.name))
        if isinstance(value, bool):
            return "yes" if value else "no"
        if not isinstance(value, int | float):
            return MISSING if value is None else str(value)
        ends = [plain(row.get(end)) for end in (self.low, self.high) if end]
        interval = f" [{', '.join(self._number(end) for end in ends)}]" if ends and None not in ends else ""
        return self._number(value) + ("%" if self.percent else " pp" if self.points else "") + interval

    def _number(self, value: float) -> str:
        if self.percent or self.points:
            return f"{100 * value:.1f}"
        if self.radius:
            return format_radius(value)
        if isinstance(value, int):
            return f"{value:,}"
        value = value if self.toward == "nearest" else round_toward(value, self.digits, self.toward)
        if value == 0 or 1e-4 <= abs(value) < 10**6:
            decimals = self.digits - 1 - math.floor(math.log10(abs(value))) if value else self.digits - 1
            return f"{value:,.{max(decimals, 0)}f}"
        return f"{value:.{self.digits - 1}e}"


@dataclass(frozen=True)
class Table:
    """Rows under fields. In print the first column and columns of words read left, numbers align right."""

    fields: tuple[Field, ...]
    rows: tuple[Row, ...]
    title: str = ""
    note: str = ""

    @property
    def headings(self) -> tuple[str, ...]:
        """The title of every column."""
        return tuple(field.heading for field in self.fields)

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """Every value as text, row by row."""
        return tuple(tuple(field.text(row) for field in self.fields) for row in self.rows)

    @property
    def words(self) -> tuple[int, ...]:
        """The columns in which some cell is neither a number, with one word at most, nor missing."""
        number, word, cells = re.compile(r"[-−]?\d|" + MISSING), re.compile(r"[^\W\d_]{2,}"), self.cells
        columns = zip(*cells, strict=True) if cells else ()
        numeric = [all(number.match(cell) and len(word.findall(cell)) <= 1 for cell in column) for column in columns]
        return tuple(k for k, is_numeric in enumerate(numeric) if not is_numeric)

    def select(self, *names: str, title: str | None = None) -> Table:
        """The columns of these names alone, in this order; under another title if one is given."""
        known = {field.name: field for field in self.fields}
        return Table(tuple(known[name] for name in names), self.rows, self.title if title is None else title, self.note)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data: ``title``, ``note``, ``fields`` and ``rows``; what is not a finite number is null."""
        return {
            "title": self.title,
            "note": self.note,
            "fields": [{"name": field.name, "title": field.heading} for field in self.fields],
            "rows": [{key: plain(value) for key, value in row.items()} for row in self.rows],
        }

    def to_frame(self) -> Any:
        """As a pandas DataFrame: a column for every key of the rows, values unrounded."""
        try:
            import pandas
        except ImportError:
            raise InputError("to_frame needs pandas, which is not installed; pip install pandas.") from None
        return pandas.DataFrame([dict(row) for row in self.rows])

    def to_html(self) -> str:
        """As an HTML table, for notebooks; every text is escaped."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.headings)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self.cells)
        rows = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        return f"<table><caption>{escape(self.title)}</caption>{rows}</table><p>{escape(self.note)}</p>"

    _repr_html_ = to_html

    def __repr__(self) -> str:
        return f"Table({self.title!r}, {len(self.rows)} rows of {', '.join(self.headings)})"

    def to_markdown(self) -> str:
        """As a table in Markdown; ``|`` within a cell is escaped."""
        lines = [self.headings, ["---"] * len(self.fields), *self.cells]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)

    def to_latex(self) -> str:
        """As a ``tabular`` with the rules of the package booktabs; the title and the note are comments above it."""
        columns = "".join("l" if k in {0, *self.words} else "r" for k in range(len(self.fields)))
        head, *body = (" & ".join(map(_latex, line)) + r" \\" for line in (self.headings, *self.cells))
        remarks = [f"% {line}" for text in (self.title, self.note) for line in text.splitlines()]
        lines = [r"\begin{tabular}{" + columns + "}", r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
        return "\n".join([*remarks, *lines, r"\end{tabular}"])


_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "≤": r"$\le$", "≥": r"$\ge$", "±": r"$\pm$", "×": r"$\times$", "−": "$-$", "–": "--",
    "…": r"\dots{}",
    "ε": r"$\varepsilon$", "∞": r"$\infty$", "σ": r"$\sigma$", "δ": r"$\delta$", "·": r"$\cdot$", "\n": " ",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}  # fmt: skip


def _latex(text: str) -> str:
    """``text`` as LaTeX prints it; a name of a class or a file is no command."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


class Tabular:
    """A result that is also a table: notebooks show it, pandas takes it."""

    def table(self) -> Table:
        """The result as a table."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame, values unrounded."""
        return self.table().to_frame()

    def _repr_html_(self) -> str:
        return self.table().to_html()


SHARE = Field("share", "share of points", percent=True)


@dataclass(frozen=True)
class Rule:
    """A labeled line across a chart: an epsilon, a published figure, a goal."""

    at: float
    label: str = ""


@dataclass(frozen=True)
class Span:
    """A shaded part of the x axis with its label: where nothing is said."""

    start: float
    end: float
    label: str


@dataclass(frozen=True)
class ChartSpec:
    """A chart as data: which fields of which rows are drawn, and the finding as its title.

    Args:
        kind: ``curves`` (lines; bands where y has an interval), ``points`` and ``bars`` (whiskers), ``histogram``.
        rows: a row for each mark; of a histogram for each point.
        x: the field across; names stand in the order of the rows.
        y: the field upwards; of a histogram the share of points, which is computed.
        series: key of what has a color of its own; empty for one color.
        first_color: the theme's color of the first series; a color has one meaning on a page.
        fit: rows of the same fields, drawn as lines below points; with bands if they have y's interval.
        numbers: the table beside the chart; None makes it from the rows.
    """

    kind: Literal["curves", "bars", "points", "histogram"]
    rows: Sequence[Row]
    x: Field
    y: Field = SHARE
    series: str = ""
    title: str = ""
    note: str = ""
    dash: str = ""
    first_color: int = 0
    step: bool = False
    fit: Sequence[Row] = ()
    rules: Sequence[Rule] = ()
    levels: Sequence[Rule] = ()
    shade: Span | None = None
    bins: int = 40
    numbers: Table | None = None

    def __repr__(self) -> str:
        return f"ChartSpec({self.kind}, {len(self.rows)} rows, {self.title!r})"

    def _repr_html_(self) -> str:  # drawing stands above this vocabulary, so it is named, not imported
        words = f"<b>{escape(self.title)}</b><br>{escape(self.note)}"
        return f"<figure><figcaption>{words}</figcaption>{import_module('radii.report.charts').svg(self)}</figure>"

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        return Table((), tuple(self.rows)).to_frame()

    @property
    def splits(self) -> tuple[Field, ...]:
        """The fields that tell one line or bar from another: series and dash."""
        return tuple(Field(name) for name in (self.series, self.dash) if name)

    @property
    def groups(self) -> dict[str, list[float]]:
        """The finite values of x of each series, under its name; of all rows under no name."""
        groups: dict[str, list[float]] = {}
        for row in self.rows:
            value = plain(row.get(self.x.name))
            if value is not None:
                groups.setdefault(_label(row, self.splits), []).append(value)
        return groups

    def table(self) -> Table:
        """The numbers that the chart shows: a dozen lines of a curve, the quantiles of a histogram."""
        if self.numbers is not None:
            return self.numbers
        if self.kind == "histogram":
            return quantiles(self.groups, self.x)
        if self.kind == "points":
            return table(self.rows[:200], [*self.splits, self.x, self.y])
        return pivot(self.rows, self.x, self.splits, self.y, [rule.at for rule in self.rules])


def table(rows: Iterable[Row], fields: Sequence[Field | str], title: str = "", note: str = "") -> Table:
    """A table of ``rows`` and ``fields`` with ``title`` and ``note``; a bare name stands for ``Field(name)``."""
    return Table(tuple(field(which) for which in fields), tuple(rows), title, note)


def listing(title: str, headings: Sequence[str], lines: Iterable[Sequence[object]]) -> Table:
    """A table of words called ``title``: ``lines`` of cells in order of ``headings``; some may be empty or equal."""
    once = [heading if heading and headings.count(heading) == 1 else "" for heading in headings]
    names = [heading or f"column {number}" for number, heading in enumerate(once, 1)]
    rows = []
    for line in lines:
        if len(line) != len(names):
            raise InputError(f"A row of a table must have {len(names)} cells, got {len(line)} instead.")
        rows.append(dict(zip(names, map(str, line), strict=True)))
    return Table(tuple(Field(name, title) for name, title in zip(names, headings, strict=True)), tuple(rows), title)


def pivot(rows: Sequence[Row], index: Field, series: Sequence[Field], value: Field, at: Sequence[float] = ()) -> Table:
    """``rows`` as one line per value of ``index`` and one column of ``value`` per series; at most a dozen lines.

    ``at`` lists index values that must stay: the nearest present one is kept.
    """
    lines = distinct(plain(row.get(index.name)) for row in rows)
    lines = sorted(lines) if all(isinstance(line, int | float) for line in lines) else lines
    names = distinct(_label(row, series) for row in rows)
    cells: dict[Any, dict[str, Any]] = {line: {index.name: line} for line in lines}
    for row in rows:
        line, label = plain(row.get(index.name)), _label(row, series)
        if line is not None:
            keys = {"": value.name, " low": value.low, " high": value.high}
            cells[line] |= {_key(value, label) + end: row.get(key) for end, key in keys.items() if key}
    columns = [
        Field(
            _key(value, name),
            name or value.heading,
            percent=value.percent,
            low=value.low and _key(value, name) + " low",
            high=value.high and _key(value, name) + " high",
            digits=value.digits,
        )
        for name in names
    ]
    return table([cells[line] for line in _thinned(lines, at)], [index, *columns])


def quantiles(groups: Mapping[str, Sequence[float]], value: Field) -> Table:
    """Quantiles of each of ``groups``, formatted as the field ``value``: a histogram in numbers."""
    import numpy as np

    marks = {"min": 0.0, "5%": 0.05, "median": 0.5, "95%": 0.95, "max": 1.0}
    rows = [
        {"series": name or "all", "points": len(values)}
        | {mark: float(np.quantile(values, share)) for mark, share in marks.items()}
        for name, values in groups.items()
    ]
    columns = [Field(mark, percent=value.percent, digits=value.digits) for mark in marks]
    return table(rows, [Field("series", value.heading), "points", *columns])


def field(which: Field | str) -> Field:
    """``which`` itself if it is a field, or the field of that name."""
    return which if isinstance(which, Field) else Field(which)


def plain(value: Any) -> Any:
    """A JSON value: numpy and torch scalars unwrapped, numbers that are not finite become None."""
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each of ``values`` once, in order of first appearance, without None."""
    return [value for value in dict.fromkeys(values) if value is not None]


def _key(value: Field, label: str) -> str:
    return f"{value.name}, {label}" if label else value.name


def _label(row: Row, series: Sequence[Field]) -> str:
    return ", ".join(str(plain(row[which.name])) for which in series if row.get(which.name) is not None)


def _thinned(lines: list[Any], at: Sequence[float]) -> list[Any]:
    if len(lines) <= MOST_LINES:
        return lines
    kept = {round(k * (len(lines) - 1) / (MOST_LINES - 1)) for k in range(MOST_LINES)}
    if all(isinstance(line, int | float) for line in lines):
        kept |= {min(range(len(lines)), key=lambda k: abs(lines[k] - mark)) for mark in at}
    return [lines[k] for k in sorted(kept)]


def listed(words: Sequence[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


Toward = Literal["nearest", "down", "up"]
_ROUNDING = {"nearest": ROUND_HALF_EVEN, "down": ROUND_FLOOR, "up": ROUND_CEILING}


def format_radius(radius: float) -> str:
    """``8/255`` where the radius is a whole number of grey levels, else a short decimal."""
    levels = radius * 255
    if radius and levels < 255 and abs(levels - round(levels)) < 1e-6 and float(f"{radius:.3g}") != radius:
        return f"{round(levels)}/255"
    return f"{radius:.10g}"


def round_toward(value: float, digits: int, toward: Toward = "nearest") -> float:
    """``value`` with so many significant digits.

    Args:
        value: a number; infinity and NaN stay as they are.
        toward: ``down`` for a proved radius, ``up`` for a broken one, ``nearest`` for everything else.

    >>> round_toward(0.04689, 2), round_toward(0.04689, 2, "down"), round_toward(0.0461, 2, "up")
    (0.047, 0.046, 0.047)
    """
    if not isfinite(value):
        return value
    return float(Context(prec=digits, rounding=_ROUNDING[toward]).create_decimal_from_float(value))


def parse_number(text: str) -> float:
    """The number in ``text``, a decimal number or a fraction; every number that :func:`format_radius` writes.

    >>> parse_number("8/255") * 255
    8.0
    """
    try:
        return float(Fraction(text.strip())) if "/" in text else float(text)
    except ZeroDivisionError:
        raise ValueError("divides by zero") from None
    except OverflowError:
        raise ValueError("is too large") from None
    except ValueError:
        raise ValueError("is not a number") from None
