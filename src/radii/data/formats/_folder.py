"""A folder of images by class: cat/1.png, dog/7.jpg, or the same below train/ and test/."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from radii.data.formats._decoding import Header, header
from radii.data.formats._reader import (
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
    """
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
    skipped = (f"Images of {path} that cannot be read and are left out: {len(census.bad)}.",) if census.bad else ()
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


SHOWN = 5


@dataclass(frozen=True)
class Census:
    """The images of a folder.

    Args:
        empty: class folders without an image.
    """

    name: str
    classes: dict[str, int]
    headers: dict[Path, Header] = field(repr=False)
    bad: dict[Path, str] = field(repr=False)
    left_out: dict[str, int]
    empty: tuple[str, ...]

    @property
    def sizes(self) -> Counter[tuple[int, int]]:
        """How many images have each width and height, after rotation."""
        return Counter(head.size for head in self.headers.values())

    @property
    def colored(self) -> bool:
        """Whether any image has colors; then grey images get three equal channels."""
        return any(head.colored for head in self.headers.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user must know, as sentences; empty if everything is plain."""
        notes = []
        if self.left_out:
            kinds = ", ".join(f"{count} {kind or 'without an ending'}" for kind, count in self.left_out.items())
            notes.append(f"left out: {kinds}")
        if self.empty:
            notes.append(f"class folders without an image: {', '.join(self.empty)}")
        treated = Counter(word for head in self.headers.values() for word in head.treated)
        notes += [f"{count} {word}" for word, count in treated.items()]
        counted = f"{self.name}: {len(self.headers):,} images in {len(self.classes)} classes"
        return (f"{counted}; {'; '.join(notes)}.",) if notes else ()

    def check(self, skip_bad: bool, fitted: bool) -> None:
        """Refuse bad files, all at once, and images of several sizes."""
        if self.bad and not skip_bad:
            raise bad_images(self.name, [f"{file} ({reason})" for file, reason in self.bad.items()])
        sizes = sorted(self.sizes)
        if len(sizes) > 1 and not fitted:
            raise several_sizes(self.name, sizes)


def bad_images(name: str, faults: Sequence[str]) -> InputError:
    """The error for bad images of the dataset ``name``: the first of ``faults`` and their number."""
    shown = "; ".join(faults[:SHOWN]) + (f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else "")
    what = "1 image cannot" if len(faults) == 1 else f"{len(faults):,} images cannot"
    return InputError(f"{what} be read in {name}: {shown}. Mend them, or leave them out: --skip-bad ({name}+skip-bad).")


def several_sizes(name: str, sizes: Sequence[tuple[int, int]]) -> InputError:
    """The error for images of several ``sizes`` in the dataset ``name``, with the remedy."""
    (w, h), (wide, high) = sizes[0], sizes[-1]
    return InputError(
        f"All images of {name} must have one size, got {len(sizes)} sizes from {w} x {h} to {wide} x {high}. "
        f"Scale them: {name}+resize:64 (64 x 64), or {name}+resize:64x48; {name}+crop:64 takes the centers."
    )


def count_images(
    name: str, labelled: Sequence[tuple[str, Path]], others: Sequence[Path], empty: Sequence[str]
) -> Census:
    """Look at the header of every image.

    Args:
        empty: class folders without an image.
    """
    headers: dict[Path, Header] = {}
    bad: dict[Path, str] = {}
    classes: Counter[str] = Counter()
    for word, file in labelled:
        try:
            headers[file] = header(file)
            classes[word] += 1
        except InputError as error:
            bad[file] = str(error).removesuffix(".")
    kinds = Counter(file.suffix.lower() for file in others)
    return Census(name, dict(sorted(classes.items())), headers, bad, dict(kinds.most_common()), tuple(sorted(empty)))
