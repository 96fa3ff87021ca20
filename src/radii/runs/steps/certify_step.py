"""The certification step: clean and certified accuracy over radii, by one method, without attacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator
from torch import Tensor, nn

from radii.certificates import choose, lipschitz
from radii.certificates.certificate import Certificate
from radii.certificates.margin import cheapest_bound, trained_bound
from radii.certificates.methods import AUTO, check_method
from radii.change import Change
from radii.confidence_interval import certified_accuracy_of_distribution
from radii.data.dataset import Data
from radii.data.threat_on_data import ball_on, threat_on
from radii.errors import InputError
from radii.evaluation.accuracy import accuracy, certified_curve
from radii.models.classifier import torch_device
from radii.models.lipschitz.network_bound import LipschitzBound, lipschitz_bound
from radii.runs.certification import POINTS, CertifiedPoints, SplitPoints
from radii.runs.component_specs import DataSpec, choose_rows
from radii.runs.model_source import ModelSource, load_model
from radii.runs.record_files import write_record
from radii.runs.step import Step, model_setup
from radii.runs.step_results import (
    CertifiedAccuracy,
    CertifiedSplit,
    CertifyResult,
    LayerConstant,
    NetworkConstant,
    RadiusKnown,
    Shares,
)
from radii.runs.store import Workspace
from radii.spec import Spec
from radii.threat import Ball, Norm

if TYPE_CHECKING:
    from radii.verification.true_radius import RadiusBracket

PIECES = "pieces"


class NearestNeighborModel(Spec):
    """The 1-nearest-neighbor classifier over the train split of the step's data."""

    rule: Literal["nearest-neighbor"] = "nearest-neighbor"

    @property
    def label(self) -> str:
        """Its name in tables."""
        return "1-NN"


class Certify(Step):
    """A classifier on points of its splits: clean and certified accuracy at several radii, by one method.

    No attack: this is what training curves over data size need, at a fraction
    of an evaluation's cost. With the default ``margin`` a network without a
    proved Lipschitz bound is refused.
    """

    kind: ClassVar[str] = "certify"
    Result: ClassVar[type[CertifyResult]] = CertifyResult
    omit_if_default: ClassVar[dict[str, Any]] = {
        "method": "margin",
        "norm": "l2",
        "splits": ("train", "test"),
        "sigma": None,
        "alpha": 0.001,
        "most": 100_000,
        "together": False,
        "prove": True,
        "exact": False,
        "seconds": 60.0,
        "train_points": None,
        "unit": "",
        "change": None,
    }

    model: ModelSource | NearestNeighborModel
    data: DataSpec
    radii: tuple[float, ...] = Field(min_length=1)
    points: int = Field(2000, ge=1, description="class-balanced choice from each split; all if it has fewer")
    seed: int = 0
    method: str = Field("margin", description="a certificate's name, or auto for the strongest that the model allows")
    norm: Norm = "l2"
    unit: Literal["", "sd"] = Field("", description="sd: radii count standard deviations of the training columns")
    splits: tuple[Literal["train", "test"], ...] = ("train", "test")
    sigma: float | None = Field(None, description="smoothing: standard deviation of the noise, in pixels")
    alpha: float = Field(0.001, gt=0, lt=1, description="smoothing: error probability of a statement")
    most: int = Field(100_000, ge=1, description="smoothing: samples for each input at most")
    together: bool = Field(False, description="smoothing: one alpha for all inputs")
    prove: bool = Field(True, description="margin: prove every layer's norm, else take a cheaper bound")
    train_points: int | None = Field(None, ge=1, description="from the train split, if other than points")
    exact: bool = Field(False, description="complete: close the bracket of the true radius by bisection")
    seconds: float = Field(60.0, gt=0, description="complete: for each input, and each radius unless exact")
    change: Change | None = Field(None, description="in place of a norm: radii are strengths, by the method pieces")

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        check_method(method)
        return method

    def describe(self) -> str:
        """``certify: lipschitz-convnet by offset-cross-entropy on mnist``."""
        return f"certify: {self.model.label}"

    def setup(self) -> str:
        """``…; certified on 2,000 points``, after the network's training."""
        return f"{model_setup(self.model)}; certified on {self.points:,} points"

    def perform(self, work: Workspace) -> CertifyResult:
        """Certify points of the splits; labels, predictions and radii are saved beside the figures."""
        data = self.data.load()
        self.ball_on(data)  # a radius without a unit is questioned before any work
        certifier = self._certifier(data, work)
        splits: dict[str, CertifiedSplit] = {}
        points: dict[str, SplitPoints] = {}
        for name in self.splits:
            split = data.train if name == "train" else data.test
            count = self.points if name == "test" else self.train_points or self.points
            x, y = split.tensors(choose_rows(split, count, self.seed))
            certificate, splits[name], points[name] = certifier.certified(x, y)
        write_record(work.folder / POINTS, CertifiedPoints(**points))
        bound, samples = certifier.bound, getattr(certificate, "samples", None)
        return CertifyResult(
            radii=self.radii,
            method=certifier.method,
            why=certifier.why,
            certificate=certificate.method,
            kind=certificate.kind,
            norm=certificate.norm,
            alpha=certificate.alpha,
            assumptions=certificate.assumptions,
            samples=None if samples is None else float(samples.double().mean()),
            lipschitz=None if bound is None else bound.value,
            bound=None if bound is None else _constant(bound),
            **splits,
        )

    def ball_on(self, data: Data) -> Ball:
        """The largest ball, in the units of ``data``."""
        return ball_on(Ball(self.norm, max(self.radii), unit=self.unit), data)

    def _certifier(self, data: Data, work: Workspace) -> _Certifier:
        """The method that this step means, with the model loaded."""
        if isinstance(self.model, NearestNeighborModel) or self.method == "nearest":
            return _Certifier(self, data, None, "nearest", "distances to stored points alone")
        model = load_model(self.model, work.store, data).model.to(torch_device(work.store.device))
        if self.change is not None:
            threat_on(self.change, data)
            return _Certifier(self, data, model, PIECES, "")
        method, why = self.method, ""
        if method == AUTO:
            method, why = choose.automatic(model, data.shape, self.norm, self.sigma)
        exact = method == "margin" and self.norm == "l2" and not self.ball_on(data).scale
        bound = lipschitz_bound(model, data.shape, prove=self.prove) if exact else None
        return _Certifier(self, data, model, method, why, bound)


