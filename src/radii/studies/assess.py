"""The whole question about a dataset: what it allows, what two classifiers reach, what is proved and broken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from radii.data.dataset import Data
from radii.errors import InputError, checked
from radii.evaluation.scores import Scores
from radii.runs.executors import run_steps
from radii.runs.model_source import ModelSource
from radii.runs.planning import data_spec
from radii.runs.score_files import load_scores
from radii.runs.step import Step
from radii.runs.steps import AuditStep, Evaluate, Train
from radii.runs.steps.train_step import Fit
from radii.runs.store import Run, Store
from radii.studies.reference_classifiers import INPUTS_SHOWN, INTERVAL, LIPSCHITZ, STANDARD, classifiers
from radii.studies.usual_threats import usual_threat
from radii.tables import Field, Table, table
from radii.threat import Ball

if TYPE_CHECKING:
    from radii.studies.scaling_forecast import Forecast
    from radii.studies.subset_curve import SubsetCurve

REFERENCES = (STANDARD, LIPSCHITZ, INTERVAL)
PARTS = 4  # steps among which the points are divided where each takes its time of complete verification


@dataclass(frozen=True)
class DataLimits:
    """What an audit step says of the data: how far classification can be robust at the threat's radius."""

    verdict: tuple[str, ...]
    share_possible: float  # of the test points
    contradictory: int  # inputs with two labels
    rule_astuteness: float  # share of test points on which the nearest-neighbor rule is proved right
    distances: dict[str, NDArray[np.float64]]  # per split, to the nearest training point of another class

    @classmethod
    def of(cls, run: Run) -> DataLimits:
        """Read from the run of an audit step."""
        result = run.result
        return cls(
            tuple(result["verdict"]),
            result["test"]["share_possible"],
            result["contradictory_count"],
            result["nearest_neighbor_rule"]["astuteness"],
            load_file(run.folder / "distances.safetensors"),
        )

    @property
    def least_distance(self) -> float:
        """Between points of different classes."""
        return min(float(values.min()) for values in self.distances.values())


@dataclass(frozen=True)
class AssessedModel:
    """One classifier of the assessment."""

    name: str
    training: Run | None  # None: the user's own model
    evaluation: Run
    scores: Scores
    rows: NDArray[np.int64]  # of the test split

    @property
    def fit(self) -> Fit | None:
        """How it was trained and how well it fits; None for the user's own model."""
        return None if self.training is None else Fit.of(self.training)

    def summary(self) -> dict[str, Any]:
        """Runs and figures as JSON data."""
        training = {} if self.training is None else self.training.result
        return {
            "training_run": None if self.training is None else self.training.id,
            "evaluation_run": self.evaluation.id,
            "training": {key: value for key, value in training.items() if key != "history"},
            "evaluation": self.evaluation.result | self.scores.summary(),  # an old run has old medians
        }


