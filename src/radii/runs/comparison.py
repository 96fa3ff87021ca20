"""Evaluation runs side by side, on the points they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError, brief, checked
from radii.evaluation.comparison import Comparison, Effort, compare_scores, differences_of
from radii.evaluation.scores import Scores
from radii.runs.component_specs import DataSpec
from radii.runs.step import Step, from_json
from radii.runs.steps.evaluate_step import Evaluate, load_scores
from radii.runs.store import Run, Store


@dataclass(frozen=True)
class RunComparison(Comparison):
    """Evaluation runs on the points that all of them have.

    Attributes:
        data: as its first run names it.
        split: of the data.
        rows: of the split, the common points.
        runs: ids by name.
    """

    data: DataSpec
    split: str
    rows: NDArray[np.int64]
    runs: Mapping[str, str]


@checked
def compare(evaluations: Mapping[str, Scores] | Sequence[Run | str], *, store: Store | None = None) -> Comparison:
    """Compare evaluations of several models on the points that all of them have; the first is the base.

    Shares of unbroken points are compared only where both models met the same attacks, shares of proved points only
    where proofs were tried alike.

    Args:
        evaluations: results of :func:`radii.evaluate` on the same points by name, as ``{"plain": scores, …}``; or
            evaluation runs, or their ids.
        store: where ids are looked up; :meth:`Store.default` by default.

    Returns:
        The shares (``table()``), and paired differences to the first (``differences``, ``difference_table()``).

    Raises:
        InputError: fewer than two; other data, points or another threat.
    """
    if isinstance(evaluations, Mapping):
        return compare_scores(evaluations)
    is_list = isinstance(evaluations, Sequence) and not isinstance(evaluations, str)
    if not is_list or not all(isinstance(own, Run | str) for own in evaluations):
        raise InputError(
            "Evaluations to compare must be a dictionary of results of radii.evaluate by name, or a list of runs, "
            f"got {brief(evaluations)} instead."
        )
    own = store or Store.default()
    return compare_runs([own.find(run) if isinstance(run, str) else run for run in evaluations])


def compare_runs(runs: Sequence[Run]) -> RunComparison:
    """:func:`compare` for evaluation runs."""
    if len(runs) < 2:
        raise InputError(f"A comparison needs at least two runs, got {len(runs)}.")
    steps = [_evaluation(run) for run in runs]
    _check_alike(runs, steps)
    labels = [short_label(step) for step in steps]
    names = [
        label if labels.count(label) == 1 else f"{label} ({run.id[-6:]})"
        for label, run in zip(labels, runs, strict=True)
    ]
    restricted, rows = _on_common_points(runs)
    scores = dict(zip(names, restricted, strict=True))
    efforts = {
        name: effort_of(step, scores[name].attacks, scores[name].certificate_method)
        for name, step in zip(names, steps, strict=True)
    }
    return RunComparison(
        scores,
        {name: effort.attacks for name, effort in efforts.items()},
        {name: effort.certificate for name, effort in efforts.items()},
        differences_of(scores, efforts),
        steps[0].ball,
        steps[0].data.source,
        steps[0].data,
        steps[0].split,
        rows,
        dict(zip(names, (run.id for run in runs), strict=True)),
    )


def effort_of(step: Evaluate, attacks: str, method: str | None) -> Effort:
    """What an evaluation tried.

    Args:
        attacks: the suite and what was tried beside it.
        method: the certificate; None where nothing is proved.
    """
    other = step.surrogate
    surrogate = "" if other is None else f" from {other.label} ({other.content_hash()[:6]})"
    complete = f" + complete, {step.complete:g} s a point" if step.complete else ""
    certificate = (method or "none") if step.certify else "not tried"
    return Effort(attacks + surrogate + complete, certificate, (step.certify, step.complete))


def short_label(step: Evaluate) -> str:
    """The name of the model, without the data where that is said anyway: ``mlp by natural``."""
    label = step.model.label
    return label.replace(f" on {step.data.source}", "", 1) if isinstance(step.model, Step) else label


def _evaluation(run: Run) -> Evaluate:
    step = from_json(run.spec)
    if not isinstance(step, Evaluate):
        raise InputError(f"{run.id} is no evaluation; radii evaluate makes one.")
    return step


def _check_alike(runs: Sequence[Run], steps: Sequence[Evaluate]) -> None:
    """Refuse runs on other data, under another threat or on another split than the first."""
    first = steps[0]
    for run, step in zip(runs, steps, strict=True):
        for what, ours, theirs in (
            ("data", first.data.content_hash(), step.data.content_hash()),
            ("the threat", str(first.ball), str(step.ball)),
            ("the split", first.split, step.split),
        ):
            if ours != theirs:
                raise InputError(f"{runs[0].id} and {run.id} differ in {what}; only like runs can be compared.")


def _on_common_points(runs: Sequence[Run]) -> tuple[list[Scores], NDArray[np.int64]]:
    """The scores of each run on the points that all of them have, and the rows of these points."""
    loaded = [load_scores(run) for run in runs]
    common = reduce(np.intersect1d, [rows for _, rows in loaded])
    if not len(common):
        raise InputError("The runs have no point in common; evaluate them with one seed and equal --points.")
    return [_restricted(own, np.searchsorted(rows, common)) for own, rows in loaded], common


def _restricted(scores: Scores, places: NDArray[np.int64]) -> Scores:
    """The scores of some of the points."""
    return replace(scores, points=scores.points.take(places), x_adv=scores.x_adv[places])
