"""Put results of this machine's runs into the package: ``python docs/notes/studies/ship.py NAME …``.

A run is named by the hash of what was asked, so a long study can be computed in parts, on several machines: cells
that only the package has stay there as long as the study plans the same run. Afterwards ``write.py`` writes the pages.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from radii.atomic import write_whole
from radii.budget import Budget
from radii.runs.store import Store
from radii.studies import results
from radii.studies.results import SHIPPED, Evidence
from radii.studies.study import Study, registered_study


def joined(own: Evidence, shipped: Evidence | None, study: Study) -> Evidence:
    """``own`` with the cells of ``shipped`` whose runs the study still plans, in the order of the plan.

    Times are the sums of both; a time that one of them does not know is not known.
    """
    if shipped is None:
        return own
    known = {cell.run: cell for cell in own.measured}
    plan = study.cells(own.budget)
    ids = {cell.step.run_id for cell in plan}
    kept = {cell.run: cell for cell in shipped.measured if cell.run in ids and cell.run not in known}
    if not kept:
        return own
    cells = {**known, **kept}
    done = [(cell, cells[cell.step.run_id]) for cell in plan if cell.step.run_id in cells]
    times = (own.cpu_seconds, shipped.cpu_seconds)
    return replace(
        own,
        measured=tuple(replace(found, place=dict(cell.place)) for cell, found in done),
        environment=own.environment or shipped.environment,
        seconds=own.seconds + shipped.seconds,
        cpu_seconds=None if None in times else sum(filter(None, times)),
        setups={run: words for run, words in {**shipped.setups, **own.setups}.items() if run in cells},
    )


def ship(name: str, budget: Budget, store: Store, folder: Path = SHIPPED) -> Path:
    """Write the joined results of a study into ``folder``, the package's by default."""
    study, path = registered_study(name), folder / f"{name}-{budget}.json"
    shipped = results.read(path) if path.is_file() else None
    evidence = joined(results.collect(study, budget, store), shipped, study)
    content = results.to_json(evidence, study, f"radii study run {name} --budget {budget}")
    write_whole(path, (json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())
    print(f"{name}: {len(evidence.measured)} of {evidence.planned} cells")
    return path


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        ship(chosen, "cpu", Store.default())