@dataclass(frozen=True)
class Assessment:
    """Everything the report tells."""

    data: Data
    source: str
    ball: Ball
    audit: Run
    models: tuple[AssessedModel, ...]
    seed: int
    forecast: Forecast | str | None = None  # of the certified classifier; words say why there is none
    why_threat: str = ""  # the reason for a threat that the user did not choose

    @property
    def own(self) -> tuple[AssessedModel, ...]:
        """The user's own models."""
        return tuple(model for model in self.models if model.name not in REFERENCES)

    @property
    def subjects(self) -> tuple[AssessedModel, ...]:
        """The models that the report is about: the user's own, or else the references."""
        return self.own or self.models

    @property
    def standard(self) -> AssessedModel:
        """The classifier of ordinary training."""
        return next(model for model in self.models if model.name == STANDARD)

    @property
    def certified(self) -> AssessedModel:
        """The classifier that was trained to be proved at the threat: 1-Lipschitz for L2, by intervals for Linf."""
        return next(model for model in self.models if model.name in (LIPSCHITZ, INTERVAL))

    @cached_property
    def limits(self) -> DataLimits:
        """What the data allows."""
        return DataLimits.of(self.audit)

    def table(self) -> Table:
        """The figures of each classifier at the threat's radius, with exact 95% intervals.

        Median radii are over all points; a wrongly classified point counts 0.
        """
        rows = []
        for model in self.models:
            scores = model.scores
            shares = {
                "clean": scores.clean,
                "proved": scores.robust.proved,
                "unbroken": scores.robust.unbroken,
                "kept": scores.stable.unbroken,
            }
            row: dict[str, Any] = {"classifier": model.name}
            for name, share in shares.items():
                row |= {name: share.value, **share.ends(name)}
            row |= {f"{bound}_radius": scores.median_radius(bound) for bound in ("proved", "broken")}
            rows.append(
                row | {"certificate": scores.certificate_method or "none", "passes": sum(scores.passes.values())}
            )
        titles = {"clean": "clean", "proved": "proved", "unbroken": "unbroken", "kept": "prediction kept"}
        fields = [Field(n, title, percent=True, low=f"{n}_low", high=f"{n}_high") for n, title in titles.items()]
        radii = [
            Field("proved_radius", "median proved radius", toward="down"),
            Field("broken_radius", "median broken radius", toward="up"),
        ]
        return table(
            rows,
            ["classifier", *fields, *radii, "certificate", "passes"],
            f"{self.source}, threat {self.ball}",
        )

    def summary(self) -> dict[str, Any]:
        """All figures as JSON data."""
        return {
            "dataset": self.source,
            "threat": str(self.ball),
            "why_this_threat": self.why_threat,
            "seed": self.seed,
            "audit": self.audit.result,
            "models": {model.name: model.summary() for model in self.models},
            "forecast": self.forecast if isinstance(self.forecast, str | None) else self.forecast.summary(),
        }


@dataclass(frozen=True)
class AssessmentPlan:
    """The steps of an assessment, before, while and after they are computed."""

    data: Data
    source: str
    ball: Ball
    why_threat: str
    seed: int
    trainings: dict[str, Train]
    evaluations: dict[str, Evaluate]
    audit: AuditStep
    curve: SubsetCurve | None

    @property
    def steps(self) -> list[Step]:
        """All of them."""
        parts = self.curve.steps.values() if self.curve else ()
        return [*self.trainings.values(), self.audit, *self.evaluations.values(), *parts]

    def assessment(self, store: Store) -> Assessment:
        """What the committed steps say: those models whose evaluations are there.

        Args:
            store: where the runs are.

        Raises:
            InputError: the audit or every evaluation is missing.
        """
        runs = {name: Run(store.folder(step)) for name, step in self.evaluations.items() if store.is_done(step)}
        if not runs or not store.is_done(self.audit):
            raise InputError("The audit and at least one evaluation must be done before there is a report.")
        models = []
        for name, run in runs.items():
            training = Run(store.folder(self.trainings[name])) if name in self.trainings else None
            models.append(AssessedModel(name, training, run, *load_scores(run)))
        grown = self.curve is not None and all(store.is_done(step) for step in self.curve.steps.values())
        outlook = self.curve.forecast(store) if self.curve is not None and grown else None
        audit = Run(store.folder(self.audit))
        return Assessment(self.data, self.source, self.ball, audit, tuple(models), self.seed, outlook, self.why_threat)


