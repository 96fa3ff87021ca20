"""A step on another machine: what is sent, what is computed there, what comes back.

There is no shared file system. The runs that a step needs, and data and model
files that only the sender has, are sent as archives; the committed run comes
back as one. Data and models are identified by content, so their paths do not
matter; named datasets must be on the machine already (``$RADII_DATA``). This
module does not know how the bytes travel.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from radii.data import cache, hub, sources, variant_chain
from radii.errors import InputError, reason
from radii.randomness import threads
from radii.runs.step import Step, from_json, plan
from radii.runs.store import Run, Store

LIMIT = 4_000_000_000  # bytes in one archive; data larger than this belongs on every machine, under $RADII_DATA


def pack(path: Path, limit: int = LIMIT) -> bytes:
    """A file, or a folder with all its regular files, as an archive: an uncompressed tar of nothing else.

    Args:
        limit: the most bytes that may be sent.
    """
    files = [path] if path.is_file() else sorted(inner for inner in path.rglob("*") if inner.is_file())
    size = sum(file.stat().st_size for file in files)
    if size > limit:
        raise InputError(
            f"{path} has {size / 1e9:.1f} GB, too much to send to another machine; put it there and name it "
            "(the folder of $RADII_DATA is searched)."
        )
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for file in files:
            entry = tarfile.TarInfo(file.name if path.is_file() else file.relative_to(path).as_posix())
            entry.size = file.stat().st_size
            with file.open("rb") as content:
                tar.addfile(entry, content)
    return archive.getvalue()


def unpack(archive: bytes, folder: Path, limit: int = LIMIT) -> list[Path]:
    """Write the files of an archive into ``folder``.

    Args:
        limit: the most bytes that may come.
    """
    if len(archive) > limit + 10_240 + len(archive) // 4:
        size, most = len(archive) / 1e9, limit / 1e9
        raise InputError(f"An archive of {size:.1f} GB came back, at most {most:.1f} were expected.")
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            entries = tar.getmembers()
            _check(entries, limit)
            return [_write(tar, entry, folder) for entry in entries]
    except tarfile.TarError as error:
        raise InputError(f"An archive cannot be read: {reason(error)}.") from error


def _check(entries: list[tarfile.TarInfo], limit: int) -> None:
    for entry in entries:
        path = PurePosixPath(entry.name)
        if not entry.isreg() or path.is_absolute() or not path.parts or ".." in path.parts or "\\" in entry.name:
            raise InputError(f"An archive holds {entry.name!r}, which is no plain file of its folder; it is refused.")
    size = sum(entry.size for entry in entries)
    if size > limit:
        raise InputError(f"An archive holds {size / 1e9:.1f} GB, at most {limit / 1e9:.1f} were expected.")


def _write(tar: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> Path:
    target = folder / entry.name
    target.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(entry)
    assert content is not None, "regular files have content"
    with target.open("xb") as file:
        while piece := content.read(1 << 20):
            file.write(piece)
    return target


Json = dict[str, Any]
NEEDED = ("spec.json", "result.json", "env.json")
PATHS = ("source", "path", "weights")  # fields of data and models that say where something is; none is hashed


def needed_runs(step: Step) -> list[Step]:
    """The steps whose runs must be sent before ``step`` can run elsewhere."""
    return plan(step.inputs())


def own_files(step: Step) -> dict[str, Path]:
    """Files and folders of data and models that the step reads, keyed by the path string used in the step.

    Hub datasets are not sent: every machine finds them by name.
    """
    paths = _paths(step.to_json())
    bases = {variant_chain.split(path)[0] if key == "source" else path for key, path in paths}
    named = {*hub.KNOWN, sources.BUNDLED}
    files = {base: Path(base).expanduser() for base in bases if base.replace("_", "-") not in named}
    return {base: path for base, path in files.items() if path.exists()}


def _paths(content: Any) -> list[tuple[str, str]]:
    """Every (key, path) of a step's JSON that says where something is."""
    if isinstance(content, list):
        return [pair for item in content for pair in _paths(item)]
    if not isinstance(content, dict):
        return []
    own = [(key, value) for key, value in content.items() if key in PATHS and isinstance(value, str)]
    return own + [pair for value in content.values() for pair in _paths(value)]


def perform(
    step_json: Json, runs: Mapping[str, bytes], data: Mapping[str, bytes], device: str = "cpu"
) -> tuple[str, bytes]:
    """Compute a step in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="radii-") as folder, threads(1):  # the bits are those of any executor
        store = Store(Path(folder) / "store", device)
        for run_id, archive in runs.items():
            unpack(archive, store.root / "runs" / run_id)
        places = {base: str(unpacked_once(archive)) for base, archive in data.items()}
        run = store.ensure(from_json(relocated(step_json, places)))
        return run.id, pack(run.folder)


def unpacked_once(archive: bytes) -> Path:
    """The file or folder of an archive of data, in the cache under its content's name; unpacked once per machine."""
    place = cache.folder() / "parcels" / hashlib.sha256(archive).hexdigest()[:24]
    if not place.is_dir():
        with cache.writing(place):
            work = cache.aside(place)
            unpack(archive, work)
            try:
                os.rename(work, place)
            except OSError:  # somebody else unpacked the same
                shutil.rmtree(work)
    inside = list(place.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_file() else place


def relocated(content: Any, places: Mapping[str, str]) -> Any:
    """A step's JSON with the paths of its files changed; paths are not part of a run's identity."""
    if isinstance(content, list):
        return [relocated(item, places) for item in content]
    if not isinstance(content, dict):
        return content
    changed = {key: relocated(value, places) for key, value in content.items()}
    for key in PATHS:
        path = changed.get(key)
        if isinstance(path, str):
            fitting = [base for base in places if path == base or path.startswith(f"{base}+")]
            if fitting:
                base = max(fitting, key=len)
                changed[key] = places[base] + path[len(base) :]
    return changed


def receive(step: Step, answer: tuple[str, bytes], store: Store) -> Run:
    """Commit a run that another machine computed."""
    run_id, archive = answer
    if run_id != step.run_id:
        raise InputError(f"{step.run_id} was asked for, {run_id} came back: the machines have different versions.")

    def fill(folder: Path) -> None:
        names = {path.name for path in unpack(archive, folder)}
        if missing := [name for name in NEEDED if name not in names]:
            raise InputError(f"The run {run_id} came back without {', '.join(missing)}.")
        if from_json(Run(folder).spec).run_id != step.run_id:
            raise InputError(f"The run {run_id} came back with the spec of another.")

    return store.adopt(step, fill)
