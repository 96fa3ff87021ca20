"""Which study is meant: one of the catalog, a TOML file, or one that was started here before."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from radii.atomic import write_whole
from radii.errors import InputError, unknown_name
from radii.runs.store import Store
from radii.spec import read_json
from radii.studies import toml
from radii.studies.study import STUDIES, Budget, Study, registered_study


@dataclass(frozen=True)
class Started:
    """A study that was started: ``reference`` is its name, or the file that it was read from."""

    name: str
    reference: str
    budget: Budget


def named(reference: str, store: Store, trust: Collection[str] = ()) -> Study:
    """The study a user names: one of the catalog, a TOML file, or one started before by its name.

    Args:
        reference: the name or file.
        store: where studies were started.
        trust: import paths that a file may name.
    """
    if reference in STUDIES:
        return registered_study(reference)
    if reference.endswith(".toml"):
        return toml.load(Path(reference), trust)
    begun = {record.name: record for record in started(store)}
    if reference in begun:
        return toml.load(Path(begun[reference].reference), trust)
    raise unknown_name("study", reference, [*STUDIES, *begun], "Or give a TOML file, my-study.toml.")


def started(store: Store) -> list[Started]:
    """The studies that were started here, the most recent first."""
    found = sorted(_folder(store).glob("*.json"), key=lambda path: -path.stat().st_mtime_ns)
    records = []
    for path in found:
        try:
            content = read_json(path, "a note of a study")
            records.append(Started(content["name"], content["reference"], content["budget"]))
        except (InputError, KeyError):
            logging.getLogger("radii").warning("%s is damaged; this study cannot be resumed by its name.", path)
    return records


def remember(study: Study, reference: str, budget: Budget, store: Store) -> None:
    """Note that ``study`` was started, so that ``resume`` finds it; nothing leads back to one made in Python."""
    if reference not in STUDIES and not reference.endswith(".toml"):
        return
    where = str(Path(reference).resolve()) if reference.endswith(".toml") else reference
    record = Started(study.name, where, budget)
    write_whole(_folder(store) / f"{study.name}.json", json.dumps(asdict(record)).encode())


def _folder(store: Store) -> Path:
    return store.root / "studies" / "started"