def plan_assessment(
    data: str | Data,
    threat: Ball | str | None = None,
    *,
    models: Mapping[str, ModelSource] | None = None,
    references: bool = True,
    epochs: int | None = None,
    points: int = 500,
    suite: str = "standard",
    seed: int = 0,
    store: Store | None = None,
    forecast: bool | None = None,
    complete: float = 0.0,
) -> AssessmentPlan:
    """The steps of an assessment; the arguments are those of :func:`assess`.

    Args:
        data: a name as on the command line, or a dataset in memory.
        threat: a ball or its text; the usual one of the data by default.
        models: the user's own models by name.
        references: train the two classifiers of this package, too.
        epochs: passes over the training data.
        points: test points to certify and attack.
        suite: the attacks; a model that only answers meets ``black-box``.
        seed: the seed of every random stream.
        store: where runs are kept.
        forecast: add what more data would bring.
        complete: seconds a point of complete verification.

    Returns:
        The steps; :meth:`AssessmentPlan.assessment` reads their results.

    Raises:
        InputError: the data cannot be read, the threat does not fit it, or there is no model to assess.
    """
    spec = data_spec(data, store or Store.default())
    loaded = spec.load()
    usual = None if threat is not None else usual_threat(loaded)
    ball = usual.ball if usual else Ball.parse(threat) if isinstance(threat, str) else cast(Ball, threat)
    own = {_unlike(name, REFERENCES): source for name, source in (models or {}).items()}
    if not own and not references:
        raise InputError("There is nothing to assess: give a model, or leave the references in.")
    trainings = classifiers(spec, loaded, ball, epochs, seed) if references else {}
    subjects: dict[str, ModelSource] = {**own, **trainings}
    evaluations = {
        name: Evaluate(
            model=model,
            data=spec,
            ball=ball,
            suite="black-box" if getattr(model, "answers_only", False) else suite,
            points=points,
            seed=seed,
            complete=complete,
            parts=min(PARTS, points, len(loaded.test)) if complete > 0 and suite != "sampled" else 1,
        )
        for name, model in subjects.items()
    }
    wanted = (not own and len(loaded.train) <= INPUTS_SHOWN) if forecast is None else forecast
    certified = next((name for name in trainings if name != STANDARD), None)
    return AssessmentPlan(
        loaded,
        data if isinstance(data, str) else data.name,
        ball,
        "" if usual is None else str(usual),
        seed,
        trainings,
        evaluations,
        AuditStep(data=spec, norm=ball.norm, epsilon=ball.radius),
        _curve(trainings[certified], loaded, ball, certified) if wanted and certified else None,
    )


@checked
def assess(
    data: str | Data,
    threat: Ball | str | None = None,
    *,
    models: Mapping[str, ModelSource] | None = None,
    references: bool = True,
    epochs: int | None = None,
    points: int = 500,
    suite: str = "standard",
    seed: int = 0,
    store: Store | None = None,
    workers: int | None = None,
    forecast: bool | None = None,
    complete: float = 0.0,
) -> Assessment:
    """Audit the data, train a standard and a certified classifier, certify and attack both and one's own models.

    The certified classifier is the one of the recipe ``certified`` at its smallest budget: an isometric
    (1-Lipschitz) network for L2 threats, a network trained by interval bounds for Linf threats.

    Every step is a run in ``store``: what was computed before is found, not computed again.

    Args:
        data: a name as on the command line, or a dataset in memory.
        threat: a ball or its text, for example ``l2:0.5``; :func:`~radii.studies.usual_threats.usual_threat` by
            default.
        models: the user's own models by name, as :func:`radii.runs.model_source.find_model` finds them.
        references: train the two classifiers of this package and show them beside the user's models.
        epochs: passes over the training data; by default as many as show each classifier about 30,000
            inputs, three at the least.
        points: class-balanced test points to certify and attack; all if the split has fewer.
        suite: the attacks: ``fast``, ``standard``, ``exhaustive``.
        seed: the seed of every random stream.
        store: where runs are kept; :meth:`Store.default` by default.
        workers: worker processes, one per core by default; 0 computes in this process.
        forecast: add what more data would bring, by eight short trainings on parts of the data; by default on
            small data only, and not beside the user's own models.
        complete: seconds a point of complete verification, which closes brackets of proved and broken radii.

    Returns:
        The audit, the trained classifiers, their certificates and attacks, and the report's figures.

    Raises:
        InputError: the data cannot be read, the threat does not fit it, or there is no model to assess.
        FailedStepsError: several steps failed; all others are kept.
    """
    store = store or Store.default()
    plan = plan_assessment(
        data,
        threat,
        models=models,
        references=references,
        epochs=epochs,
        points=points,
        suite=suite,
        seed=seed,
        store=store,
        forecast=forecast,
        complete=complete,
    )
    run_steps(plan.steps, store, workers)
    return plan.assessment(store)


def _unlike(name: str, taken: tuple[str, ...]) -> str:
    """A name that is none of ``taken``."""
    return f"{name} (own)" if name in taken else name


def _curve(training: Train, data: Data, ball: Ball, name: str) -> SubsetCurve | None:
    from radii.studies.subset_curve import subset_curve

    return subset_curve(training, data, ball, name)
