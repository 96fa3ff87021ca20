"""Verdicts and times of `radii verify` on published instances; set RADII_VERIFY to their folder.

Goals: every acasxu, collins and linearizenn instance, 76 of 80 of safenlp and 13 of 16 of sat_relu within the
competition's limits, and no wrong verdict. Quick runs take every eighth instance. Parts ``sdp_fo-mnist`` and
``sdp_fo-cifar`` are branch and bound on images (``sdp_fo.py``), part ``radius`` is the share of points whose true
radius is found.

Verdicts are kept in the folder RADII_VERDICTS, if it is set: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path

import torch

import sdp_fo
from harness import Figure, figure, main
from radii.runs.executors import Processes, run_steps
from radii.runs.instances import read_instances, read_table, run_instances
from radii.runs.store import Run, Store

GOALS = {"acasxu": 93, "collins_rul_cnn": 21, "linearizenn": 10, "safenlp": 76, "sat_relu": 13}


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
            run_instances(root / name, entries, table, Store(folder / "runs"), Processes())
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
    from radii.studies.assess import AssessmentRequest

    points, seconds = (20, 5.0) if quick else (100, 10.0)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        plan = AssessmentRequest("digits", points=points, complete=seconds, forecast=False).plan(store)
        step = plan.evaluations["standard"]
        run_steps([step], store)
        known = Run(store.folder(step)).read(step.Result).radius_known
    title = f"digits, standard network, {known.total} points, {seconds:g} s each: true radius known"
    return [figure(title, known.value, 0.9, at_most=False), *mnist_radius(quick)]


def mnist_radius(quick: bool) -> list[Figure]:
    """A network 784-64-10 of 50,890 weights after two epochs of MNIST: true Linf radii of the first test images."""
    from radii.data.sources import load
    from radii.models.zoo.mlp import MLP
    from radii.training.loop import Recipe, train
    from radii.training.objectives import METHODS
    from radii.verification.true_radius import true_radii

    points, seconds = (3, 20.0) if quick else (20, 60.0)
    data = load("mnist")
    torch.manual_seed(0)
    model = MLP(data.shape, len(data.classes), width=64, depth=2)
    train(model, data.train, METHODS.factory("natural")(), Recipe(epochs=2, test_every=0))
    x = data.test.tensors(range(points))[0]
    sdp_fo.limit_cpu_time()
    bracket = true_radii(model.eval(), x, 0.3, norm="linf", seconds=seconds)
    weights = sum(parameter.numel() for parameter in model.parameters())
    title = f"MNIST, network of {weights} weights, {points} points, {seconds:g} s each: true radius known"
    return [figure(title, float(bracket.known().double().mean()), 0.5, at_most=False)]


if __name__ == "__main__":
    main({"instances": run, **sdp_fo.PARTS, "radius": radius})
