"""What radii understands of a dataset before anything is decoded: format, splits, classes, shape, what is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from radii.data import sources, variant_chain
from radii.data.formats._reader import Side, format_of
from radii.tables import Table, Tabular, table


@dataclass(frozen=True, repr=False)
class Description(Tabular):
    """A dataset as radii reads it.

    Args:
        path: its file or folder; empty for the digits that scikit-learn ships.
        divided: the files have no test split; radii takes a fifth of each class.
    """

    name: str
    path: str
    format: str
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    counts: dict[str, tuple[int, ...]]
    divided: bool
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Description({self.name}: {' + '.join(str(sum(own)) for own in self.counts.values())} points)"

    def sentences(self) -> tuple[str, ...]:
        """Format, shape and splits in words, then the notes."""
        size = " x ".join(map(str, self.shape))
        shape = f"images of {size} (channels, height, width)" if len(self.shape) == 3 else f"rows of {size} features"
        first = f"{self.name} ({self.format}): {shape}, {len(self.classes)} classes."
        split = "The files have no test split: a fifth of each class is taken." if self.divided else ""
        return tuple(filter(None, (first, split, *self.notes)))

    def table(self) -> Table:
        """One line a class: its points in each split."""
        rows = [
            {"class": name, **{split: own[number] for split, own in self.counts.items()}}
            for number, name in enumerate(self.classes)
        ]
        total = {"class": "all", **{split: sum(own) for split, own in self.counts.items()}}
        return table([total, *rows], ["class", *self.counts], self.name)

    def summary(self) -> dict[str, Any]:
        """As plain JSON data."""
        counts = {split: dict(zip(self.classes, own, strict=True)) for split, own in self.counts.items()}
        return {**vars(self), "classes": list(self.classes), "shape": list(self.shape), "counts": counts}


def describe(name: str) -> Description:
    """Open a dataset and count; images are not decoded, except one for its shape.

    Args:
        name: a name, a path or ``hf:OWNER/NAME``; of variants those that set the size and the reading count.
    """
    base, chain = variant_chain.split(name)
    reading, _ = variant_chain.reading(chain)
    location = sources.locate(base).read_as(reading)
    source = sources.open_location(location)
    labels = {side: part.y for side, part in source.sides.items()}
    if divided := "all" in labels:
        rows = sources.split_rows(labels["all"], location.name)
        labels = {side: labels["all"][own] for side, own in zip(("train", "test"), rows, strict=True)}
    counts = {side: tuple(np.bincount(y, minlength=len(source.classes)).tolist()) for side, y in labels.items()}
    kind = "bundled" if location.path is None else format_of(location.path) or ""
    return Description(
        name,
        "" if location.path is None else str(location.path),
        kind,
        source.classes,
        _shape(next(iter(source.sides.values())), reading.steps),
        counts,
        divided,
        source.notes,
    )


def _shape(side: Side, steps: tuple[str, ...]) -> tuple[int, ...]:
    if not isinstance(side.x, np.ndarray):
        from radii.data.formats._decoding import shape_of

        return shape_of(side.x, steps)
    x = side.x[:1]
    for step in steps:
        x = variant_chain.parse(step).pixels_of(x)
    return tuple(x.shape[1:])
