"""The whole question about a dataset: what it allows, what two classifiers reach, what is proved and broken."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from radii.data.dataset import Data
from radii.evaluation.scores import Scores
from radii.geometry.separation import separation
from radii.runs.executors import run_steps
from radii.runs.inputs import DataSpec
from radii.runs.planning import data_spec, train_step
from radii.runs.score_files import load_scores
from radii.runs.steps import AuditStep, Evaluate, Train
from radii.runs.steps.train_step import Fit
from radii.runs.store import Run, Store
from radii.tables import Field, Table, table
from radii.threat import Ball
from radii.training.certified import certified_plan
from radii.training.preprocessing import Preprocessing

if TYPE_CHECKING:
    from radii.studies.scaling_forecast import Forecast
    from radii.studies.subset_curve import SubsetCurve

STANDARD, LIPSCHITZ, INTERVAL = "standard", "1-Lipschitz", "interval-trained"
INPUTS_SHOWN = 30_000  # inputs that each classifier sees during training on small data: seconds, enough for digits


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
    training: Run
    evaluation: Run
    scores: Scores
    rows: NDArray[np.int64]  # of the test split

    @property
    def fit(self) -> Fit:
        """How it was trained and how well it fits."""
        return Fit.of(self.training)


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

    @property
    def standard(self) -> AssessedModel:
        """The classifier of ordinary training."""
        return self.models[0]

    @property
    def certified(self) -> AssessedModel:
        """The classifier that was trained to be proved at the threat: 1-Lipschitz for L2, by intervals for Linf."""
        return self.models[1]

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
        radii = [Field(f"{bound}_radius", f"median {bound} radius") for bound in ("proved", "broken")]
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
            "seed": self.seed,
            "audit": self.audit.result,
            "models": {
                model.name: {
                    "training_run": model.training.id,
                    "evaluation_run": model.evaluation.id,
                    "training": {key: value for key, value in model.training.result.items() if key != "history"},
                    "evaluation": model.evaluation.result | model.scores.summary(),  # an old run has old medians
                }
                for model in self.models
            },
            "forecast": self.forecast if isinstance(self.forecast, str | None) else self.forecast.summary(),
        }


def assess(
    data: str | Data,
    threat: Ball | str | None = None,
    *,
    epochs: int | None = None,
    points: int = 500,
    suite: str = "standard",
    seed: int = 0,
    store: Store | None = None,
    workers: int | None = None,
    forecast: bool | None = None,
    complete: float = 0.0,
) -> Assessment:
    """Audit the data, train a standard and a certified classifier, certify and attack both.

    The certified classifier is the one of the recipe ``certified`` at its smallest budget: an isometric
    (1-Lipschitz) network for L2 threats, a network trained by interval bounds for Linf threats.

    Every step is a run in ``store``: what was computed before is found, not computed again.

    Args:
        data: a name as on the command line, or a dataset in memory.
        threat: a ball or its text, for example ``l2:0.5``; :func:`usual_threat` by default.
        epochs: passes over the training data; by default as many as show each classifier about 30,000
            inputs, three at the least.
        points: class-balanced test points to certify and attack; all if the split has fewer.
        suite: the attacks: ``fast``, ``standard``, ``exhaustive``.
        seed: the seed of every random stream.
        store: where runs are kept; :meth:`Store.default` by default.
        workers: worker processes, one per core by default; 0 computes in this process.
        forecast: add what more data would bring, by eight short trainings on parts of the data; by default on
            small data only.
        complete: seconds a point of complete verification, which closes brackets of proved and broken radii.

    Returns:
        The audit, the trained classifiers, their certificates and attacks, and the report's figures.

    Raises:
        InputError: the data cannot be read, or the threat does not fit it.
        FailedStepsError: several steps failed; all others are kept.
    """
    store = store or Store.default()
    spec = data_spec(data, store)
    loaded = spec.load()
    ball = Ball.parse(threat) if isinstance(threat, str) else threat or usual_threat(loaded)
    trainings = classifiers(spec, loaded, ball, epochs, seed)
    evaluations = [
        Evaluate(model=step, data=spec, ball=ball, suite=suite, points=points, seed=seed, complete=complete)
        for step in trainings.values()
    ]
    audit = AuditStep(data=spec, norm=ball.norm, epsilon=ball.radius)
    wanted = len(loaded.train) <= INPUTS_SHOWN if forecast is None else forecast
    certified = list(trainings)[1]
    curve = _curve(trainings[certified], loaded, ball, certified) if wanted else None
    steps = [*trainings.values(), audit, *evaluations, *(curve.steps.values() if curve else ())]
    run_steps(steps, store, workers)
    models = []
    for name, training, evaluation in zip(trainings, trainings.values(), evaluations, strict=True):
        run = Run(store.folder(evaluation))
        models.append(AssessedModel(name, Run(store.folder(training)), run, *load_scores(run)))
    source = data if isinstance(data, str) else data.name
    outlook = curve.forecast(store) if curve else None
    return Assessment(loaded, source, ball, Run(store.folder(audit)), tuple(models), seed, outlook)


def _curve(training: Train, data: Data, ball: Ball, name: str) -> SubsetCurve | None:
    from radii.studies.subset_curve import subset_curve

    return subset_curve(training, data, ball, name)


def classifiers(spec: DataSpec, data: Data, ball: Ball, epochs: int | None, seed: int) -> dict[str, Train]:
    """The two trainings: a standard network, then the family that can be proved in the threat's norm.

    Args:
        spec: the dataset.
        data: the same, loaded.
        ball: the threat.
        epochs: passes over the training data; None for about 30,000 inputs.
        seed: the seed of every random stream.

    Returns:
        The steps by name, ``standard`` first, then ``1-Lipschitz`` or, for a Linf threat, ``interval-trained``.
    """
    settings: dict[str, Any] = {
        "epochs": epochs or max(3, round(INPUTS_SHOWN / len(data.train))),
        "batch_size": min(256, max(16, len(data.train) // 45)),
    }
    plain, narrow = ("lenet5", {"model": {"widen": 0.25}}) if data.train.is_image else ("mlp", {})
    # features come in any unit; pixels need no scaling, which would also scale every radius
    inside: Preprocessing = "center" if data.train.box is not None else "standardize"
    recipe = certified_plan(data.train, ball, "smoke")
    length = {} if epochs is None else {"steps": 0, "epochs": epochs}
    return {
        STANDARD: train_step(spec, plain, "natural", {**settings, **narrow}, inside, seed),
        INTERVAL if ball.norm == "linf" else LIPSCHITZ: train_step(
            spec, recipe.model, recipe.method, recipe.settings | length, recipe.preprocessing, seed
        ),
    }


def usual_threat(data: Data) -> Ball:
    """The usual threat for ``data``: L2 0.5 for grey images, 36/255 for color images, as in the literature.

    For features a quarter of the distance that 95% of (at most 2,000 of) the
    points keep from other classes, to one digit.
    """
    if data.train.is_image:
        return Ball("l2", 0.5 if data.shape[0] == 1 else 36 / 255)
    sample = data.train.subset(min(2000, len(data.train)))
    reach = separation(sample.x, sample.y, norm="l2").quantile(0.05) / 4
    return Ball("l2", float(f"{max(reach, 1e-3):.1g}"), data.train.box)
