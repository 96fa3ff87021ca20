"""What a grid measures of its trained networks: the tables ``[measure.NAME]`` of a study file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from radii.attacks import SUITES
from radii.certificates.methods import check_bound_method
from radii.errors import unknown_name
from radii.runs.step import Step
from radii.runs.steps import Certify, Evaluate, Prove, Train
from radii.spec import Spec
from radii.studies.study import Measured
from radii.threat import Ball

ON_TRAIN = ", train"  # behind the name of a measurement of training points
STEEPNESS = "local Lipschitz, at least"


class Measurement(Spec):
    """``[measure.NAME]``: what is measured of the trained networks, or only of those on some variants."""

    variants: tuple[str, ...] = ()

    @abstractmethod
    def steps(self, name: str, training: Train) -> Iterator[tuple[str, Step]]:
        """The steps that measure a network, each with the name of its cell."""

    @staticmethod
    @abstractmethod
    def figures(cell: Measured) -> dict[str, float]:
        """What a table shows of a result, by heading."""


class TrainMeasure(Measurement):
    """``step = "train"``: the accuracies of the training itself, over all points of both splits."""

    def steps(self, name: str, training: Train) -> Iterator[tuple[str, Step]]:
        yield name, training

    @staticmethod
    def figures(cell: Measured) -> dict[str, float]:
        result = cell.read(Train.Result)
        return {"clean": result.test_accuracy, f"clean{ON_TRAIN}": result.train_accuracy}


class EvaluateMeasure(Measurement):
    """``step = "evaluate"``: certify and attack points; ``points = 0`` leaves it out."""

    threat: str
    suite: str = "standard"
    points: int = Field(1000, ge=0)
    train_points: int = Field(0, ge=0)  # of the training split; as many as ``points`` by default
    certify: bool = True
    minimum_norm: bool = False
    lipschitz: bool = False
    split: Literal["test", "train", "both"] = "test"

    @field_validator("threat")
    @classmethod
    def _understood(cls, threat: str) -> str:
        Ball.parse(threat)
        return threat

    @field_validator("suite")
    @classmethod
    def _known(cls, suite: str) -> str:
        if suite not in SUITES:
            raise unknown_name("suite", suite, SUITES)
        return suite

    def steps(self, name: str, training: Train) -> Iterator[tuple[str, Step]]:
        counts = {"test": self.points, "train": self.train_points or self.points}
        for split, points in counts.items():
            if points and self.split in (split, "both"):
                yield (
                    name if split == "test" else f"{name}{ON_TRAIN}",
                    Evaluate(
                        model=training,
                        data=training.data,
                        ball=Ball.parse(self.threat),
                        suite=self.suite,
                        points=points,
                        minimum_norm=self.minimum_norm,
                        split=split,  # type: ignore[arg-type]
                        certify=self.certify,
                        lipschitz=self.lipschitz,
                    ),
                )

    @staticmethod
    def figures(cell: Measured) -> dict[str, float]:
        result = cell.read(Evaluate.Result)
        steep = result.local_lipschitz  # a search found it, so at least this
        return {
            "clean": result.test_accuracy,
            "proved": result.robust_accuracy_at_least,
            "unbroken": result.robust_accuracy_at_most,
            **({} if steep is None else {STEEPNESS: steep}),
        }


class CertifyMeasure(Measurement):
    """``step = "certify"``: clean and certified accuracy at L2 radii, by margins unless a method is named.

    ``smoothing`` and ``estimate`` need ``sigma``, the standard deviation of the noise.
    """

    radii: tuple[float, ...] = Field(min_length=1)
    points: int = Field(10_000, ge=0)
    method: Literal["margin", "auto", "smoothing", "estimate"] = "margin"
    sigma: float | None = Field(None, gt=0)

    @field_validator("sigma")
    @classmethod
    def _needed(cls, sigma: float | None, info: ValidationInfo) -> float | None:
        if (info.data.get("method") in ("smoothing", "estimate")) != bool(sigma):
            raise ValueError("write it for the methods smoothing and estimate, and only for them")
        return sigma

    def steps(self, name: str, training: Train) -> Iterator[tuple[str, Step]]:
        if self.points:
            how = {"radii": self.radii, "points": self.points, "method": self.method, "sigma": self.sigma}
            yield name, Certify(model=training, data=training.data, **how)

    @staticmethod
    def figures(cell: Measured) -> dict[str, float]:
        result = cell.read(Certify.Result)
        if (test := result.test) is None:
            return {}
        word = "certified" if result.is_certified else "estimated"
        shares = zip(result.radii, test.shares, strict=True)
        return {"clean": test.clean.value, **{f"{word} at {radius:.4g}": share.value for radius, share in shares}}


class ProveMeasure(Measurement):
    """``step = "prove"``: what bounds prove in a ball, and what PGD-40 leaves of the rest."""

    threat: str
    method: str = "crown-ibp"
    points: int = Field(1000, ge=0)

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        return check_bound_method(method)

    @field_validator("threat")
    @classmethod
    def _bounded(cls, threat: str) -> str:
        ball = Ball.parse(threat)
        if ball.norm not in ("l2", "linf"):
            raise ValueError(f"bounds exist for l2 and linf balls, got {ball} instead")
        return threat

    def steps(self, name: str, training: Train) -> Iterator[tuple[str, Step]]:
        if self.points:
            ball = Ball.parse(self.threat)
            yield name, Prove(model=training, data=training.data, ball=ball, method=self.method, points=self.points)

    @staticmethod
    def figures(cell: Measured) -> dict[str, float]:
        result = cell.read(Prove.Result)
        return {"clean": result.clean.value, "proved": result.proved.value, "unbroken": result.unbroken.value}


MEASUREMENTS: dict[str, type[Measurement]] = {
    "train": TrainMeasure,
    "evaluate": EvaluateMeasure,
    "certify": CertifyMeasure,
    "prove": ProveMeasure,
}
