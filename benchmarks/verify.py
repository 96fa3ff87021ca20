"""Verdicts and times of `radii verify` on published instances; set RADII_VERIFY to their folder.

Goals: every acasxu, collins and linearizenn instance, 74 of 80 of safenlp and 10 of 16 of sat_relu within the
competition's limits, and no wrong verdict. Quick runs take every eighth instance. Part ``sdp_fo`` is branch and bound
on images (``sdp_fo.py``), part ``radius`` the share of points whose true radius is found.

Verdicts are kept in the folder RADII_VERDICTS, if it is set: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path

import sdp_fo
from harness import Figure, figure, main
from radii.certificates.complete.instances import read_instances, read_table, run_instances
from radii.runs.executors import run_steps

GOALS = {"acasxu": 93, "collins_rul_cnn": 21, "linearizenn": 10, "safenlp": 74, "sat_relu": 10}


def run(quick: bool) -> list[Figure]:
    """Decided and wrong verdicts, and the median seconds, of every folder."""
    root = Path(os.environ.get("RADII_VERIFY", Path(__file__).parents[2] / "shared" / "verify"))
    if not root.is_dir():
        raise SystemExit(f"{root} holds no instances: set RADII_VERIFY to the folder of published instances.")
    figures = []
    for name, goal in GOALS.items():
        entries = read_instances(root / name / "expected.csv")[:: 8 if quick else 1]
        with sdp_fo.verdicts() as folder:
            table = folder / f"{name}.csv"
            list(run_instances(root / name, entries, table))
            rows = read_table(table)
        decided = [row for row in rows if row["verdict"] in ("sat", "unsat")]
        wrong = sum(row["verdict"] != row["expected"] for row in decided)
        wanted = None if quick else float(goal)
        figures += [
            figure(f"{name}: decided of {len(rows)}", len(decided), wanted, at_most=False),
            figure(f"{name}: wrong verdicts", wrong, 0),
            figure(f"{name}: median seconds", statistics.median(float(row["seconds"]) for row in rows)),
        ]
    return figures


def radius(quick: bool) -> list[Figure]:
    """The standard network of ``radii assess digits``: for how many test points the true radius is known."""
    from radii.runs.store import Run, Store
    from radii.studies.assess import plan_assessment

    points, seconds = (20, 5.0) if quick else (100, 10.0)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        plan = plan_assessment("digits", store=store, points=points, complete=seconds, forecast=False)
        step = plan.evaluations["standard"]
        run_steps([step], store)
        known = Run(store.folder(step)).result["radius_known"]
    title = f"digits, standard network, {known['total']} points, {seconds:g} s each: true radius known"
    return [figure(title, known["value"], 0.9, at_most=False)]


if __name__ == "__main__":
    main({"instances": run, "sdp_fo": sdp_fo.run, "radius": radius})
