"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from radii.errors import InputError

CHARTS = (".png", ".svg", ".pdf", ".html")  # what a chart can be written as


def write_whole(path: Path, content: bytes) -> None:
    """Write a file by replace, so that a reader or a kill never meets half of it."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file to write.")
    aside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(content)
        aside.replace(path)
    except OSError as error:
        if path.parent.is_dir():
            aside.unlink(missing_ok=True)
        raise InputError(f"{path} cannot be written: {error.strerror}.") from error


def check_writable(path: Path) -> None:
    """Refuse a place that cannot be written before any work is done for it."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file to write.")
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{path} cannot be written: {folder} is no folder in which files can be made.")


def check_chart(path: Path) -> None:
    """Refuse a name that no chart can be written to, before any work is done for it."""
    if path.suffix.lower() not in CHARTS:
        raise InputError(f"A chart is written as .png, .svg, .pdf or .html, got {path.name!r} instead.")
    check_writable(path)