@dataclass(frozen=True)
class _Certifier:
    """One method with everything it needs."""

    step: Certify
    data: Data
    model: nn.Module | None
    method: str
    why: str
    bound: LipschitzBound | None = None

    def certified(self, x: Tensor, y: Tensor) -> tuple[Certificate, CertifiedSplit, SplitPoints]:
        """The certificate of points of a split, its figures, and its columns for the file of points."""
        step, radii = self.step, self.step.radii
        bracket = self.bracket(x) if step.exact or step.change is not None else None
        certificate, textbook = self.certify(x) if bracket is None else (self.proved(bracket, x), None)
        prediction, radius = certificate.prediction.cpu(), certificate.radius.cpu()
        right = (prediction == y).numpy()
        shares = _at_radii(certificate, right, radii)
        figures = CertifiedSplit(
            clean=accuracy(right),
            certified=shares if certificate.is_certified else None,
            estimated=None if certificate.is_certified else shares,
            certified_by_sqrt2=None if textbook is None else _at_radii(textbook, right, radii),
            exact=None if bracket is None else RadiusKnown.model_validate(bracket.summary()),
        )
        broken = None if bracket is None else bracket.broken.cpu().numpy()
        return certificate, figures, SplitPoints(y.numpy(), prediction.numpy(), radius.numpy(), broken)

    def certify(self, x: Tensor) -> tuple[Certificate, Certificate | None]:
        """The certificate; for margins also by the textbook rule, margin over sqrt(2) times L, for comparison."""
        if self.model is not None and self.bound is not None:
            forms = lipschitz.certify_forms(self.model, x, self.bound)
            return forms["pairwise"], forms["sqrt2"]
        return self._by_method(x), None

    def _by_method(self, x: Tensor) -> Certificate:
        step = self.step
        if self.model is None:
            from radii.certificates import nearest

            proof, ball = nearest.certify(x, self.data.train.tensors(), step.norm), step.ball_on(self.data)
            return replace(proof, radius=proof.radius_in(ball, x[0].numel()), scale=ball.scale)
        return choose.certify(
            self.model,
            x,
            self.method,
            step.ball_on(self.data),
            radii=step.radii,
            sigma=step.sigma,
            alpha=step.alpha,
            samples=step.most,
            simultaneous=step.together,
            seed=step.seed,
            seconds=step.seconds,
        )

    def bracket(self, x: Tensor) -> RadiusBracket:
        """Proved and broken radii up to the largest that was asked for; 1-Lipschitz networks start at their margins."""
        from radii.verification.change_radius import change_radii
        from radii.verification.true_radius import RadiusBracket, true_radii

        step = self.step
        if step.change is not None and self.model is not None:
            limit = {"seconds": step.seconds} if step.exact else {"pieces": choose.PASSES}
            return change_radii(self.model, x, step.change, **limit)  # type: ignore[arg-type]
        if self.method != "complete" or self.model is None:
            raise InputError(f"The true radius is found by the method 'complete', got {self.method!r} instead.")
        start, ball = None, step.ball_on(self.data)
        if step.norm == "l2" and not ball.scale and trained_bound(self.model, tuple(x.shape[1:])):
            margins = lipschitz.certify(self.model, x, cheapest_bound(self.model, tuple(x.shape[1:])))
            none = margins.radius.new_full(margins.radius.shape, float("inf"))
            start = RadiusBracket(margins.prediction, margins.radius, none, x)
        return true_radii(self.model, x, max(step.radii), like=ball, seconds=step.seconds, start=start)

    def proved(self, bracket: RadiusBracket, x: Tensor) -> Certificate:
        """The lower ends of a bracket."""
        from radii.certificates.change_certificate import of_bracket
        from radii.certificates.complete_certificate import certificate_of
        from radii.verification.change_radius import ChangeBracket

        assert self.model is not None
        if isinstance(bracket, ChangeBracket) and self.step.change is not None:
            return of_bracket(self.model, self.step.change, bracket)
        return certificate_of(self.model, x, bracket.prediction, bracket.proved, self.step.ball_on(self.data))


def _constant(bound: LipschitzBound) -> NetworkConstant:
    """A network's Lipschitz bound and those of its layers."""
    layers = [LayerConstant(name=b.name, kind=b.kind, value=b.value, method=b.method) for b in bound.layers]
    return NetworkConstant(value=bound.value, features=bound.features, proved=bound.is_proved, layers=tuple(layers))


def _at_radii(certificate: Certificate, right: NDArray[np.bool_], radii: Sequence[float]) -> Shares:
    """Right and certified at each radius; of an estimate there is no bound for the population."""
    radius, alpha = (certificate.radius * (certificate.prediction >= 0)).cpu().numpy(), certificate.alpha or 0.0
    shares = [point.bracket.proved for point in certified_curve(right, radius, radii)]
    return tuple(
        CertifiedAccuracy(
            share.correct,
            share.total,
            certified_accuracy_of_distribution(share.correct, share.total, alpha) if certificate.is_certified else None,
        )
        for share in shares
    )
