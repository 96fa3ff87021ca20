"""How an adversary can change the features of a table: which ones, in which units, and what they can become.

A small TOML file beside the table says it (``adult.toml`` beside ``adult.csv``)::

    label = "income"
    drop = ["id"]
    immutable = ["age", "sex"]
    integer = ["children"]
    increasing = ["years_employed"]
    swap = ["color"]

    [one-hot]
    color = ["color_red", "color_green", "color_blue"]

    [scale]
    salary = 1000
    debt = 500

    [range]
    debt = [0, 50000]

    [[relation]]
    weights = { debt = 1, salary = -2 }
    at-most = 0
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError, reason, unknown_name
from radii.feature_limits import ANYTHING, FeatureLimits, Relation, one_hot
from radii.spec import LARGEST

WORDS = ("drop", "immutable", "integer", "increasing", "decreasing", "swap")
KEYS = ("label", *WORDS, "one-hot", "scale", "range", "relation")
SIDES = {"at-least": ("low",), "at-most": ("high",), "equals": ("low", "high")}


@dataclass(frozen=True)
class FeatureRules:
    """What may change in a row of features.

    Args:
        one_hot: numbers of the features of each group of which exactly one is 1; those in ``limits`` may change.
        scale: for each feature the change that counts as 1; empty where nothing is said.
        limits: what features can become, whatever the radius.
    """

    names: tuple[str, ...] = ()
    immutable: tuple[int, ...] = ()
    one_hot: tuple[tuple[int, ...], ...] = ()
    scale: tuple[float, ...] = ()
    limits: FeatureLimits = ANYTHING

    @property
    def fixed(self) -> tuple[int, ...]:
        """Features that no perturbation changes: the immutable ones, and categories that may not be swapped."""
        kept = set(self.one_hot) - set(self.limits.groups)
        return tuple(sorted({*self.immutable, *(number for group in kept for number in group)}))

    @property
    def restricts(self) -> bool:
        """Whether a ball on this table differs from one without rules."""
        return bool(self.fixed or self.scale) or not self.limits.all_allowed

    def to_json(self) -> str:
        """As text, for the cache and the digest; what is not said is left out, so that older digests stay."""
        content: dict[str, Any] = {"names": self.names, "immutable": self.immutable, "one_hot": self.one_hot}
        if self.scale:
            content["scale"] = self.scale
        if not self.limits.all_allowed:
            content["limits"] = self.limits.canonical()
        return json.dumps(content)

    @classmethod
    def from_json(cls, text: str) -> FeatureRules:
        """Read what :meth:`to_json` wrote."""
        content = json.loads(text)
        groups = tuple(tuple(group) for group in content["one_hot"])
        limits = FeatureLimits(**content.get("limits", {}))
        return cls(
            tuple(content["names"]), tuple(content["immutable"]), groups, tuple(content.get("scale", ())), limits
        )

    def check_rows(self, x: NDArray[np.float32], where: Path) -> None:
        """Refuse a table ``x`` [n, d] with a row that breaks its own rules, in one sentence."""
        for feature in self.limits.whole:
            _check_column(x[:, feature] == np.rint(x[:, feature]), x, feature, self.names, where, "no whole number")
        for feature, low, high in self.limits.ranges:
            inside = (x[:, feature] >= low) & (x[:, feature] <= high)
            _check_column(inside, x, feature, self.names, where, f"outside its range [{low:g}, {high:g}]")
        for group in self.limits.groups:
            names = ", ".join(self.names[feature] for feature in group)
            if not (held := one_hot(x[:, list(group)])).all():
                raise InputError(f"{where}: row {int(np.argmin(held)) + 1} has no single 1 among {names}.")
        for relation in self.limits.relations:
            held = relation.holds(x.astype(np.float64))
            if not held.all():
                terms = " + ".join(f"{weight:g} {self.names[feature]}" for feature, weight in relation.weights)
                raise InputError(
                    f"{where}: row {int(np.argmin(held)) + 1} breaks the relation {relation.low:g} <= {terms} <= "
                    f"{relation.high:g} of {where.with_suffix('.toml').name}."
                )


def _check_column(
    held: NDArray[np.bool_], x: NDArray[np.float32], feature: int, names: Sequence[str], where: Path, fault: str
) -> None:
    if not held.all():
        row = int(np.argmin(held))
        raise InputError(
            f"{where}: {names[feature]} of row {row + 1} is {x[row, feature]:g}, which is {fault}; "
            f"{where.with_suffix('.toml').name} says otherwise."
        )


@dataclass(frozen=True)
class TableNotes:
    """The TOML file beside a table: the label column, columns to leave out, and how the others may change."""

    label: str | None = None
    drop: tuple[str, ...] = ()
    immutable: tuple[str, ...] = ()
    integer: tuple[str, ...] = ()
    increasing: tuple[str, ...] = ()
    decreasing: tuple[str, ...] = ()
    swap: tuple[str, ...] = ()
    one_hot: tuple[tuple[str, tuple[str, ...]], ...] = ()
    scale: tuple[tuple[str, float], ...] | float = ()
    ranges: tuple[tuple[str, float, float], ...] = ()
    relations: tuple[tuple[tuple[tuple[str, float], ...], float, float], ...] = ()

    def rules(self, columns: Sequence[str], made: Sequence[Sequence[str]], where: Path) -> FeatureRules:
        """The rules for a table of these feature columns.

        Args:
            made: groups of columns that were made from words; also written by the name before ``=``.
        """
        number = {name: place for place, name in enumerate(columns)}

        def place(name: str) -> tuple[int, ...]:
            inside = dict(self.one_hot).get(name, ())
            own = tuple(number[c] for c in columns if c == name or c in inside or c.startswith(f"{name}="))
            if not own:
                raise unknown_name(f"column of {where}", name, columns)
            return own

        def places(names: Sequence[str]) -> tuple[int, ...]:
            return tuple(sorted({column for name in names for column in place(name)}))

        groups = [tuple(column for name in group for column in place(name)) for _, group in self.one_hot]
        groups += [tuple(number[name] for name in group) for group in made]
        swapped = tuple(self._group(name, place(name), groups, where) for name in self.swap)
        limits = FeatureLimits(
            whole=places(self.integer),
            rising=places(self.increasing),
            falling=places(self.decreasing),
            ranges=tuple((column, low, high) for name, low, high in self.ranges for column in place(name)),
            relations=tuple(
                Relation(weights=tuple((place(name)[0], weight) for name, weight in weights), low=low, high=high)
                for weights, low, high in self.relations
            ),
            groups=swapped,
        )
        rules = FeatureRules(tuple(columns), places(self.immutable), tuple(groups), limits=limits)
        return replace(rules, scale=self._scales(rules, place, where))

    def _group(
        self, name: str, features: tuple[int, ...], groups: Sequence[tuple[int, ...]], where: Path
    ) -> tuple[int, ...]:
        """The one-hot group called ``name``, which may change."""
        found = next((group for group in groups if set(group) == set(features)), None)
        if found is None or len(found) < 2:
            raise InputError(
                f"{where.with_suffix('.toml')}: swap names columns of words and groups of [one-hot], and {name} has "
                "no two categories."
            )
        if name in self.immutable:
            raise InputError(f"{where.with_suffix('.toml')}: {name} is both immutable and in swap.")
        return found

    def _scales(self, rules: FeatureRules, place: Callable[[str], tuple[int, ...]], where: Path) -> tuple[float, ...]:
        """The scale of every feature; all that can change must be named, or the number counts for all."""
        if not isinstance(self.scale, tuple):
            return (self.scale,) * len(rules.names)
        if not self.scale:
            return ()
        scales = {column: scale for name, scale in self.scale for column in place(name)}
        left = (name for column, name in enumerate(rules.names) if column not in {*scales, *rules.fixed})
        missing = list(dict.fromkeys(name.partition("=")[0] for name in left))
        if missing:
            raise InputError(
                f"[scale] of {where.with_suffix('.toml')} misses {', '.join(missing)}: give each of them the change "
                "that counts as 1, or make it immutable."
            )
        return tuple(scales.get(column, 1.0) for column in range(len(rules.names)))


def read_notes(table: Path) -> TableNotes:
    """The notes beside ``table`` (the same name with .toml); empty if there are none."""
    path = table.with_suffix(".toml")
    if not path.is_file():
        return TableNotes()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path} is not TOML: {reason(error)}.") from error
    for key in content:
        if key not in KEYS:
            raise unknown_name(f"key of {path}", key, KEYS)
    label = content.get("label")
    if not (label is None or isinstance(label, str)):
        raise InputError(f"{path}: label must be a word, got {label!r} instead.")
    lists = {key: _words(content.get(key, []), key, path) for key in WORDS}
    groups = _table(content, "one-hot", path)
    return TableNotes(
        label,
        **lists,
        one_hot=tuple((name, _words(columns, f"one-hot.{name}", path)) for name, columns in groups.items()),
        scale=_scale(content, path),
        ranges=tuple((name, *_range(ends, name, path)) for name, ends in _table(content, "range", path).items()),
        relations=tuple(_relation(entry, path) for entry in _relation_list(content, path)),
    )


def _table(content: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
    table = content.get(key, {})
    if not isinstance(table, dict):
        raise InputError(f"{path}: {key} must be a table with one line for each column, got {table!r} instead.")
    return table


def _number(value: Any, what: str, path: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise InputError(f"{path}: {what} must be a finite number, got {value!r} instead.")
    return float(value)


def _scale(content: dict[str, Any], path: Path) -> tuple[tuple[str, float], ...] | float:
    """A scale for each column, or one number for all."""
    one = isinstance(content.get("scale"), int | float)
    scales = {"every column": content["scale"]} if one else _table(content, "scale", path)
    for name, value in scales.items():
        if not _number(value, f"the scale of {name}", path) > 0:
            raise InputError(f"{path}: the scale of {name} must be positive, got {value:g} instead.")
    return float(content["scale"]) if one else tuple((name, float(value)) for name, value in scales.items())


def _range(ends: Any, name: str, path: Path) -> tuple[float, float]:
    if not isinstance(ends, list) or len(ends) != 2:
        raise InputError(f"{path}: range.{name} must be [least, greatest], got {ends!r} instead.")
    clipped = (min(max(end, -LARGEST), LARGEST) if isinstance(end, float) else end for end in ends)  # inf: no limit
    low, high = (_number(end, f"range.{name}", path) for end in clipped)
    if low > high:
        raise InputError(f"{path}: range.{name} must be [least, greatest], got {ends!r} instead.")
    return low, high


def _relation_list(content: dict[str, Any], path: Path) -> list[Any]:
    entries = content.get("relation", [])
    if not isinstance(entries, list):
        raise InputError(f"{path}: write each relation as [[relation]], got {entries!r} instead.")
    return entries


def _relation(entry: Any, path: Path) -> tuple[tuple[tuple[str, float], ...], float, float]:
    """``weights`` of columns and one or two of ``at-least``, ``at-most``, ``equals``."""
    ends = {"low": -LARGEST, "high": LARGEST}
    keys = set(entry) if isinstance(entry, dict) else set()
    if "weights" not in keys or not keys & set(SIDES) or keys - {"weights", *SIDES}:
        raise InputError(
            f"{path}: a relation has weights = {{ COLUMN = NUMBER, … }} and at-least, at-most or equals, got {entry!r}."
        )
    weights = _table(entry, "weights", path)
    for key in keys & set(SIDES):
        ends |= dict.fromkeys(SIDES[key], _number(entry[key], key, path))
    return tuple((name, _number(weight, name, path)) for name, weight in weights.items()), ends["low"], ends["high"]


def _words(values: Any, key: str, path: Path) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InputError(f"{path}: {key} must be a list of column names, got {values!r} instead.")
    return tuple(values)
