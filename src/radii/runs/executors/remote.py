"""A step on another machine: what travels there, what is done there, what comes back.

There is no shared file system: runs that a step needs and data that only the
sender has go along as parcels, and the committed run comes back as one. Data
is named by content, so it does not matter where it lies; named datasets must
be on the machine already (``$RADII_DATA``). Nothing here knows how the bytes travel.
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
from radii.runs.inputs import DataSpec
from radii.runs.step import Step, plan
from radii.runs.steps import from_json
from radii.runs.store import Run, Store

Json = dict[str, Any]
NEEDED = ("spec.json", "result.json", "env.json")


def needed_runs(step: Step) -> list[Step]:
    """The steps whose runs must go along."""
    return plan(step.inputs())


def own_data(step: Step) -> dict[str, Path]:
    """Files and folders that the step's data is read from, by how the step writes them; named data stays behind."""
    bases = {variant_chain.split(value.source)[0] for value in _data_specs(step)}
    named = {*hub.KNOWN, sources.BUNDLED}
    paths = {base: Path(base).expanduser() for base in bases if base.replace("_", "-") not in named}
    return {base: path for base, path in paths.items() if path.exists()}


def _data_specs(step: Step) -> list[DataSpec]:
    own = [getattr(step, name) for name in type(step).model_fields]
    inner = [spec for needed in step.inputs() for spec in _data_specs(needed)]
    return [*(value for value in own if isinstance(value, DataSpec)), *inner]


def perform(
    step_json: Json, runs: Mapping[str, bytes], data: Mapping[str, bytes], device: str = "cpu"
) -> tuple[str, bytes]:
    """Compute a step in a folder of its own, which is gone afterwards; the run's id and its parcel.

    ``runs`` are parcels by run id, ``data`` parcels by the path that the step names.
    """
    with tempfile.TemporaryDirectory(prefix="radii-") as folder, threads(1):  # the bits are those of any executor
        store = Store(Path(folder) / "store", device)
        for run_id, parcel in runs.items():
            archives.unpack(parcel, store.root / "runs" / run_id)
        places = {base: str(placed(parcel)) for base, parcel in data.items()}
        run = store.ensure(from_json(relocated(step_json, places)))
        return run.id, archives.pack(run.folder)


def placed(parcel: bytes) -> Path:
    """The file or folder of a parcel of data, in the cache under its content's name: unpacked once on every machine."""
    place = cache.folder() / "parcels" / hashlib.sha256(parcel).hexdigest()[:24]
    if not place.is_dir():
        with cache.writing(place):
            work = cache.aside(place)
            archives.unpack(parcel, work)
            try:
                os.rename(work, place)
            except OSError:  # somebody else unpacked the same
                shutil.rmtree(work)
    inside = list(place.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_file() else place


def relocated(content: Any, places: Mapping[str, str]) -> Any:
    """A step's JSON with the paths of its data changed; paths are not part of a run's identity."""
    if isinstance(content, list):
        return [relocated(item, places) for item in content]
    if not isinstance(content, dict):
        return content
    changed = {key: relocated(value, places) for key, value in content.items()}
    source = changed.get("source")
    if isinstance(source, str):
        fitting = [base for base in places if source == base or source.startswith(f"{base}+")]
        if fitting:
            base = max(fitting, key=len)
            changed["source"] = places[base] + source[len(base) :]
    return changed


def receive(step: Step, answer: tuple[str, bytes], store: Store) -> Run:
    """Commit a run that was computed elsewhere, if it is the one that was asked for."""
    run_id, parcel = answer
    if run_id != step.run_id:
        raise InputError(f"{step.run_id} was asked for, {run_id} came back: the machines have different versions.")

    def fill(folder: Path) -> None:
        names = {path.name for path in archives.unpack(parcel, folder)}
        if missing := [name for name in NEEDED if name not in names]:
            raise InputError(f"The run {run_id} came back without {', '.join(missing)}.")
        if from_json(Run(folder).spec).run_id != step.run_id:
            raise InputError(f"The run {run_id} came back with the spec of another.")

    return store.adopt(step, fill)
