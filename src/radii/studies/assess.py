"""The whole question about a dataset: what it allows, what three classifiers reach, what is proved and broken."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from radii import progress
from radii.change import Change, threat_of
from radii.change_kinds import GRID
from radii.data.dataset import Data
from radii.data.threat_on_data import threat_on
from radii.errors import InputError, checked
from radii.evaluation.evaluate import look_first
from radii.evaluation.paired import unlike_attacks
from radii.evaluation.requirement import Requirement
from radii.evaluation.scores import Scores
from radii.geometry.audit import Audit
from radii.models.classifier import torch_device
from radii.runs.component_specs import DataSpec, choose_rows
from radii.runs.executors import run_steps
from radii.runs.model_source import ModelSource, command_words, load_model
from radii.runs.planning import data_spec
from radii.runs.step import Step
from radii.runs.step_results import CorruptionsResult
from radii.runs.steps import AuditStep, Corruptions, Evaluate, Train
from radii.runs.steps.audit_step import load_audit
from radii.runs.steps.evaluate_step import load_scores
from radii.runs.steps.train_step import Fit
from radii.runs.store import Run, Store
from radii.studies.assessment_defaults import (
    CERTIFIED,
    INPUTS_SHOWN,
    REFERENCES,
    STANDARD,
    classifiers,
    usual_threat,
)
from radii.tables import Field, Table, table
from radii.threat import Ball

if TYPE_CHECKING:
    from radii.studies._subset_curve import SubsetCurve
    from radii.studies.scaling_forecast import Forecast

FIRST = 100  # points on which a user's model is tried before the audit
PARTS = 4  # steps among which the points are divided where each takes its time of complete verification


@dataclass(frozen=True)
class DataLimits:
    """What an audit says of the data: how far classification can be robust at the threat's radius."""

    verdict: tuple[str, ...]
    share_possible: float  # of the test points
    contradictory: int  # inputs with two labels
    rule_astuteness: float  # share of test points on which the nearest-neighbor rule is proved right
    distances: dict[str, NDArray[np.float64]]  # per split, to the nearest training point of another class
    nearest: NDArray[np.int64] | None = None  # of each test point, the row of that training point; -1: there is none

    @classmethod
    def of(cls, audit: Audit) -> DataLimits:
        """Of an audit of both splits."""
        assert audit.test is not None, "a dataset has a test split"
        assert audit.rule is not None, "the rule is measured on it"
        return cls(
            audit.verdict,
            audit.test.share_possible(audit.epsilon),
            len(audit.contradictory),
            audit.rule.astuteness(audit.epsilon),
            {"train": audit.train.distance, "test": audit.test.distance},
            audit.test.neighbor,
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
    fit: Fit | None = None  # how it was trained and how well it fits; None: the user's own model
    source: ModelSource | None = None  # where the model is and what identifies it

    def summary(self) -> dict[str, Any]:
        """Runs and figures as JSON data."""
        return {
            "training_run": None if self.training is None else self.training.id,
            "evaluation_run": self.evaluation.id,
            "training": {} if self.fit is None else self.fit.result.brief().to_json(),
            "evaluation": self.evaluation.content | self.scores.summary(),  # an old run has old medians
        }


@dataclass(frozen=True)
class Assessment:
    """Everything the report tells."""

    data: Data
    source: str
    ball: Ball | Change
    around: Ball  # in which the data is measured and references are trained: the threat itself where it is a ball
    audit: Run
    models: tuple[AssessedModel, ...]
    seed: int
    forecast: Forecast | str | None = None  # of the certified classifier; words say why there is none
    why_threat: str = ""  # the reason for a threat that the user did not choose
    floors: tuple[Requirement, ...] = ()  # what the user requires; without them nothing is judged
    options: tuple[str, ...] = ()  # words of the command line that say what is not told by the other fields
    corrupted: Mapping[str, CorruptionsResult] = field(default_factory=dict)  # by model, where it was asked for

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
        return next(model for model in self.models if model.name in CERTIFIED)

    @cached_property
    def limits(self) -> DataLimits:
        """What the data allows."""
        return DataLimits.of(load_audit(self.audit))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not alike in the evaluations of the models."""
        return unlike_attacks({model.name: model.scores.attacks for model in self.models})

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
            row: dict[str, Any] = {"classifier": model.name, "attacks": scores.attacks}
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
            ["classifier", *fields, *radii, "attacks", "certificate", "passes"],
            f"{self.source}, threat {self.ball}",
        )

    def summary(self) -> dict[str, Any]:
        """All figures as JSON data."""
        return {
            "dataset": self.source,
            "threat": str(self.ball),
            "why_this_threat": self.why_threat,
            "warnings": list(self.warnings),
            "required": [str(floor) for floor in self.floors],
            "seed": self.seed,
            "audit": self.audit.content,
            "models": {model.name: model.summary() for model in self.models},
            "forecast": self.forecast if isinstance(self.forecast, str | None) else self.forecast.summary(),
            **({"corruptions": {n: own.to_json() for n, own in self.corrupted.items()}} if self.corrupted else {}),
        }


@dataclass(frozen=True)
class AssessmentPlan:
    """The steps of an assessment, before, while and after they are computed."""

    data: Data
    source: str
    ball: Ball | Change
    around: Ball
    why_threat: str
    seed: int
    trainings: dict[str, Train]
    evaluations: dict[str, Evaluate]
    audit: AuditStep
    curve: SubsetCurve | None
    floors: tuple[Requirement, ...] = ()
    options: tuple[str, ...] = ()
    corruptions: Mapping[str, Corruptions] = field(default_factory=dict)

    @property
    def steps(self) -> list[Step]:
        """All of them."""
        parts = self.curve.steps.values() if self.curve else ()
        return [*self.trainings.values(), self.audit, *self.evaluations.values(), *self.corruptions.values(), *parts]

    def assessment(self, store: Store) -> Assessment:
        """What the committed steps say: those models whose evaluations are there."""
        runs = {name: Run(store.folder(step)) for name, step in self.evaluations.items() if store.is_done(step)}
        if not runs or not store.is_done(self.audit):
            raise InputError("The audit and at least one evaluation must be done before there is a report.")
        models = []
        for name, run in runs.items():
            step = self.trainings.get(name)
            training = None if step is None else Run(store.folder(step))
            fit = None if step is None or training is None else Fit.of(step, training)
            source = self.evaluations[name].model
            models.append(AssessedModel(name, training, run, *load_scores(run), fit, source))
        grown = self.curve is not None and all(store.is_done(step) for step in self.curve.steps.values())
        outlook = self.curve.forecast(store) if self.curve is not None and grown else None
        audit = Run(store.folder(self.audit))
        return Assessment(
            self.data, self.source, self.ball, self.around, audit, tuple(models), self.seed, outlook, self.why_threat,
            self.floors, self.options,
            {n: Run(store.folder(s)).read(CorruptionsResult) for n, s in self.corruptions.items() if store.is_done(s)},
        )  # fmt: skip


@dataclass(frozen=True)
class AssessmentRequest:
    """What is assessed and how; the fields are the arguments of :func:`assess`."""

    data: str | Data
    threat: Ball | Change | str | None = None
    models: Mapping[str, ModelSource] = field(default_factory=dict)
    references: bool = True
    epochs: int | None = None
    points: int = 500
    suite: str = "standard"
    seed: int = 0
    forecast: bool | None = None
    complete: float = 0.0
    require: Sequence[str] = ()
    corruptions: bool = False

    def plan(self, store: Store) -> AssessmentPlan:
        """The steps; :meth:`AssessmentPlan.assessment` reads their results."""
        spec = data_spec(self.data, store)
        loaded = spec.load()
        usual = usual_threat(loaded) if self.threat is None else None
        ball = usual.ball if usual else threat_of(cast(Ball | Change | str, self.threat))
        threat_on(ball, loaded)  # a radius without a unit is questioned before any work
        around = ball if isinstance(ball, Ball) else usual_threat(loaded).ball
        self._check_suite(ball)
        own = {_unlike(name, REFERENCES): source for name, source in self.models.items()}
        if not own and not self.references:
            raise InputError("There is nothing to assess: give a model, or leave the references in.")
        trainings = classifiers(spec, loaded, around, self.epochs, self.seed) if self.references else {}
        small = not own and len(loaded.train) <= INPUTS_SHOWN and ball is around
        wanted = small if self.forecast is None else self.forecast
        certified = next((name for name in trainings if name in CERTIFIED), None)
        everyone = {**own, **trainings}
        evaluations = {name: self._evaluation(model, spec, ball, loaded) for name, model in everyone.items()}
        for name, source in own.items():
            if not store.is_done(evaluations[name]):
                _look_first(name, source, store, loaded)
        return AssessmentPlan(
            loaded,
            self.data if isinstance(self.data, str) else self.data.name,
            ball,
            around,
            "" if usual is None else str(usual),
            self.seed,
            trainings,
            evaluations,
            AuditStep(data=spec, norm=around.norm, epsilon=around.radius, unit=around.unit),
            _curve(trainings[certified], loaded, around, certified) if wanted and certified else None,
            tuple(_floor(text, ball) for text in self.require),
            self._options(),
            self._corruptions(everyone, spec, loaded),
        )

    def _check_suite(self, threat: Ball | Change) -> None:
        """Refuse a suite where the threat has an attack of its own."""
        if isinstance(threat, Change) and self.suite != "standard":
            raise InputError(
                f"Changes of images are attacked by a grid of their strengths; leave --suite {self.suite} out."
            )

    def _corruptions(self, models: Mapping[str, ModelSource], spec: DataSpec, data: Data) -> dict[str, Corruptions]:
        """The steps of the table by kind, on the points of the evaluations."""
        if self.corruptions and not data.train.is_image:
            raise InputError(f"Corruptions are for images, and {data.name} has features: leave --corruptions out.")
        return {
            name: Corruptions(model=model, data=spec, points=self.points, seed=self.seed)
            for name, model in (models.items() if self.corruptions else ())
        }

    def _options(self) -> tuple[str, ...]:
        """The models and what differs from the defaults, as words of the command line."""
        words = command_words(tuple(self.models.values()))
        words += [] if self.references else ["--no-references"]
        words += [] if self.suite == "standard" else ["--suite", self.suite]
        words += [] if self.epochs is None else ["--epochs", str(self.epochs)]
        words += ["--corruptions"] if self.corruptions else []
        words += [] if not self.complete else ["--complete", f"{self.complete:g}"]
        return tuple(words)

    def _evaluation(self, model: ModelSource, spec: DataSpec, ball: Ball | Change, data: Data) -> Evaluate:
        """A model without gradients meets its own suite; complete verification is divided among several steps."""
        changed = isinstance(ball, Change)
        divided = self.complete > 0 and self.suite != "sampled" and not changed
        return Evaluate(
            model=model,
            data=spec,
            ball=ball,
            suite=GRID if changed else getattr(model, "suite", "") or self.suite,
            points=self.points,
            seed=self.seed,
            complete=self.complete,
            parts=min(PARTS, self.points, len(data.test)) if divided else 1,
        )


@checked
def assess(
    data: str | Data,
    threat: Ball | Change | str | None = None,
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
    require: Sequence[str] = (),
    corruptions: bool = False,
) -> Assessment:
    """Audit the data, train a standard, a robust and a certified classifier, certify and attack them and one's own.

    The robust classifier is the standard one's network, trained against a few steps of attack (Madry et al. 2018).
    The certified classifier is the one of the recipe ``certified`` at its smallest budget: an isometric
    (1-Lipschitz) network for L2 threats, a network trained by interval bounds for Linf threats.

    Every step is a run in ``store``: what was computed before is found, not computed again.

    Args:
        data: a name as on the command line, or a dataset in memory.
        threat: a ball or its text, for example ``l2:0.5``; or a change of images, as ``brightness:0.2``: then the
            data is measured, and references are trained, at the default, which is
            :func:`~radii.studies.assessment_defaults.usual_threat`.
        models: the user's own models by name, as :func:`radii.runs.model_source.find_model` finds them.
        references: train the three classifiers of this package and show them beside the user's models.
        epochs: passes over the training data; by default as many as show each classifier about 30,000
            inputs, three at the least.
        points: class-balanced test points to certify and attack; all if the split has fewer.
        suite: the attacks: ``fast``, ``standard``, ``exhaustive``.
        seed: the seed of every random stream.
        store: where runs are kept; :meth:`Store.default` by default.
        workers: worker processes, one per core by default; 0 computes in this process.
        forecast: add what more data would bring, by eight short trainings on parts of the data; by default on
            small data only, and not beside the user's own models.
        complete: seconds a point of complete verification, which brings proved and broken radii together.
        require: floors to judge by, as in :func:`radii.gate`: ``proved(l2:0.5)>=0.7``; by default nothing is judged.
        corruptions: add a table of accuracies by kind and severity of fifteen common corruptions of images.

    Returns:
        The audit, the trained classifiers, their certificates and attacks, and the report's figures.

    Raises:
        InputError: the data cannot be read, the threat does not fit it, or there is no model to assess.
        FailedStepsError: several steps failed; all others are kept.
    """
    store = store or Store.default()
    request = AssessmentRequest(
        data, threat, models or {}, references, epochs, points, suite, seed, forecast, complete, require, corruptions
    )
    plan = request.plan(store)
    run_steps(plan.steps, store, workers)
    return plan.assessment(store)


def _look_first(name: str, source: ModelSource, store: Store, data: Data) -> None:
    """Before anything is computed: the model fits the data, and its clean accuracy on a few points is said."""
    model, device = load_model(source, store, data).model, torch_device(store.device)
    x, y = data.test.tensors(choose_rows(data.test, FIRST, seed=0))
    progress.say(f"{name}, before anything else:")
    look_first(model.to(device), x.to(device), y.to(device), data.test.box)


def _floor(text: str, ball: Ball | Change) -> Requirement:
    """What ``text`` requires; it must be about the threat of the assessment."""
    floor = Requirement.parse(text)
    if floor.corruption is not None:
        raise InputError(f"{text!r} is no requirement of an assessment; radii gate takes it.")
    if floor.ball is not None and not _are_one(floor.ball, ball):
        raise InputError(f"{text!r} is about another threat than the assessment, {ball}; give --threat {floor.ball}.")
    return floor


def _are_one(first: Ball | Change, second: Ball | Change) -> bool:
    """Whether two threats are of one norm or kind, and of one radius; what a table adds to a ball does not count."""
    if isinstance(first, Ball) and isinstance(second, Ball):
        return (first.norm, first.radius) == (second.norm, second.radius)
    return first == second


def _unlike(name: str, taken: Container[str]) -> str:
    """A name that is none of ``taken``."""
    return f"{name} (own)" if name in taken else name


def _curve(training: Train, data: Data, ball: Ball, name: str) -> SubsetCurve | None:
    from radii.studies._subset_curve import subset_curve

    return subset_curve(training, data, ball, name)
