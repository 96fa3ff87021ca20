"""sha256 of files: manifests tell damage, and digests are remembered while a file's state stays the same.

A manifest is the file ``manifest.json`` of a folder with the size and sha256 of
every other file. Reading large files again and again would be slow, so a digest is
remembered under a file's path, size, times of change and inode: copying
another file over it, even with equal size and mtime (``cp -p``, ``rsync -t``),
changes its ctime or its inode. A file that changed within the last two seconds is
not remembered, because a second change may leave the same times.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from radii.atomic import is_unfinished, sync_all, whole_file, write_whole
from radii.environment import cache_folder
from radii.errors import InputError
from radii.spec import read_json

MANIFEST = "manifest.json"
FORMAT = 1
SETTLED = 2.0  # seconds without change after which a file's times tell its next change
KEPT_ON_DISK = 1_000_000  # bytes; below that, hashing again is cheaper than remembering in a file

State = tuple[int, ...]
_remembered: dict[str, tuple[State, str]] = {}  # of this process, by absolute path


def sha256(path: Path) -> str:
    """The sha256 of the content of the file ``path`` in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests(root: Path, files: Iterable[Path], fresh: bool = False) -> dict[str, str]:
    """The sha256 of files below ``root``, by their paths relative to it.

    Args:
        root: the folder (or the one file) whose digests are remembered together.
        files: regular files at or below ``root``.
        fresh: read every file, whatever is remembered; default False.
    """
    states = {str(file.relative_to(root)): _state(file) for file in files}
    result = {} if fresh else _recall(root, states)
    missing = [name for name in states if name not in result]
    for name in missing:
        result[name] = sha256(root / name)
    settled = {name: (states[name], result[name]) for name in missing if _is_settled(states[name])}
    _remembered.update({os.path.abspath(root / name): note for name, note in settled.items()})
    if settled and _is_large(states):
        _write_notes(root, {**_read_notes(root), **settled})
    return {name: result[name] for name in states}


def known_digests(root: Path, files: Iterable[Path]) -> dict[str, str] | None:
    """As :func:`digests` of ``files`` below ``root``, without reading much; None if large files must be read."""
    states = {str(file.relative_to(root)): _state(file) for file in files}
    if not _is_large(states):
        return digests(root, [root / name for name in states])
    result = _recall(root, states)
    return result if len(result) == len(states) else None


def _recall(root: Path, states: dict[str, State]) -> dict[str, str]:
    """The digests that this process, or a note on disk, remembers of files in these states."""
    notes = {name: _remembered.get(os.path.abspath(root / name)) for name in states}
    if None in notes.values() and _is_large(states):
        written = _read_notes(root)
        notes = {name: note or written.get(name) for name, note in notes.items()}
    return {name: note[1] for name, note in notes.items() if note is not None and note[0] == states[name]}


def _is_large(states: dict[str, State]) -> bool:
    return sum(state[0] for state in states.values()) >= KEPT_ON_DISK


def write_manifest(folder: Path) -> None:
    """Write the manifest, the last file of a finished folder, and wait until it and all others are on disk.

    A power cut before the end may leave a manifest without some of its files; then its checksums tell.
    """
    files = _files(folder)
    entries = {str(file.relative_to(folder)): {"bytes": file.stat().st_size, "sha256": sha256(file)} for file in files}
    content = {"format": FORMAT, "files": entries}
    write_whole(folder / MANIFEST, json.dumps(content, indent=1, sort_keys=True).encode(), durable=False)
    sync_all([*files, folder / MANIFEST])


def damage(folder: Path, fresh: bool = False) -> str | None:
    """What is damaged in a folder that has a manifest, in a few words; None if every file is as it was written.

    Args:
        folder: a folder with a manifest; files that the manifest does not name are ignored.
        fresh: read every file, whatever is remembered.
    """
    try:
        entries = _entries(folder)
        for name, entry in entries.items():
            size = (folder / name).stat().st_size
            if size != entry["bytes"]:
                return f"{name} has {size:,} bytes instead of {entry['bytes']:,}"
        actual = digests(folder, [folder / name for name in entries], fresh)
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except OSError as error:
        return f"{Path(str(error.filename)).name} cannot be read: {error.strerror}"
    except InputError:
        return f"{MANIFEST} cannot be read"
    wrong = [name for name, entry in entries.items() if actual[name] != entry["sha256"]]
    return f"the content of {wrong[0]} has changed" if wrong else None


def _entries(folder: Path) -> dict[str, dict[str, Any]]:
    content = read_json(folder / MANIFEST, "a manifest")
    entries = content.get("files")
    whole = isinstance(entries, dict) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("bytes"), int)
        and isinstance(entry.get("sha256"), str)
        and not Path(name).is_absolute()
        and ".." not in Path(name).parts
        for name, entry in entries.items()
    )
    if content.get("format") != FORMAT or not whole:
        raise InputError(f"{folder / MANIFEST} is not a manifest of format {FORMAT}.")
    assert isinstance(entries, dict)
    return entries


def _files(folder: Path) -> list[Path]:
    named = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    return [path for path in named if not is_unfinished(path)]


def _state(path: Path) -> State:
    known = path.stat()
    return known.st_size, known.st_mtime_ns, known.st_ctime_ns, known.st_ino, known.st_dev


def _is_settled(state: State) -> bool:
    return time.time() - max(state[1], state[2]) / 1e9 > SETTLED


def _notes(root: Path) -> Path:
    name = hashlib.sha256(os.fsencode(os.path.abspath(root))).hexdigest()[:24]
    return cache_folder() / "digests" / f"{name}.json"


def _read_notes(root: Path) -> dict[str, tuple[State, str]]:
    try:
        content = read_json(_notes(root), "a note of digests")
        return {str(name): (tuple(state), str(digest)) for name, (state, digest) in content.items()}
    except (InputError, ValueError, TypeError):  # not there, or damaged: everything is read again
        return {}


def _write_notes(root: Path, notes: dict[str, tuple[State, str]]) -> None:
    with suppress(InputError), whole_file(_notes(root), durable=False) as file:  # a read-only cache costs time only
        file.write(json.dumps(notes).encode())
