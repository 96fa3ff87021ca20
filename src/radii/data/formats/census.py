"""What is in a folder of images before any pixel is decoded: counted, left out, bad; from headers only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from radii.data.formats.decoding import Header, header
from radii.errors import InputError

SHOWN = 5


@dataclass(frozen=True)
class Census:
    """The images of a folder.

    Args:
        name: of the folder.
        classes: images by class.
        headers: what each readable image says of itself, by file.
        bad: files that cannot be read as an image, with the reason.
        left_out: files that are no images, by the end of their name.
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
        """Refuse bad files, all at once, and images of several sizes.

        Args:
            skip_bad: bad files are left out instead.
            fitted: a variant gives all images one size.

        Raises:
            InputError: with every fault of the folder in one sentence.
        """
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
        name: of the folder.
        labelled: class and file of every image.
        others: files that are no images.
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
