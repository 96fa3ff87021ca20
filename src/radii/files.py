"""Files: written whole or not at all, checked by manifests, and sealed where radii may replace them.

**Whole.** The content goes to a new file of a random name in the same folder, is synced
to disk, and takes the place of the old file by one rename. A reader, a kill or
a power cut meets the old content or the new content, never a part of one.
Devices, pipes and sockets cannot be replaced: they are written through.

**Manifests** hold the sha256 of every file of a folder.

**Seals.** A file whose name nobody typed (``report.html``, ``MODEL_CARD.md``) is replaced only if it is sealed. The
seal is a remark at the end of the file with the sha256 of all bytes before it: a comment of HTML, Markdown, SVG or
PDF, a chunk of text in a PNG. So a card that somebody edited is no longer radii's.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from zlib import crc32

from radii.errors import InputError
from radii.process import cache_folder
from radii.spec import read_json

CHARTS = (".png", ".svg", ".pdf", ".html")  # what a chart can be written as
PREFIX, SUFFIX = ".radii-", ".part"  # of an unfinished file; after a kill it may be removed
KERNEL_FOLDERS = ("/dev/", "/proc/")  # names there stand for open files, even where a regular file is behind them
MEMORY_FOLDER = "/dev/shm/"  # holds ordinary files
SYNCING = 16  # files for which a folder waits at once
LINKS = 40  # the longest chain of symbolic links that the kernel follows


def write_whole(path: Path, content: bytes, durable: bool = True) -> None:
    """Write ``content`` to ``path``; on failure the old file is as it was and nothing is left beside it.

    Args:
        path: where to write; missing folders are made, a symbolic link is followed to its target.
        content: all bytes of the file.
        durable: whether to wait until the content is on disk; False where :func:`sync_all` follows for many files.
    """
    with whole_file(path, durable) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path, durable: bool = True) -> Iterator[IO[bytes]]:
    """A binary file to fill; it becomes ``path`` when the block ends, and vanishes if the block raises.

    Args:
        path: where to write; missing folders are made, a symbolic link is followed to its target.
        durable: whether the content must survive a power cut; a cache of small notes need not.
    """
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder; give the name of a file to write.")
        if _is_special(path):
            with open(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not os.access(target, os.W_OK):
            raise InputError(f"{path} cannot be written: it is read-only.")
        with _beside(target, durable) as file:
            yield file
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error


@contextmanager
def _beside(target: Path, durable: bool) -> Iterator[IO[bytes]]:
    """A new file that is renamed to ``target`` at the end of the block; it has the mode of the file it replaces."""
    part = target.with_name(f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as file:
            yield file
            file.flush()
            with suppress(FileNotFoundError):
                _take_owner_and_mode(file.fileno(), target)
            if durable:
                os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if durable:
        sync(target.parent)


def _take_owner_and_mode(handle: int, former: Path) -> None:
    known = former.stat()
    with suppress(OSError):  # only root may give a file away
        os.fchown(handle, known.st_uid, known.st_gid)
    os.fchmod(handle, stat.S_IMODE(known.st_mode))


def sync(path: Path) -> None:
    """Wait until the file ``path``, or the names in the folder ``path``, are on disk, where the file system can."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def sync_all(paths: Iterable[Path]) -> None:
    """Wait until all of ``paths`` are on disk: the disk writes its journal once for all who wait, not for each."""
    with ThreadPoolExecutor(SYNCING) as pool:
        list(pool.map(sync, paths))


def _is_special(path: Path) -> bool:
    """Whether ``path`` leads to a device, a pipe, a socket or an open file of the kernel (``/dev/stdout``)."""
    place = path
    for _ in range(LINKS):
        name = os.path.abspath(place)
        if name.startswith(KERNEL_FOLDERS) and not name.startswith(MEMORY_FOLDER):
            return place.exists()
        if not place.is_symlink():
            break
        place = place.parent / os.readlink(place)
    return place.exists() and not place.is_file() and not place.is_dir()


def is_unfinished(path: Path) -> bool:
    """Whether ``path`` is the unfinished file of a killed writer."""
    return path.name.startswith(PREFIX) and path.name.endswith(SUFFIX)


def check_writable(path: Path) -> None:
    """Raise an InputError if ``path`` cannot be written, before any work is done for it."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file to write.")
    if _is_special(path):
        if not os.access(path, os.W_OK):
            raise InputError(f"{path} cannot be written: you may not write to it.")
        return
    target = Path(os.path.realpath(path))
    if target.exists() and not os.access(target, os.W_OK):
        raise InputError(f"{path} cannot be written: it is read-only.")
    folder = target.parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{path} cannot be written: {folder} is no folder in which files can be made.")


def check_chart(path: Path) -> None:
    """Raise an InputError if no chart can be written to ``path``, before any work is done for it."""
    if path.suffix.lower() not in CHARTS:
        raise InputError(f"A chart is written as .png, .svg, .pdf or .html, got {path.name!r} instead.")
    check_writable(path)


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


WORDS = "written by radii, sha256 "
PNG_START = b"\x89PNG\r\n\x1a\n"
PNG_END = b"\x00\x00\x00\x00IEND\xaeB`\x82"


def write_sealed(path: Path, content: bytes) -> None:
    """Write ``content`` and its seal to ``path``, whole or not at all.

    Args:
        content: HTML, Markdown, SVG, PDF or PNG; other binary formats get no seal.
    """
    write_whole(path, _sealed(content.removesuffix(PNG_END)))


def _is_sealed(path: Path) -> bool:
    """Whether radii wrote the file ``path`` and it has not changed since."""
    if not path.is_file():
        return False
    content = path.read_bytes()
    length = len(_seal(content))
    return length > 0 and content == _sealed(content[:-length])


def check_own(path: Path, way_out: str) -> None:
    """Refuse to replace a file that the user did not name, unless radii wrote it.

    Args:
        path: the file that a command would write by default.
    """
    if (path.exists() or path.is_symlink()) and not _is_sealed(path):
        raise InputError(f"{path} exists and is not as radii wrote it; {way_out}.")


def _sealed(body: bytes) -> bytes:
    return body + _seal(body)


def _seal(body: bytes) -> bytes:
    """What follows ``body``; its length depends on the format alone."""
    words = f"{WORDS}{hashlib.sha256(body).hexdigest()}".encode()
    if body.startswith(PNG_START):
        chunk = b"tEXtSoftware\x00" + words
        return (len(chunk) - 4).to_bytes(4, "big") + chunk + crc32(chunk).to_bytes(4, "big") + PNG_END
    if body.startswith(b"%PDF"):
        return b"% " + words + b"\n"
    if b"\x00" in body[:1024]:  # JPEG and WebP have no room for a remark behind the picture
        return b""
    return b"<!-- " + words + b" -->\n"
