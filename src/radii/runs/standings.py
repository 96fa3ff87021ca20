"""All evaluations of a store in order: models that met the same attacks on the same points, and no others, compete."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from radii.change import Threat, threat_words
from radii.errors import InputError
from radii.evaluation.accuracy import Accuracy, Bracket
from radii.evaluation.scores import BESIDE
from radii.runs.comparison import effort_of, short_label
from radii.runs.step import from_json
from radii.runs.step_results import EvaluateResult
from radii.runs.steps.evaluate_step import Evaluate
from radii.runs.store import Run
from radii.tables import Field, Table, format_radius, table


@dataclass(frozen=True)
class Standing:
    """One evaluation of the board."""

    run: str
    model: str
    identity: str  # the run or the content of the model
    clean: Accuracy
    robust: Bracket
    certificate: str | None
    when: datetime

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "run": self.run,
            "model": self.model,
            "identity": self.identity,
            "clean": self.clean.summary(),
            "robust": self.robust.summary(),
            "certificate": self.certificate,
            "when": self.when.isoformat(timespec="seconds"),
        }


@dataclass(frozen=True)
class Contest:
    """What is equal for models that can be compared: data, threat, attacks, effort of the proofs, and the points."""

    dataset: str
    digest: str  # of the split
    split: str
    ball: Threat
    attacks: str
    proofs: str
    points: int
    seed: int

    @property
    def question(self) -> tuple[str, str, str]:
        """What is asked: contests with one question differ in effort or points only."""
        return self.digest, self.split, str(self.ball)

    @property
    def title(self) -> str:
        """``digits (test), L2, ε = 0.5``."""
        return f"{self.dataset} ({self.split}), {threat_words(self.ball)}, ε = {format_radius(self.ball.radius)}"

    @property
    def effort(self) -> str:
        """``fast + minimum-norm on 100 points, seed 0``."""
        proofs = f"; {self.proofs}" if self.proofs else ""
        return f"{self.attacks} on {self.points:,} points, seed {self.seed}{proofs}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {**vars(self), "ball": str(self.ball)}


@dataclass(frozen=True)
class Board:
    """The standings of each contest, and the runs that could not be read with the reason."""

    contests: dict[Contest, tuple[Standing, ...]]
    unread: dict[str, str]

    def table(self, contest: Contest) -> Table:
        """The standings of a contest."""
        rows: list[dict[str, Any]] = []
        for own in self.contests[contest]:
            shares = {"clean": own.clean, "proved": own.robust.proved, "unbroken": own.robust.unbroken}
            row: dict[str, Any] = {"model": own.model, "run": own.run, "proofs": own.certificate or "none"}
            for name, share in shares.items():
                row |= {name: share.value, **share.ends(name)}
            rows.append(row | {"when": f"{own.when:%Y-%m-%d}"})
        shown = [
            Field(name, percent=True, low=f"{name}_low", high=f"{name}_high")
            for name in ("clean", "proved", "unbroken")
        ]
        return table(rows, ["model", *shown, "proofs", "run", "when"], contest.effort)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        contests = [
            {**contest.to_dict(), "standings": [own.to_dict() for own in standings]}
            for contest, standings in self.contests.items()
        ]
        return {"contests": contests, "unread": self.unread}


def board(runs: Iterable[Run]) -> Board:
    """The evaluations among ``runs``, the highest proved share first, then the highest unbroken share.

    Parts of an evaluation are left out: the whole has its own run.
    """
    contests: dict[Contest, list[Standing]] = {}
    unread: dict[str, str] = {}
    for run in runs:
        if run.kind != "evaluate":
            continue
        try:
            step, result = from_json(run.spec), run.read(EvaluateResult)
        except InputError as reason:
            unread[run.id] = str(reason)
            continue
        if isinstance(step, Evaluate) and step.part is None:
            contests.setdefault(_contest(step, result), []).append(_standing(run, step, result))
    order = sorted(contests, key=lambda own: (own.dataset, *own.question, -own.points, own.effort))
    return Board({contest: tuple(sorted(contests[contest], key=_rank)) for contest in order}, unread)


def _contest(step: Evaluate, result: EvaluateResult) -> Contest:
    attacks = " + ".join([result.suite, *(name for name in BESIDE if name in result.passes)])
    effort = effort_of(step, attacks, result.certificate)
    digest = step.data.test if step.split == "test" else step.data.train
    proofs = "" if step.certify else "no proofs were tried"
    return Contest(step.data.source, digest, step.split, step.ball, effort.attacks, proofs, result.points, step.seed)


def _standing(run: Run, step: Evaluate, result: EvaluateResult) -> Standing:
    source = step.model
    identity = getattr(source, "run_id", "") or f"sha256 {source.sha256[:12]}"  # type: ignore[union-attr]
    return Standing(
        run.id,
        short_label(step),
        identity,
        result.clean,
        Bracket(result.robust.proved, result.robust.unbroken),
        result.certificate,
        run.committed,
    )


def _rank(own: Standing) -> tuple[float, float, float, str]:
    robust = own.robust
    return -robust.proved.value, -robust.unbroken.value, -own.clean.value, own.run
