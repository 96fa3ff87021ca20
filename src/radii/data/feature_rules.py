"""Which features of a table an adversary can change: not immutable ones, and no single column of a one-hot group.

A small TOML file beside the table says it (``adult.toml`` beside ``adult.csv``)::

    label = "income"
    drop = ["id"]
    immutable = ["age", "sex"]

    [one-hot]
    color = ["color_red", "color_green", "color_blue"]
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radii.errors import InputError, reason, unknown_name

KEYS = ("label", "drop", "immutable", "one-hot")


@dataclass(frozen=True)
class FeatureRules:
    """What may change in a row of features.

    Args:
        names: of the features.
        immutable: numbers of the features that keep their value.
        one_hot: numbers of the features of each group of which exactly one is 1.
    """

    names: tuple[str, ...] = ()
    immutable: tuple[int, ...] = ()
    one_hot: tuple[tuple[int, ...], ...] = ()

    @property
    def fixed(self) -> tuple[int, ...]:
        """Features that no perturbation changes.

        A category is left or changed as a whole, which is a step of 1 in Linf; balls of interest are smaller, so
        the columns of one-hot groups keep their values.
        """
        return tuple(sorted({*self.immutable, *(number for group in self.one_hot for number in group)}))

    def to_json(self) -> str:
        """As text, for the cache."""
        return json.dumps({"names": self.names, "immutable": self.immutable, "one_hot": self.one_hot})

    @classmethod
    def from_json(cls, text: str) -> FeatureRules:
        """Read what :meth:`to_json` wrote."""
        content = json.loads(text)
        groups = tuple(tuple(group) for group in content["one_hot"])
        return cls(tuple(content["names"]), tuple(content["immutable"]), groups)


@dataclass(frozen=True)
class TableNotes:
    """The TOML file beside a table: the label column, columns to leave out, and what may not change."""

    label: str | None = None
    drop: tuple[str, ...] = ()
    immutable: tuple[str, ...] = ()
    one_hot: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def rules(self, columns: Sequence[str], made: Sequence[Sequence[str]], where: Path) -> FeatureRules:
        """The rules for a table of these feature columns.

        Args:
            columns: the features, in order.
            made: groups of columns that were made from words; also written by the name before ``=``.
            where: the file, for error messages.

        Raises:
            InputError: a column that the notes name does not exist.
        """
        number = {name: place for place, name in enumerate(columns)}

        def place(name: str) -> tuple[int, ...]:
            own = tuple(number[column] for column in columns if column == name or column.startswith(f"{name}="))
            if not own:
                raise unknown_name(f"column of {where}", name, columns)
            return own

        immutable = [column for name in self.immutable for column in place(name)]
        groups = [tuple(column for name in group for column in place(name)) for _, group in self.one_hot]
        groups += [tuple(number[name] for name in group) for group in made]
        return FeatureRules(tuple(columns), tuple(sorted(set(immutable))), tuple(groups))


def read_notes(table: Path) -> TableNotes:
    """The notes beside ``table`` (the same name with .toml); empty if there are none.

    Raises:
        InputError: the file is not TOML, or has other keys or values.
    """
    path = table.with_suffix(".toml")
    if not path.is_file():
        return TableNotes()
    try:
        content = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path} is not TOML: {reason(error)}.") from error
    for key in content:
        if key not in KEYS:
            raise unknown_name(f"key of {path}", key, KEYS)
    groups = content.get("one-hot", {})
    label = content.get("label")
    if not (label is None or isinstance(label, str)) or not isinstance(groups, dict):
        raise InputError(f"{path}: label must be a word and one-hot a table of lists.")
    return TableNotes(
        label,
        _words(content.get("drop", []), "drop", path),
        _words(content.get("immutable", []), "immutable", path),
        tuple((name, _words(columns, f"one-hot.{name}", path)) for name, columns in groups.items()),
    )


def _words(values: Any, key: str, path: Path) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InputError(f"{path}: {key} must be a list of column names, got {values!r} instead.")
    return tuple(values)
