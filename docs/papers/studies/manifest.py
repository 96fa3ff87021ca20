"""Write the manifest of the shipped results again: ``python docs/papers/studies/manifest.py``.

It says of every file in the package which runs it holds and where they come from. A run is named by the hash of its
plan, digests of the data included; so where today's plan names the same runs, its digests, seeds and setups are
theirs. What a past run did not record stays "not recorded". The data must be on this machine.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from radii.errors import InputError
from radii.studies import results
from radii.studies.provenance import NOT_RECORDED, Provenance
from radii.studies.study import registered_study

PACKAGE = Path(__file__).parents[3] / "src" / "radii_papers"
PAGE = Path(__file__).parents[1] / "manifest.md"
HEAD = """# Where the shipped results come from

Every result that comes with the package, from `src/radii_papers/manifest.json`, which has the digests of the data and
the setup of every run, too. A run is named by the hash of its plan, digests of the data included, so a plan that names
the same run has the same data, seeds and setup. What a past run did not record is not filled in afterwards; new runs
record all of it. `docs/papers/studies/manifest.py` writes this page.

| study | cells | seeds | data | CPU time | commit |
| --- | --- | --- | --- | --- | --- |
"""


def entry(path: Path) -> dict[str, Any]:
    """What is known of one file of results."""
    evidence = results.read(path)
    known, setups = {cell.run for cell in evidence.measured}, dict(evidence.setups)
    provenance, matched = evidence.provenance, 0
    try:
        cells = [cell for cell in registered_study(evidence.study).cells(evidence.budget) if cell.step.run_id in known]
    except InputError as error:  # the data of its plan is not here
        print(f"{path.name}: {error}")
        cells = []
    if cells:
        planned = Provenance.of([cell.step for cell in cells], [])
        provenance = Provenance(evidence.provenance.commits, planned.data, planned.seeds)
        setups |= {cell.step.run_id: cell.step.setup() for cell in cells}
        matched = len({cell.step.run_id for cell in cells})
    return {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "budget": evidence.budget,
        "cells": len(evidence.measured),
        "planned": evidence.planned,
        "runs": len(known),
        "runs_of_the_plan": matched,
        "commits": list(provenance.commits),
        "data": dict(provenance.data) if matched else NOT_RECORDED,
        "seeds": list(provenance.seeds) if matched else NOT_RECORDED,
        "cpu_seconds": NOT_RECORDED if evidence.cpu_seconds is None else round(evidence.cpu_seconds, 1),
        "cells_with_cpu_seconds": sum(cell.cpu_seconds is not None for cell in evidence.measured),
        "versions": evidence.environment.get("versions", NOT_RECORDED),
        "setups": dict(sorted(setups.items())),
    }


def line(name: str, content: dict[str, Any]) -> str:
    """A row of the page."""
    data, seeds = (content[key] if content[key] != NOT_RECORDED else (NOT_RECORDED,) for key in ("data", "seeds"))
    sources = sorted({source.partition("+")[0] for source in data}) if data else ["none"]
    spent = content["cpu_seconds"]
    known = f"{content['cells_with_cpu_seconds']} of {content['cells']} cells"
    cpu = f"{spent:,.0f} s" if spent != NOT_RECORDED else f"{NOT_RECORDED} ({known} have it)"
    count, used = f"{content['cells']} of {content['planned']}", ", ".join(map(str, seeds)) or "none"
    cells = [name, count, used, ", ".join(sources), cpu, ", ".join(content["commits"])]
    return "| " + " | ".join(cells) + " |\n"


if __name__ == "__main__":
    entries = {path.stem: entry(path) for path in sorted((PACKAGE / "results").glob("*.json"))}
    (PACKAGE / "manifest.json").write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(HEAD + "".join(line(name, content) for name, content in entries.items()))
