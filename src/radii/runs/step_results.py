"""What steps find, as typed records: ``perform`` returns one, ``result.json`` holds it, ``run.read`` gives it back.

This module imports no torch, so that lists of runs and the claims of papers are read at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isclose, isfinite, isnan
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    computed_field,
)

from radii.attacks.caveats import Alarm, SurvivorBound
from radii.certificates.certificate import Measure
from radii.evaluation.accuracy import Accuracy, Bracket
from radii.spec import explain
from radii.training.history import Epoch, Watched


class Record(BaseModel):
    """A frozen record of figures. Numbers of numpy become Python's; NaN and infinities are kept.

    A field with a default may be missing in a file, and is left out there while it has its default. Keys of a file
    that are no fields are ignored: figures that follow from others are written for readers of the file.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="strings")

    long: ClassVar[tuple[str, ...]] = ()

    def brief(self) -> Self:
        """The same, and the records in it, without the fields ``long``: lists which no analysis of a study needs."""
        inner = {name: value.brief() for name, value in self if isinstance(value, Record)}
        fields = type(self).model_fields
        return self.model_copy(update={**inner, **{name: fields[name].get_default() for name in self.long}})


class StepResult(Record):
    """What a step found. Two results are equal if they are written the same, so NaN equals NaN."""

    def headline(self) -> str:
        """The figure to remember, as lists of runs show it."""
        return ""

    def text(self) -> str:
        """As ``result.json`` holds it; ASCII, so that a file name which is not UTF-8 can be written and read again."""
        return json.dumps(_in_words(self.model_dump(mode="json", exclude_defaults=True)), indent=2, allow_nan=False)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data; NaN and infinities are the words ``NaN``, ``Infinity`` and ``-Infinity``."""
        content: dict[str, Any] = json.loads(self.text())
        return content

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, StepResult) and self.text() == other.text()

    def __hash__(self) -> int:
        return hash(self.text())


def _in_words(content: Any) -> Any:
    """JSON data whose numbers beyond the finite ones are words."""
    if isinstance(content, dict):
        return {key: _in_words(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_in_words(value) for value in content]
    if isinstance(content, float) and not isfinite(content):
        return "NaN" if isnan(content) else "Infinity" if content > 0 else "-Infinity"
    return content


R = TypeVar("R", bound=StepResult)


def parse_result(content: Mapping[str, Any], record: type[R], where: str) -> R:
    """The record that JSON data holds."""
    try:
        return record.model_validate(content)
    except ValidationError as error:
        raise explain(error, f"{where} is not what this version of radii writes") from error


Share = Annotated[Accuracy, PlainSerializer(lambda share: share.summary())]
Ends = Annotated[Bracket, PlainSerializer(lambda bracket: bracket.summary())]


class TrainResult(StepResult):
    """How well a trained classifier fits.

    Attributes:
        train_accuracy: on the train split, in eval mode.
        test_accuracy: on the test split.
        parameters: number of trained values.
        history: the passes over the data.
        watched: looks for catastrophic overfitting at held-out training points.
    """

    long: ClassVar[tuple[str, ...]] = ("history", "watched")

    train_accuracy: float
    test_accuracy: float
    parameters: int
    history: tuple[Epoch, ...] = ()
    watched: tuple[Watched, ...] = ()

    def headline(self) -> str:
        """``test 97.2%``."""
        return f"test {self.test_accuracy:.1%}"


class ProveResult(StepResult):
    """Shares of points: classified rightly, proved in the ball, and unbroken by PGD-40."""

    clean: Share
    proved: Share
    unbroken: Share

    def headline(self) -> str:
        """``unbroken 61.0%``."""
        return f"unbroken {self.unbroken.value:.1%}"


class VerifyResult(StepResult):
    """What complete verification found of a property.

    Attributes:
        verdict: ``sat`` (an input meets it), ``unsat`` (none does, proved); else the limits came first.
        seconds: of the search.
        nodes: regions that were bounded.
        open: the share of the search that is left.
        bound: the least bound of an open region, where it is known; 0 would prove it.
        counterexample: of ``sat``, decimals that meet the property's own exactly; float32 rounds them to the input.
        outputs: the network's there, likewise.
        tensors: of ``sat`` for VNN-LIB 2.0, ``input X float32 [1,5]`` and so on; empty for 1.0.
    """

    long: ClassVar[tuple[str, ...]] = ("counterexample", "outputs")

    verdict: Literal["sat", "unsat", "timeout", "unknown"]
    seconds: float
    method: str
    nodes: int
    open: float
    bound: float | None = None
    counterexample: tuple[str, ...] | None = None
    outputs: tuple[str, ...] | None = None
    tensors: tuple[str, ...] = ()

    @property
    def is_decided(self) -> bool:
        """Whether the property is proved or refuted."""
        return self.verdict in ("sat", "unsat")

    def headline(self) -> str:
        """``unsat in 0.5 s``."""
        return f"{self.verdict} in {self.seconds:.1f} s"

    def result_file(self) -> str:
        """As competitions read it."""
        from radii.verification.result_file import result_text  # other records need nothing of verification

        if self.counterexample is None or self.outputs is None:
            return result_text(self.verdict, None)
        return result_text(self.verdict, (self.counterexample, self.outputs), self.tensors)


class AttackStepResult(StepResult):
    """What one attack leaves: shares of points, points that it broke, and its passes through the network."""

    clean: Share
    unbroken: Share
    broken_by_attack: int
    passes: int

    def headline(self) -> str:
        """``unbroken 61.0%``."""
        return f"unbroken {self.unbroken.value:.1%}"


class KindAccuracy(Record):
    """Correct answers under one kind of corruption, by severity from 1."""

    kind: str
    correct: tuple[int, ...]


class CorruptionsResult(StepResult):
    """Correct answers on clean images and under each kind of corruption, of ``points`` each."""

    points: int
    clean: int
    kinds: tuple[KindAccuracy, ...]

    @property
    def mean(self) -> float:
        """The mean accuracy over kinds and severities."""
        each = [count for own in self.kinds for count in own.correct]
        return sum(each) / (self.points * len(each))

    def headline(self) -> str:
        """``corrupted 61.0%``."""
        return f"corrupted {self.mean:.1%}"


class ClassShares(Record):
    """The points of one class in an evaluation."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    label: int = Field(alias="class")
    clean: Share
    robust: Ends

    @computed_field  # type: ignore[prop-decorator]
    @property
    def points(self) -> int:
        """How many there are."""
        return self.clean.total


