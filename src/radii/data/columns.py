"""The columns of a table as a data frame has them, and the features that stand for them.

Numbers are features. Words are groups of features ``name=word`` of which one is 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError


@dataclass(frozen=True)
class Columns:
    """The columns of a table of numbers and words, and the features that stand for them.

    Args:
        names: of the columns, as the estimator knows them.
        places: the features of each column: one, or one for each word.
        words: of each column; empty for numbers.
        categories: of each column whose type pandas calls categorical, with all that the estimator was fitted to.
    """

    names: tuple[str, ...]
    places: tuple[tuple[int, ...], ...]
    words: tuple[tuple[Any, ...], ...]
    categories: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_frame(cls, frame: Any) -> Columns:
        """The columns of a data frame; numbers stay numbers, everything else is words."""
        places: list[tuple[int, ...]] = []
        words: list[tuple[Any, ...]] = []
        start = 0
        for name in frame.columns:
            values = frame[name]
            number = getattr(values.dtype, "kind", "O") in "iuf"
            own = () if number else tuple(sorted(set(values.tolist()), key=str))
            places.append(tuple(range(start, start + max(1, len(own)))))
            words.append(own)
            start += max(1, len(own))
        categories = {name: frame[name].dtype for name in frame.columns if hasattr(frame[name].dtype, "categories")}
        return cls(tuple(frame.columns), tuple(places), tuple(words), categories)

    @classmethod
    def of_features(cls, names: Sequence[str], groups: Sequence[Sequence[int]]) -> Columns:
        """The columns behind features called ``name=word`` in ``groups``, and the other features."""
        first = {group[0]: tuple(group) for group in groups if all("=" in names[place] for place in group)}
        inner = {place for group in first.values() for place in group}
        kept = [place for place in range(len(names)) if place in first or place not in inner]
        return cls(
            tuple(names[place].partition("=")[0] if place in first else names[place] for place in kept),
            tuple(first.get(place, (place,)) for place in kept),
            tuple(tuple(names[each].partition("=")[2] for each in first.get(place, ())) for place in kept),
        )

    @property
    def fixed(self) -> tuple[int, ...]:
        """The features of words."""
        pairs = zip(self.places, self.words, strict=True)
        return tuple(place for places, words in pairs if words for place in places)

    def features(self, frame: Any) -> NDArray[np.float32]:
        """The features [n, d] of the rows of ``frame``."""
        parts = []
        for name, words in zip(self.names, self.words, strict=True):
            values = frame[name].tolist()
            if not words and (empty := np.flatnonzero(np.isnan(np.array(values, float)))).size:
                raise InputError(
                    f"The column {name!r} has no number in row {empty[0]} ({empty.size} of {len(values)} rows): "
                    "fill them, or leave them out."
                )
            parts += [[float(value == word) for value in values] for word in words] if words else [values]
        return np.array(parts, np.float32).T.copy()

    def frame(self, features: NDArray[np.float32]) -> Any:
        """A data frame of ``features`` [n, d], with numbers as numbers and words as words."""
        import pandas

        flat = features.reshape(len(features), -1)
        content = {}
        for name, places, words in zip(self.names, self.places, self.words, strict=True):
            largest = flat[:, list(places)].argmax(1)
            content[name] = [words[k] for k in largest] if words else flat[:, places[0]].astype(np.float64)
        return pandas.DataFrame(content).astype(dict(self.categories))
