"""A folder of images by class: cat/1.png, dog/7.jpg, or the same below train/ and test/."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from radii.data.formats.reader import (
    IMAGES,
    TEST_NAMES,
    Reading,
    Side,
    Source,
    check_regular,
    class_numbers,
    entries_below,
    named_sides,
)
from radii.errors import InputError


@dataclass(frozen=True)
class ImageFiles:
    """One image per file; an :class:`Encoded`."""

    files: tuple[Path, ...]
    colored: bool | None = None

    def __len__(self) -> int:
        return len(self.files)

    def images(self, start: int, stop: int) -> Iterator[tuple[str, bytes]]:
        """The files start..stop-1."""
        for file in self.files[start:stop]:
            try:
                yield str(file), file.read_bytes()
            except OSError as error:
                raise InputError(f"The image {file} cannot be read: {error.strerror}.") from error


def read(path: Path, reading: Reading | None = None) -> Source:
    """Classes are the folders in alphabetical order; every image below a class folder belongs to it.

    A census is taken first: what is counted, what is left out, and every bad file at once.

    Args:
        path: the folder.
        reading: whether bad images are left out, and the size that all images get.

    Raises:
        InputError: images outside class folders, bad files, or images of several sizes.
    """
    from radii.data.formats.census import count_images  # Pillow is not needed where everything is decoded

    reading = reading or Reading()
    below = [entry.name for entry in path.iterdir() if entry.is_dir()]
    names = named_sides(below)
    if "train" in below and not names:
        raise InputError(f"{path} has a folder train but none called {', '.join(TEST_NAMES[:-1])} or {TEST_NAMES[-1]}.")
    roots = {side: path / name for side, name in names.items()} or {"all": path}
    listed = {side: _labelled_files(root) for side, root in roots.items()}
    every = [pair for pairs in listed.values() for pair in pairs]
    images = {file for _, file in every}
    others = [file for file in entries_below(path) if file not in images]
    census = count_images(str(path), every, others, _empty_folders(roots.values(), {word for word, _ in every}))
    census.check(reading.skip_bad, reading.fitted)
    listed = {side: [pair for pair in pairs if pair[1] not in census.bad] for side, pairs in listed.items()}
    words = tuple(sorted({word for pairs in listed.values() for word, _ in pairs}))
    labels, classes = class_numbers(
        [np.array([word for word, _ in pairs], str) for pairs in listed.values()], words, path
    )
    sides = {
        side: Side(y, ImageFiles(tuple(file for _, file in pairs), census.colored))
        for (side, pairs), y in zip(listed.items(), labels, strict=True)
    }
    skipped = (f"{len(census.bad)} bad images of {path} are left out.",) if census.bad else ()
    return Source(classes, sides, notes=(*census.notes, *skipped))


def _empty_folders(roots: Iterable[Path], words: set[str]) -> list[str]:
    """Class folders in which no image is."""
    folders = (entry for root in roots for entry in root.iterdir() if entry.is_dir())
    return sorted({entry.name for entry in folders if not entry.name.startswith(".")} - words)


def _labelled_files(root: Path) -> list[tuple[str, Path]]:
    """(class name, image file) of every image below the class folders of ``root``, in alphabetical order."""
    loose = [file for file in root.iterdir() if file.is_file() and file.suffix.lower() in IMAGES]
    if loose:
        raise InputError(f"The image {loose[0]} stands outside a class folder; put every image into one per class.")
    pairs = [
        (folder.name, file)
        for folder in sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        for file in entries_below(folder)
        if file.suffix.lower() in IMAGES and not file.name.startswith(".")
    ]
    for _, file in pairs:
        check_regular(file)
    return pairs
