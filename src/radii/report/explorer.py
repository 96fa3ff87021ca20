"""Points that a reader can look at one by one: a grid whose colors follow the radius, and all that is known of a point.

Every color, count and sentence is computed here, for each radius of the slider; the page only shows them.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from radii.report.picture_sheets import Sheet
from radii.tables import plain
from radii.untrusted_text import clean


@dataclass(frozen=True)
class State:
    """What a point can be: its name, what that means, and the tone in which the page colors it."""

    name: str
    meaning: str
    tone: str


@dataclass(frozen=True)
class Fact:
    """One thing to say of every point: a text, or the number of one of ``names``; None says nothing."""

    title: str
    values: Sequence[str | int | None]
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Shown:
    """A picture of every point: a tile of ``sheet``, -1 for none.

    With ``on`` the sheet has differences, which are added to the input's tile ``on`` of the sheet ``base``.
    """

    caption: str
    sheet: str
    tiles: Sequence[int]
    base: str = ""
    on: Sequence[int] = ()


@dataclass(frozen=True)
class View:
    """One way to look at the points: a model, or a pair of models.

    Attributes:
        states: number of the state of each point at each radius [radii, n].
        said: sentences about each radius.
        keys: by which points can be sorted; what is not finite comes last.
        pictures: beside those of the explorer.
        moved: of a table, the features after the attack [n, d], NaN in rows that nothing broke.
    """

    name: str
    states: NDArray[np.int64]
    said: Sequence[str]
    keys: Mapping[str, Sequence[float]] = field(default_factory=dict)
    facts: Sequence[Fact] = ()
    pictures: Sequence[Shown] = ()
    moved: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Explorer:
    """The points of a test, each a square in the color of its state.

    Attributes:
        rows: the number of each point in its split.
        radii: of the slider; one makes no slider.
        at: the number of the threat's radius among them.
        threat: the words for that radius.
        radius: what a radius is, as ``L2 radius``.
        features: of a table, the names and the values [n, d].
    """

    title: str
    states: Sequence[State]
    views: Sequence[View]
    rows: Sequence[int]
    labels: Sequence[int]
    classes: Sequence[str]
    radii: Sequence[str]
    at: int
    threat: str = ""
    radius: str = "radius"
    note: str = ""
    facts: Sequence[Fact] = ()
    keys: Mapping[str, Sequence[float]] = field(default_factory=dict)
    sheets: Mapping[str, Sheet] = field(default_factory=dict)
    pictures: Sequence[Shown] = ()
    features: tuple[Sequence[str], NDArray[np.float64]] | None = None

    def counts(self, view: int = 0) -> dict[str, int]:
        """How many points of a view are in each state at the threat's radius."""
        own = self.views[view].states[self.at]
        return {state.name: int((own == k).sum()) for k, state in enumerate(self.states)}

    def to_dict(self) -> dict[str, Any]:
        """As JSON data for the page, texts cleaned."""
        return {
            "states": [[clean(state.name), clean(state.meaning), state.tone] for state in self.states],
            "views": [_view(view) for view in self.views],
            "rows": [int(row) for row in self.rows],
            "labels": [int(label) for label in self.labels],
            "classes": [clean(name) for name in self.classes],
            "radii": list(self.radii),
            "at": self.at,
            "radius": self.radius,
            "threat": self.threat,
            "facts": [_fact(fact) for fact in self.facts],
            "keys": _keys(self.keys),
            "sheets": {name: sheet.to_dict() for name, sheet in self.sheets.items()},
            "pictures": [_shown(shown) for shown in self.pictures],
            "features": None
            if self.features is None
            else {"names": [clean(name) for name in self.features[0]], "rows": _numbers(self.features[1])},
        }

    def still(self, view: int = 0) -> str:
        """The grid at the threat's radius as a small picture, for a page that runs no scripts: a data URI."""
        own = self.views[view].states[self.at]
        columns = ceil(sqrt(3 * len(own)))
        pixels = np.full((ceil(len(own) / columns) * columns, 3), 255, np.uint8)
        tones = np.array([STILL[state.tone] for state in self.states], np.uint8)
        pixels[: len(own)] = tones[own[np.argsort(own, kind="stable")]]
        whole = pixels.reshape(-1, columns, 3).repeat(8, 0).repeat(8, 1)
        whole[::8], whole[:, ::8] = 255, 255
        file = io.BytesIO()
        Image.fromarray(whole).save(file, "PNG", optimize=True)
        return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


STILL = {  # the tones of the light page
    "proved": (0x21, 0x48, 0xB8),
    "open": (0xB7, 0xC2, 0xCF),
    "broken": (0xDE, 0x6C, 0x06),
    "wrong": (0x40, 0x33, 0x3C),
    "unknown": (0xEE, 0xF1, 0xF4),
    "won": (0x2F, 0x9E, 0x88),
}


def _view(view: View) -> dict[str, Any]:
    return {
        "name": clean(view.name),
        "runs": [_runs(states) for states in view.states.T],
        "said": [clean(text) for text in view.said],
        "keys": _keys(view.keys),
        "facts": [_fact(fact) for fact in view.facts],
        "pictures": [_shown(shown) for shown in view.pictures],
        "moved": None if view.moved is None else _numbers(view.moved),
    }


def _runs(states: NDArray[np.int64]) -> list[int]:
    """The states of a point along the radii, as the radius at which each begins and its number: ``[0, 1, 12, 2]``."""
    starts = np.flatnonzero(np.diff(states, prepend=-1))
    return [int(number) for start in starts for number in (start, states[start])]


def _fact(fact: Fact) -> dict[str, Any]:
    values = [clean(value) if isinstance(value, str) else plain(value) for value in fact.values]
    return {"title": clean(fact.title), "values": values, "names": [clean(name) for name in fact.names]}


def _shown(shown: Shown) -> dict[str, Any]:
    own = {"caption": clean(shown.caption), "sheet": shown.sheet, "tiles": [int(tile) for tile in shown.tiles]}
    return own | ({"base": shown.base, "on": [int(tile) for tile in shown.on]} if shown.base else {})


def _keys(keys: Mapping[str, Sequence[float]]) -> dict[str, list[float | None]]:
    return {clean(name): [plain(float(f"{value:.4g}")) for value in values] for name, values in keys.items()}


def _numbers(rows: NDArray[np.float64]) -> list[list[float] | None]:
    return [None if np.isnan(row).any() else [float(f"{value:.5g}") for value in row] for row in rows]
