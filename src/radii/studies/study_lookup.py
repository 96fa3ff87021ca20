"""Which study a user names: one of the papers, a TOML file, or one that was started in this store before."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from radii.atomic import write_whole
from radii.budget import Budget
from radii.errors import InputError, unknown_name
from radii.registry import is_import_path
from radii.runs.store import Store
from radii.spec import read_json
from radii.studies import toml
from radii.studies.study import STUDIES, Study, registered_study


@dataclass(frozen=True)
class StudyRecord:
    """A study that was started: ``reference`` is its name, or the file that it was read from."""

    name: str
    reference: str
    budget: Budget


def find_study(reference: str, store: Store, trust: Collection[str] = ()) -> Study:
    """The study that a user names.

    Args:
        reference: the name of a study of the papers or of another package, an import path of a :class:`Study`, a TOML
            file, or the name of a study started before.
        store: where studies were started.
        trust: import paths that a file may name.

    Raises:
        InputError: there is no such study, or its file has mistakes.
    """
    if reference in STUDIES or is_import_path(reference):
        return registered_study(reference)
    if reference.endswith(".toml"):
        return toml.load(Path(reference), trust)
    records = {record.name: record for record in study_records(store)}
    if reference in records:
        return toml.load(Path(records[reference].reference), trust)
    raise unknown_name("study", reference, [*STUDIES, *records], "Or give a TOML file, my-study.toml.")


def study_records(store: Store) -> list[StudyRecord]:
    """The studies that were started in ``store``, the most recent first."""
    paths = sorted(_folder(store).glob("*.json"), key=lambda path: -path.stat().st_mtime_ns)
    records = []
    for path in paths:
        try:
            content = read_json(path, "a note of a study")
            records.append(StudyRecord(content["name"], content["reference"], content["budget"]))
        except (InputError, KeyError):
            logging.getLogger("radii").warning("%s is damaged; this study cannot be resumed by its name.", path)
    return records


def record_study(study: Study, reference: str, budget: Budget, store: Store) -> None:
    """Record that a study was started, so that it can be resumed by name.

    A study defined in Python cannot be resumed by name and is not recorded.

    Args:
        study: the study.
        reference: the name or TOML file that the user gave.
        budget: how much work it is.
        store: the run store.
    """
    if reference not in STUDIES and not reference.endswith(".toml"):
        return
    where = str(Path(reference).resolve()) if reference.endswith(".toml") else reference
    record = StudyRecord(study.name, where, budget)
    write_whole(_folder(store) / f"{study.name}.json", json.dumps(asdict(record)).encode())


def _folder(store: Store) -> Path:
    return store.root / "studies" / "started"
