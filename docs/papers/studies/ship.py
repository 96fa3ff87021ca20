"""Put results of this machine's runs into the package: ``python docs/papers/studies/ship.py NAME …``.

A run is named by the hash of what was asked, so a long study can be computed in parts, on several machines: cells
that only the package has, of this study or of another one that shares the run, stay there as long as the study plans
the same run. Afterwards ``write.py`` writes the pages.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from radii.budget import Budget
from radii.files import write_whole
from radii.runs.store import Store
from radii.studies import results
from radii.studies.results import Evidence
from radii.studies.study import Study, registered_study

SHIPPED = Path(str(files("radii_papers"))) / "results"


def joined(own: Evidence, shipped: Sequence[Evidence], study: Study) -> Evidence:
    """``own`` with the cells of ``shipped`` whose runs the study still plans, in the order of the plan.

    Args:
        own: what this machine has.
        shipped: results in the package at the same budget: the study's own and those of others, which may have
            computed the same runs. The first that has a run counts.
        study: the study.

    Returns:
        The joined results. Times of the study's own results are added, without the cells that this machine has, too; a
        cell of another study adds its own time alone. A time that is not known anywhere is not known.
    """
    known = {cell.run: cell for cell in own.measured}
    plan = study.cells(own.budget)
    missing = {cell.step.run_id for cell in plan} - set(known)
    seconds, cpu_seconds = [own.seconds], [own.cpu_seconds]
    setups, environment = dict(own.setups), own.environment
    commits = set(own.provenance.commits) if own.measured else set()
    for evidence in shipped:
        kept = {cell.run: cell for cell in evidence.measured if cell.run in missing}
        if not kept:
            continue
        missing -= set(kept)
        if evidence.study == own.study:
            twice = [cell for cell in evidence.measured if cell.run in known]
            seconds += [evidence.seconds, *(-cell.seconds for cell in twice)]
            cpu_seconds += [evidence.cpu_seconds, *(-(cell.cpu_seconds or 0.0) for cell in twice)]
        else:
            seconds += [cell.seconds for cell in kept.values()]
            cpu_seconds += [cell.cpu_seconds for cell in kept.values()]
        setups |= {run: words for run, words in evidence.setups.items() if run in kept}
        environment = environment or evidence.environment
        commits |= set(evidence.provenance.commits)
        known |= kept
    done = [(cell, known[cell.step.run_id]) for cell in plan if cell.step.run_id in known]
    return replace(
        own,
        measured=tuple(replace(found, place=dict(cell.place)) for cell, found in done),
        environment=environment,
        seconds=max(0.0, sum(seconds)),
        cpu_seconds=None if None in cpu_seconds else max(0.0, sum(filter(None, cpu_seconds))),
        setups=setups,
        provenance=replace(own.provenance, commits=tuple(sorted(commits))),
    )


def ship(name: str, budget: Budget, store: Store, folder: Path = SHIPPED) -> Path:
    """Write the joined results of a study into ``folder``, the package's by default."""
    study, path = registered_study(name), folder / f"{name}-{budget}.json"
    others = [other for other in sorted(folder.glob(f"*-{budget}.json")) if other != path]
    shipped = [results.read(file) for file in (path, *others) if file.is_file()]
    evidence = joined(results.collect(study, budget, store), shipped, study)
    content = results.to_json(evidence, study, f"radii study run {name} --budget {budget}")
    write_whole(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
    print(f"{name}: {len(evidence.measured)} of {evidence.planned} cells")
    return path


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        ship(chosen, "cpu", Store.default())