class EvaluateResult(StepResult):
    """What is proved of a classifier on points of a split, and what attacks break of the rest.

    Attributes:
        robust_to_predictions: points whose prediction, right or wrong, does not change in the ball.
        certificate: the method of the certificate; None where there is none.
        proved_radius: quantiles over all points by name, ``median``.
        broken_radius: the same; None where no error is known.
        radius_known: the share of points whose proved and broken radius differ by at most 1%.
        passes: images through the network by attack, and ``all``.
        no_certificate_because: why nothing is proved, if so.
    """

    long: ClassVar[tuple[str, ...]] = ("per_class",)

    threat: str
    suite: str
    seed: int
    clean: Share
    robust: Ends
    robust_to_predictions: Ends
    certificate: str | None
    proved_radius: dict[str, float | None]
    broken_radius: dict[str, float | None]
    radius_known: Share
    per_class: tuple[ClassShares, ...] = ()
    passes: dict[str, int]
    local_lipschitz: float | None
    survivor_bound: Annotated[SurvivorBound, PlainSerializer(asdict)] | None
    alarms: tuple[Alarm, ...]
    notes: tuple[str, ...]
    no_certificate_because: str | None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def points(self) -> int:
        """How many points were evaluated."""
        return self.clean.total

    @computed_field  # type: ignore[prop-decorator]
    @property
    def test_accuracy(self) -> float:
        """Clean accuracy on the points."""
        return self.clean.value

    @computed_field  # type: ignore[prop-decorator]
    @property
    def robust_accuracy_at_least(self) -> float:
        """The share that is proved."""
        return self.robust.proved.value

    @computed_field  # type: ignore[prop-decorator]
    @property
    def robust_accuracy_at_most(self) -> float:
        """The share that no attack broke."""
        return self.robust.unbroken.value

    def headline(self) -> str:
        """``robust 12.0% to 61.0%``."""
        return f"robust {self.robust_accuracy_at_least:.1%} to {self.robust_accuracy_at_most:.1%}"


