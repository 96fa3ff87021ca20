"""Decoded datasets on disk: memory-mapped arrays with their digests. A dataset is complete or not there.

::

    $RADII_CACHE/decoded/<key>/train-x.npy train-y.npy test-x.npy test-y.npy meta.json manifest.json
    $RADII_CACHE/datasets/<name>/       files fetched from the hub
    $RADII_CACHE/pca/                   principal components

A key hashes what the source is (names and contents of its files). A folder is
built under another name and renamed when it is complete; its manifest has the
checksums of its files, and a damaged folder is built again. Processes
that build the same key wait for each other by a file lock, which ends with its
process.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from filelock import BaseFileLock, FileLock
from numpy.typing import NDArray

from radii.data._feature_rules import FeatureRules
from radii.data.dataset import Data, Dataset
from radii.errors import InputError
from radii.files import MANIFEST, damage, write_manifest, write_whole
from radii.process import cache_folder
from radii.spec import read_json

REVISION = 1
SIDES = ("train", "test")
RULES = "rules.json"
Build = Callable[[Path], tuple[str, ...]]
folder = cache_folder


def has(identity: Mapping[str, Any]) -> bool:
    """Whether the cache has the decoded data of the source ``identity``, judged by the names of files only."""
    return (_place(identity) / MANIFEST).is_file()


def read(identity: Mapping[str, Any], name: str) -> Data | None:
    """The decoded data of the source ``identity``, called ``name``; None if the cache does not have it.

    Images stay on disk, memory-mapped, until they are used.
    """
    meta = read_meta(identity)
    if meta is None:
        return None
    place = _place(identity)
    train, test = (_open(place, side, tuple(meta["classes"]), name, meta["digests"][side]) for side in SIDES)
    return Data(train, test, name)


def _open(place: Path, side: str, classes: tuple[str, ...], name: str, digest: str | None = None) -> Dataset:
    x = np.load(place / f"{side}-x.npy", mmap_mode="r", allow_pickle=False)
    y = np.load(place / f"{side}-y.npy", allow_pickle=False)
    rules = FeatureRules.from_json((place / RULES).read_text(encoding="utf-8")) if (place / RULES).is_file() else None
    return Dataset(x, y, classes, f"{name} {side}", digest, rules)


def read_meta(identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """Classes, digests and sizes of the decoded source ``identity``; None unless every file is what was written."""
    place = _place(identity)
    if damage(place) is not None:
        return None
    return read_json(place / "meta.json", "a note of a decoded dataset")


def build(identity: Mapping[str, Any], name: str, fill: Build) -> Data:
    """Decode a source into the cache; if another process does so already, wait for it.

    Args:
        fill: ``fill(folder)`` writes the four arrays and returns the class names.
    """
    place = _place(identity)
    with writing(place), locked(place):
        present = read(identity, name)
        if present is not None:
            return present
        if has(identity):
            log = logging.getLogger("radii")
            log.warning("The decoded copy of %s is damaged (%s) and is built again.", name, damage(place))
        for dead in place.parent.glob(f".{place.name}.*.part"):  # left by a killed builder: we hold its lock
            shutil.rmtree(dead, ignore_errors=True)
        work = aside(place)
        work.mkdir()
        try:
            classes = fill(work)
            _seal(work, dict(identity), classes, name)
            _publish(work, place, identity)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    built = read(identity, name)
    assert built is not None, "a folder just built is complete"
    return built


def _publish(work: Path, place: Path, identity: Mapping[str, Any]) -> None:
    """Rename ``work`` to ``place`` in one step, unless another process did so first on a file system without locks."""
    shutil.rmtree(place, ignore_errors=True)  # it is incomplete, else it would have been read
    try:
        os.rename(work, place)
    except OSError:
        if read_meta(identity) is None:
            raise


def _seal(work: Path, identity: dict[str, Any], classes: tuple[str, ...], name: str) -> None:
    """Check the arrays, and write their digests and sizes beside them."""
    parts = {side: _open(work, side, classes, name) for side in SIDES}
    Data(parts["train"], parts["test"], name)  # refuses splits that do not fit together
    digests = {side: part.digest for side, part in parts.items()}
    sizes = {path.name: path.stat().st_size for path in work.glob("*.npy")}
    meta = {"identity": identity, "classes": classes, "digests": digests, "bytes": sizes}
    write_whole(work / "meta.json", json.dumps(meta, indent=1).encode())
    write_manifest(work)


def replace_array(path: Path, by: Path) -> None:
    """Put the array ``by`` in the place of ``path``, both in a folder that is not yet finished."""
    os.replace(by, path)


def new_array(path: Path, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """A writable memory-mapped .npy file ``path`` of ``dtype`` and ``shape``, with its space on disk reserved.

    Without the reservation a full disk would end the process by a bus error while it writes.
    """
    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def aside(path: Path) -> Path:
    """A name beside ``path`` for an unfinished file or folder."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make the folder of ``path``; within this context, a cache that cannot be written raises an InputError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError(str(error)) from error
        reason = error.strerror or str(error)
        raise InputError(
            f"The cache {folder()} cannot be written: {reason}. Set RADII_CACHE to a folder with room."
        ) from error


def locked(place: Path) -> BaseFileLock:
    """The lock of ``place``, a context manager: one process at a time holds it; it ends with its process."""
    return FileLock(place.with_name(f".{place.name}.lock"))


def _place(identity: Mapping[str, Any]) -> Path:
    text = json.dumps({"revision": REVISION, **identity}, sort_keys=True)
    return folder() / "decoded" / hashlib.sha256(text.encode()).hexdigest()[:24]
