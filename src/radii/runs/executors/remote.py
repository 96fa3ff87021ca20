"""A step on another machine: what is sent, what is computed there, what comes back.

There is no shared file system. The runs that a step needs, and data and model
files that only the sender has, are sent as archives; the committed run comes
back as one. Data and models are identified by content, so their paths do not
matter; named datasets must be on the machine already (``$RADII_DATA``). This
module does not know how the bytes travel.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from radii.data import cache, hub, sources, variant_chain
from radii.errors import InputError
from radii.randomness import threads
from radii.runs.executors import archives
from radii.runs.step import Step, from_json, plan
from radii.runs.store import Run, Store

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
    """Compute a step in a temporary folder.

    Args:
        step_json: the step.
        runs: archives of the runs it needs, by run id.
        data: archives of data and models, by the path that the step names.
        device: where networks are trained.

    Returns:
        The run's id and the archive of its folder.
    """
    with tempfile.TemporaryDirectory(prefix="radii-") as folder, threads(1):  # the bits are those of any executor
        store = Store(Path(folder) / "store", device)
        for run_id, archive in runs.items():
            archives.unpack(archive, store.root / "runs" / run_id)
        places = {base: str(unpacked_once(archive)) for base, archive in data.items()}
        run = store.ensure(from_json(relocated(step_json, places)))
        return run.id, archives.pack(run.folder)


def unpacked_once(archive: bytes) -> Path:
    """The file or folder of an archive of data, in the cache under its content's name; unpacked once per machine."""
    place = cache.folder() / "parcels" / hashlib.sha256(archive).hexdigest()[:24]
    if not place.is_dir():
        with cache.writing(place):
            work = cache.aside(place)
            archives.unpack(archive, work)
            try:
                os.rename(work, place)
            except OSError:  # somebody else unpacked the same
                shutil.rmtree(work)
    inside = list(place.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_file() else place


def relocated(content: Any, places: Mapping[str, str]) -> Any:
    """A step's JSON with the paths of its files changed; paths are not part of a run's identity.

    Args:
        content: the JSON of a step, or a part of it.
        places: new path by old path.
    """
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
    """Commit a run that another machine computed.

    Args:
        step: the step that was sent.
        answer: run id and archive, as :func:`perform` returned them.
        store: where the run is committed.

    Raises:
        InputError: it is not the run that was asked for, or files are missing.
    """
    run_id, archive = answer
    if run_id != step.run_id:
        raise InputError(f"{step.run_id} was asked for, {run_id} came back: the machines have different versions.")

    def fill(folder: Path) -> None:
        names = {path.name for path in archives.unpack(archive, folder)}
        if missing := [name for name in NEEDED if name not in names]:
            raise InputError(f"The run {run_id} came back without {', '.join(missing)}.")
        if from_json(Run(folder).spec).run_id != step.run_id:
            raise InputError(f"The run {run_id} came back with the spec of another.")

    return store.adopt(step, fill)
