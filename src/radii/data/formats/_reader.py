"""A source: the contents of a file or folder, opened but not decoded yet."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from radii.data._feature_rules import FeatureRules
from radii.errors import InputError
from radii.files import digests, known_digests

IMAGES = (
    ".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".dib", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm",
    ".pnm", ".jp2", ".j2k", ".avif", ".tga", ".pcx", ".sgi", ".qoi",
)  # fmt: skip
ACCEPTED = "a folder of images by class, a parquet file or folder, a CSV file, or an .npz file with x and y"
TABLES = (".csv", ".tsv", ".parquet")
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")
TEST_NAMES = ("test", "validation", "valid", "val")


class Encoded(Protocol):
    """Images that are still PNG, JPEG or WebP. It can be pickled: worker processes open the files themselves."""

    def __len__(self) -> int: ...

    def images(self, start: int, stop: int) -> Iterator[tuple[str, bytes]]:
        """Place (for error messages) and bytes of each of the images start..stop-1."""


@dataclass(frozen=True)
class Reading:
    """How a source is read.

    Args:
        label: the label column of a table; None for the usual names.
        steps: ``resize:…``, ``crop:…`` and ``gray``, applied to every image while it is decoded.
    """

    label: str | None = None
    skip_bad: bool = False
    steps: tuple[str, ...] = ()

    @property
    def fitted(self) -> bool:
        """Whether the steps give all images one size."""
        return any(step != "gray" for step in self.steps)

    def identity(self) -> dict[str, Any]:
        """What distinguishes arrays read so from those read plainly; empty for a plain reading."""
        plain = Reading()
        return {"reading": [self.label, self.skip_bad, *self.steps]} if self != plain else {}


@dataclass(frozen=True)
class Side:
    """One split of a source.

    Args:
        y: labels [n].
        x: inputs [n, …], or images that are still encoded.
    """

    y: NDArray[np.int64]
    x: NDArray[np.generic] | Encoded


@dataclass(frozen=True)
class Source:
    """Class names and splits of a source.

    Args:
        sides: ``train`` and ``test``, or ``all`` where the files have no split.
        notes: sentences that the user must read.
    """

    classes: tuple[str, ...]
    sides: dict[str, Side]
    rules: FeatureRules | None = None
    notes: tuple[str, ...] = ()


def identity(path: Path) -> dict[str, Any]:
    """The key of the source at ``path``: its resolved path, and the names and digests of its files.

    Contents are read once and remembered, see :mod:`radii.files`; links are followed.
    """
    return _identity(path, digests(path, regular_files(path)))


def known_identity(path: Path) -> dict[str, Any] | None:
    """As :func:`identity` of ``path``, without reading much; None if large files were not read before."""
    known = known_digests(path, regular_files(path))
    return None if known is None else _identity(path, known)


def _identity(path: Path, contents: dict[str, str]) -> dict[str, Any]:
    pictures = any(name.lower().endswith(IMAGES) for name in contents)  # read otherwise before a census was taken
    notes = path.with_suffix(".toml")
    noted = path.suffix.lower() in TABLES and notes.is_file()
    content = {"path": str(path.resolve()), "files": sorted(contents.items())} | ({"reader": 2} if pictures else {})
    return content | ({"notes": notes.read_bytes().hex()} if noted else {})


def regular_files(path: Path) -> list[Path]:
    """The file ``path``, or all regular files below the folder ``path``."""
    return [path] if path.is_file() else [file for file in entries_below(path) if file.is_file()]


def entries_below(folder: Path) -> list[Path]:
    """Everything below ``folder`` that is no folder, in alphabetical order.

    Links to folders are followed, except to a folder that is being listed: that would have no end.
    """
    return sorted(_below(folder, frozenset()))


def _below(folder: Path, above: frozenset[str]) -> Iterator[Path]:
    place = os.path.realpath(folder)
    if place in above:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _below(folder / entry.name, above | {place})
            else:
                yield folder / entry.name


def format_of(path: Path) -> str | None:
    """The format of ``path`` by its names only: parquet, npz or folder; None if it is no dataset."""
    if path.is_file():
        kinds = {".parquet": "parquet", ".npz": "npz", ".csv": "csv", ".tsv": "csv"}
        return kinds.get(path.suffix.lower())
    suffixes = {file.suffix.lower() for file in entries_below(path)}
    if ".parquet" in suffixes:
        return "parquet"
    return "folder" if suffixes & set(IMAGES) else None


def open_source(path: Path, reading: Reading | None = None) -> Source:
    """Open the dataset at ``path``, in any of the formats."""
    from radii.data.formats import _features as features
    from radii.data.formats import _folder as folder
    from radii.data.formats import _npz as npz
    from radii.data.formats import _parquet as parquet

    reading = reading or Reading()
    kind = format_of(path)
    if reading.label is not None and kind in ("npz", "folder"):
        raise InputError(f"--label names a column of a CSV or parquet file; {path} has none.")
    if kind == "parquet":
        return parquet.read(path, reading)
    if kind == "csv":
        return features.read_csv(path, reading)
    if kind == "npz":
        return npz.read(path)
    if kind == "folder":
        return folder.read(path, reading)
    if path.is_dir():
        kinds = Counter(file.suffix.lower() or "without an ending" for file in entries_below(path)).most_common(3)
        holds = f" ({', '.join(f'{count} {kind}' for kind, count in kinds)})" if kinds else ""
        raise InputError(f"The folder {path} holds neither parquet files nor images{holds}; a dataset is {ACCEPTED}.")
    remedy = "; unpack it first" if path.suffix.lower() in ARCHIVES else ""
    raise InputError(f"The file {path} is of no known format{remedy}; a dataset is {ACCEPTED}.")


def check_regular(file: Path) -> None:
    """Refuse a named pipe, socket or device before it is opened: reading one may never end."""
    if not file.is_file():
        raise InputError(f"{file} is not a regular file (a broken link, a pipe or a device); remove it.")


def named_sides(names: list[str]) -> dict[str, str]:
    """Which split name means train and which means test; empty if the names do not give both.

    >>> named_sides(["train", "validation"])
    {'train': 'train', 'test': 'validation'}
    """
    test = next((name for name in TEST_NAMES if name in names), None)
    return {"train": "train", "test": test} if "train" in names and test else {}


def class_numbers(
    labels: list[NDArray[Any]], names: tuple[str, ...] | None, where: Path
) -> tuple[list[NDArray[np.int64]], tuple[str, ...]]:
    """Labels of all splits as int64 class numbers, and the class names.

    Words are numbered in alphabetical order. Whole numbers keep their value; where
    there are no names, the classes are 0..largest label.

    Args:
        labels: one array per split.
        names: the class names in the file; None if it has none.
    """
    every = np.concatenate(labels)
    if every.dtype.kind in "US":
        words = names or tuple(sorted({str(word) for word in every}))
        number = {word: place for place, word in enumerate(words)}
        unknown = next((str(word) for word in every if str(word) not in number), None)
        if unknown is not None:
            raise InputError(f"The label {unknown!r} in {where} is not among the classes {', '.join(words)}.")
        return [np.array([number[str(word)] for word in part], np.int64) for part in labels], words
    if every.dtype.kind not in "iu":
        raise InputError(f"Labels in {where} must be whole class numbers or words, got {every.dtype} instead.")
    return _checked_numbers(labels, every, names, where)


def _checked_numbers(
    labels: list[NDArray[Any]], every: NDArray[Any], names: tuple[str, ...] | None, where: Path
) -> tuple[list[NDArray[np.int64]], tuple[str, ...]]:
    low, high = (int(every.min()), int(every.max())) if len(every) else (0, 0)
    count = len(names) if names else high + 1
    if low < 0 or high >= count:
        raise InputError(f"Labels in {where} must lie in 0..{count - 1}, got {low}..{high} instead.")
    if count > max(len(every), 2):
        raise InputError(f"Labels in {where} must be class numbers 0, 1, 2, …, got {high} among {len(every)} points.")
    return [part.astype(np.int64) for part in labels], names or tuple(str(label) for label in range(count))
