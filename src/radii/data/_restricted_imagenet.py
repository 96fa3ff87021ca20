"""Restricted ImageNet: nine groups of ImageNet's classes (Tsipras et al. 2019), from an ImageNet folder of one's own.

ImageNet may not be passed on, so nothing is fetched: a folder ``imagenet`` in
``$RADII_DATA`` with ``train/`` and ``val/`` of one folder for each of the 1,000 classes becomes
``restricted-imagenet``, a folder of images by group. Files are linked, not copied, where the disk allows it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from radii.errors import InputError

WHOLE = "imagenet"  # its name in ``$RADII_DATA``
CLASSES = 1000
# First and last class of each group, by place in the alphabetical order of ImageNet's class folders, counted from 0.
GROUPS: dict[str, tuple[int, int]] = {
    "dog": (151, 268),
    "cat": (281, 285),
    "frog": (30, 32),
    "turtle": (33, 37),
    "bird": (80, 100),
    "primate": (365, 382),
    "fish": (389, 397),
    "crab": (118, 121),
    "insect": (300, 319),
}
SPLITS = ("train", "val")


def link_groups(imagenet: Path, target: Path) -> Path:
    """Make a folder of images by group from an ImageNet folder.

    Args:
        imagenet: has ``train/`` and ``val/`` with a folder for each of the 1,000 classes.
        target: the folder to make; one that is there already is kept.
    """
    if target.exists():
        return target
    folders = {split: _classes(imagenet / split) for split in SPLITS}
    unfinished = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        for split, classes in folders.items():
            for group, (first, last) in GROUPS.items():
                own = unfinished / split / group
                own.mkdir(parents=True)
                for folder in classes[first : last + 1]:
                    _link_files(folder, own)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def _classes(split: Path) -> list[Path]:
    """The class folders in alphabetical order."""
    if not split.is_dir():
        raise InputError(f"An ImageNet folder has train/ and val/, but there is no folder {split}.")
    classes = sorted(entry for entry in split.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if len(classes) != CLASSES:
        raise InputError(
            f"{split} must have a folder for each of ImageNet's {CLASSES:,} classes, got {len(classes)} instead."
        )
    return classes


def _link_files(folder: Path, target: Path) -> None:
    """Every file of a class under its group; the class stands before its name, so names stay different."""
    for file in sorted(folder.iterdir()):
        if file.is_file() and not file.name.startswith("."):
            to = target / f"{folder.name}-{file.name}"
            try:
                os.link(file, to)
            except OSError:  # another disk, or one without links
                shutil.copyfile(file, to)