@dataclass(frozen=True)
class CertifiedAccuracy(Accuracy):
    """The share of points that are right and certified at a radius.

    ``population_at_least`` bounds the share in the distribution from below, with 95% confidence; None for estimates.
    """

    population_at_least: float | None = None

    def summary(self) -> dict[str, float | int | list[float]]:
        """As JSON data."""
        bound = self.population_at_least
        return {**super().summary(), **({} if bound is None else {"population_at_least": bound})}


Shares = tuple[Annotated[CertifiedAccuracy, PlainSerializer(lambda share: share.summary())], ...]


class RadiusKnown(Record):
    """For how many points the true radius is known to ``tolerance``, and the medians of both ends."""

    known: int
    total: int
    tolerance: float
    median_proved: float | None
    median_broken: float | None


class CertifiedSplit(Record):
    """The points of one split in a certification; shares are at the radii that were asked for.

    Attributes:
        clean: accuracy without a perturbation.
        certified: right and certified; None for an estimate.
        estimated: the same of an estimate, which certifies nothing.
        certified_by_sqrt2: by the textbook rule, margin over sqrt(2) times L; of the method ``margin`` only.
        exact: how well true radii are known, where they were asked for.
    """

    clean: Share
    certified: Shares | None = None
    estimated: Shares | None = None
    certified_by_sqrt2: Shares | None = None
    exact: RadiusKnown | None = None

    @property
    def shares(self) -> Shares:
        """Certified, or of an estimate estimated."""
        shares = self.estimated if self.certified is None else self.certified
        assert shares is not None, "a certification has one of the two"
        return shares


class LayerConstant(Record):
    """The Lipschitz bound of one layer: its name and kind, the constant, and how it was bounded."""

    name: str
    kind: str
    value: float
    method: str


class NetworkConstant(Record):
    """The Lipschitz bound of a network: of all of it, of the features before the head, and whether it is proved."""

    long: ClassVar[tuple[str, ...]] = ("layers",)

    value: float
    features: float
    proved: bool
    layers: tuple[LayerConstant, ...] = ()


class CertifyResult(StepResult):
    """Clean and certified accuracy over radii, by one method.

    Attributes:
        radii: the radii that were asked for.
        method: the method, as ``--method`` has it.
        why: the reason for the method if ``auto`` chose it; else empty.
        certificate: the method, as the certificate names itself.
        kind: ``deterministic``, ``probabilistic`` or ``estimate``.
        alpha: error probability of a probabilistic statement.
        samples: mean number of samples for each input; None for methods without noise.
        lipschitz: the network's Lipschitz bound; None for methods without one.
    """

    radii: tuple[float, ...]
    method: str
    why: str
    certificate: str
    kind: Literal["deterministic", "probabilistic", "estimate"]
    norm: Measure
    alpha: float | None
    assumptions: tuple[str, ...]
    samples: float | None
    lipschitz: float | None = None
    bound: NetworkConstant | None = None
    train: CertifiedSplit | None = None
    test: CertifiedSplit | None = None

    def share_at(self, radius: float, split: str = "test", estimated: bool = False) -> float | None:
        """The share of points certified at a radius, or ``estimated``; None where that was not asked for."""
        own = self.train if split == "train" else self.test
        shares = None if own is None else own.estimated if estimated else own.certified
        pairs = zip(self.radii, shares or (), strict=False)
        return next((share.value for one, share in pairs if isclose(one, radius, rel_tol=1e-6)), None)

    @property
    def is_certified(self) -> bool:
        """False for an estimate from frequencies."""
        return self.kind != "estimate"

    def headline(self) -> str:
        """``certified 55.2% at 0.1412``."""
        if self.test is None:
            return ""
        word = "certified" if self.is_certified else "estimated"
        return f"{word} {self.test.shares[0].value:.1%} at {self.radii[0]:.4g}"


class NeighborRow(Record):
    """Distances to the nearest of ``n`` points."""

    n: int
    mean: float
    median: float
