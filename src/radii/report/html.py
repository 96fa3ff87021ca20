"""One self-contained HTML file: charts, tables and pictures that work offline.

The page runs under a content security policy that allows nothing from
anywhere: the two scripts and the style sheet are pinned by their sha256,
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

from radii.atomic import write_whole
from radii.report import charts
from radii.report.galleries import Gallery
from radii.report.theme import DARK, LIGHT
from radii.tables import ChartSpec, Table

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


Block = ChartSpec | Table | Gallery | Cards | Prose | Commands | Ledger


@dataclass(frozen=True)
class Section:
    """A titled part of the report; a section without a title is not in the table of contents."""

    title: str
    blocks: tuple[Block, ...]
    lead: str = ""


@dataclass(frozen=True)
class Report:
    """What the page says, from top to bottom."""

    title: str
    sections: tuple[Section, ...]
    subtitle: str = ""
    verdict: str = ""
    headline: tuple[Cards, ...] = ()


def write(report: Report, path: Path | str) -> Path:
    """Render a report into one file, written whole or not at all.

    Args:
        report: what the page says.
        path: the file.
    """
    path = Path(path)
    write_whole(path, render(report).encode())
    return path


def render(report: Report) -> str:
    """The page as text.

    Args:
        report: what the page shows, from top to bottom.

    Returns:
        One HTML file that needs nothing else.
    """
    sheet, page, vega = _asset("report.css"), _asset("report.js"), ""
    if any(isinstance(block, ChartSpec) for section in report.sections for block in section.blocks):
        vega = charts.vega_scripts()
    return (
        _environment()
        .get_template("report.html")
        .render(
            report=report,
            sheet=Markup(sheet),
            scripts=[Markup(script) for script in (vega, page) if script],
            policy=_policy([script for script in (vega, page) if script], sheet),
            themes=_json({"light": LIGHT.config(), "dark": DARK.config()}),
            anchors=_anchors(report.sections),
            kind=lambda block: type(block).__name__.lower(),
            live=lambda chart: _json(charts.live(chart)),
            still=lambda chart: _svg_uri(charts.svg(chart)),
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


@cache
def _environment() -> Environment:
    loader = PackageLoader("radii.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["together"] = lambda text: re.sub(
        r" ([=≤≥<>×]) ", "\u00a0\\1\u00a0", text
    )  # ε = 0.5 stays on one line
    return environment


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8").strip()
