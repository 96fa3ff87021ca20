"""One self-contained HTML file: charts, tables and pictures that work offline.

The page runs under a content security policy that allows nothing from
anywhere: the scripts and the style sheet are pinned by their sha256,
images are data URIs, and vega interprets its expressions instead of
compiling them, so ``eval`` stays forbidden. Class and file names are
untrusted text: Jinja escapes them in the page, JSON blocks escape ``<``.
Without scripts, and on paper, each chart is the still picture under it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from radii.evaluation.accuracy import Accuracy, Bracket
from radii.files import write_sealed
from radii.report import charts
from radii.report._theme import DARK, LIGHT
from radii.report.explorer import Explorer
from radii.report.galleries import Gallery
from radii.tables import ChartSpec, Table
from radii.untrusted_text import clean

Tone = Literal["plain", "possible", "proved", "true", "broken"]


@dataclass(frozen=True)
class Card:
    """One figure of the headline; ``relation`` (``≤``) stands between this card and the next.

    A click on a card with a ``choice`` shows the statements of that status only; a second click shows all.
    """

    label: str
    value: str
    note: str = ""
    tone: Tone = "plain"
    relation: str = ""
    choice: str = ""


@dataclass(frozen=True)
class Bar:
    """The points of a model or of a class in one line: proved, open, broken, misclassified.

    Attributes:
        clean: right without a change.
        robust: the bracket at the threat's radius.
        ends: of the interval that is drawn; of the bracket by default.
        tag: what kind of model it is, as ``reference``.
        notes: what identifies it: a file, a hash, the attacks it met.
        tried: whether proofs were tried.
    """

    name: str
    clean: Accuracy
    robust: Bracket
    ends: tuple[float, float] | None = None
    tag: str = ""
    notes: tuple[str, ...] = ()
    tried: bool = True

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that is drawn."""
        return self.ends or self.robust.interval

    @property
    def parts(self) -> tuple[tuple[str, float, float], ...]:
        """Tone, start and width of each part, in percent."""
        total = self.clean.total
        marks = [0, self.robust.proved.correct, self.robust.unbroken.correct, self.clean.correct, total]
        tones = ("proved", "open", "broken", "wrong")
        return tuple(
            (tone, 100 * start / total, 100 * (end - start) / total)
            for tone, start, end in zip(tones, marks[:-1], marks[1:], strict=True)
            if end > start
        )

    @property
    def said(self) -> str:
        """``proved 76% to unbroken 80%``, or what is known of it."""
        proved, unbroken = self.robust.proved, self.robust.unbroken
        if not self.tried:
            return f"unbroken {unbroken.value:.0%}, no proofs"
        return f"proved {proved.value:.0%}, unbroken {unbroken.value:.0%}"


@dataclass(frozen=True)
class Bars:
    """Models or classes under one another, each with its :class:`Bar`; ``numbers`` are behind a click."""

    title: str
    bars: tuple[Bar, ...]
    note: str = ""
    numbers: Table | None = None


@dataclass(frozen=True)
class Issue:
    """One thing to know or to do: what, the evidence in counts, and a command to copy."""

    severity: Literal["high", "medium", "low"]
    title: str
    evidence: str
    command: str = ""


@dataclass(frozen=True)
class Issues:
    """What to do next, the most severe first."""

    issues: tuple[Issue, ...]
    title: str = "What to do next"


@dataclass(frozen=True)
class Cards:
    """Cards side by side: ``proved ≤ true ≤ broken``."""

    cards: tuple[Card, ...]
    title: str = ""


@dataclass(frozen=True)
class Prose:
    """A paragraph of plain text."""

    text: str


@dataclass(frozen=True)
class Commands:
    """Lines to type, and the environment they were typed in."""

    lines: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One statement. ``mark`` colors the verdict, ``figures`` stand below it, ``notes`` in small print.

    ``status`` is the word by which the page filters it.
    """

    mark: Literal["holds", "fails", "open"]
    verdict: str
    statement: str
    source: str
    notes: tuple[str, ...] = ()
    figures: Table | None = None
    status: str = ""


@dataclass(frozen=True)
class Ledger:
    """Statements with their verdicts under one another, to be filtered by a word."""

    entries: tuple[Entry, ...]


Block = ChartSpec | Table | Gallery | Cards | Bars | Issues | Explorer | Prose | Commands | Ledger


@dataclass(frozen=True)
class Section:
    """A titled part of the report; a section without a title is not in the table of contents.

    ``short`` is its name there; the title by default.
    """

    title: str
    blocks: tuple[Block, ...]
    lead: str = ""
    short: str = ""

    def rows(self) -> list[Mapping[str, Any]]:
        """The rows of its tables, as JSON data."""
        return [row for block in self.blocks if isinstance(block, Table) for row in block.to_dict()["rows"]]


@dataclass(frozen=True)
class Report:
    """What the page says, from top to bottom; ``facts`` are when and with what it was measured."""

    title: str
    sections: tuple[Section, ...]
    subtitle: str = ""
    verdict: str = ""
    headline: tuple[Block, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    def has(self, kind: type) -> bool:
        """Whether some block is of this kind."""
        blocks = [*self.headline, *(block for section in self.sections for block in section.blocks)]
        return any(isinstance(block, kind) for block in blocks)


def write(report: Report, path: Path | str) -> Path:
    """Render a report into one file, written whole or not at all."""
    path = Path(path)
    write_sealed(path, render(report).encode())
    return path


def render(report: Report) -> str:
    """The page as text."""
    scripts, sheet = [_asset("report.js")], _asset("report.css")
    if report.has(ChartSpec):
        scripts.insert(0, charts.vega_scripts())
    if report.has(Explorer):
        scripts.append(_asset("explorer.js"))
        sheet += "\n" + _asset("explorer.css")
    return (
        _environment()
        .get_template("report.html")
        .render(
            report=report,
            sheet=Markup(sheet),
            scripts=[Markup(script) for script in scripts],
            policy=_policy(scripts, sheet),
            themes=_json({"light": LIGHT.config(), "dark": DARK.config()}),
            anchors=_anchors(report.sections),
            kind=lambda block: type(block).__name__.lower(),
            live=lambda chart: _json(charts.live(chart)),
            still=lambda chart: _svg_uri(charts.svg(chart)),
            points=lambda explorer: _json(explorer.to_dict()),
        )
    )


def _policy(scripts: list[str], sheet: str) -> str:
    """Nothing from anywhere; scripts and style by content. Elements' style attributes stay forbidden too."""
    pinned = " ".join(_hash(script) for script in scripts)
    allowed = f"script-src {pinned}; style-src {_hash(sheet)}; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: Any) -> Markup:
    """JSON for a script block: no character of it can end the block or start a comment."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _svg_uri(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _anchors(sections: tuple[Section, ...]) -> list[str]:
    """One id per section, from its title; numbered, so that equal titles stay apart."""
    slugs = [re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") for section in sections]
    return [f"s{number}-{slug}" if slug else f"s{number}" for number, slug in enumerate(slugs, 1)]


def _shown(value: Any) -> Any:
    """A value of the page; text of strangers is cleaned, what radii itself wrote as HTML is not touched."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    loader = PackageLoader("radii.report")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters["together"] = lambda text: re.sub(
        r" ([=≤≥<>×]) ", "\u00a0\\1\u00a0", text
    )  # ε = 0.5 stays on one line
    return environment


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8").strip()
