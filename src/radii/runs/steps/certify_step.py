"""The certification step: clean and certified accuracy over radii, by one method, without attacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator
from torch import Tensor, nn

from radii.certificates import choose, lipschitz
from radii.certificates.certificate import Certificate
from radii.certificates.proportion import certified_accuracy_of_distribution
from radii.data.dataset import Data
from radii.errors import InputError
from radii.evaluation.accuracy import accuracy, certified_curve
from radii.models.classifier import usable
from radii.models.io.tensor_files import write_tensors
from radii.models.lipschitz.network_bound import LipschitzBound, lipschitz_bound
from radii.runs.certification import POINTS
from radii.runs.inputs import DataSpec, choose_rows
from radii.runs.model_source import ModelSource, load_model
from radii.runs.step import Effort, Step
from radii.runs.steps.train_step import Train
from radii.runs.store import Workspace
from radii.spec import Spec
from radii.threat import Norm

if TYPE_CHECKING:
    from radii.certificates.complete.true_radius import RadiusBracket


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
    neutral: ClassVar[dict[str, Any]] = {
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
    }

    model: ModelSource | NearestNeighborModel
    data: DataSpec
    radii: tuple[float, ...] = Field(min_length=1)
    points: int = Field(2000, ge=1, description="class-balanced choice from each split; all if it has fewer")
    seed: int = 0
    method: str = Field("margin", description="a certificate's name, or auto for the strongest that the model allows")
    norm: Norm = "l2"
    splits: tuple[Literal["train", "test"], ...] = ("train", "test")
    sigma: float | None = Field(None, description="smoothing: standard deviation of the noise, in pixels")
    alpha: float = Field(0.001, gt=0, lt=1, description="smoothing: error probability of a statement")
    most: int = Field(100_000, ge=1, description="smoothing: samples for each input at most")
    together: bool = Field(False, description="smoothing: one alpha for all inputs")
    prove: bool = Field(True, description="margin: prove every layer's norm, else take a cheaper bound")
    train_points: int | None = Field(None, ge=1, description="from the train split, if other than points")
    exact: bool = Field(False, description="complete: close the bracket of the true radius by bisection")
    seconds: float = Field(60.0, gt=0, description="complete: for each input, and each radius unless exact")

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        choose.check_method(method)
        return method

    def describe(self) -> str:
        """``certify: lipschitz-convnet by offset-cross-entropy on mnist``."""
        return f"certify: {self.model.label}"

    def effort(self) -> Effort:
        """The points."""
        if not isinstance(self.model, Train) or self.method != "margin":
            return super().effort()
        network = (self.model.model.canonical(),)
        return Effort.of("certify", (*network, self.data.base), network, amount=float(self.points))

    def perform(self, work: Workspace) -> dict[str, Any]:
        """Certify points of the splits; labels, predictions and radii are saved beside the figures."""
        data = self.data.load()
        certifier = self._certifier(data, work)
        result: dict[str, Any] = {"radii": list(self.radii), "method": certifier.method, "why": certifier.why}
        if certifier.bound is not None:
            result |= {"lipschitz": certifier.bound.value, "bound": bound_summary(certifier.bound)}
        arrays: dict[str, Tensor] = {}
        for name in self.splits:
            split = data.train if name == "train" else data.test
            count = self.points if name == "test" else self.train_points or self.points
            x, y = split.tensors(choose_rows(split, count, self.seed))
            bracket = certifier.bracket(x) if self.exact else None
            certificate, textbook = certifier.certify(x) if bracket is None else (certifier.proved(bracket), None)
            result |= certificate_summary(certificate)
            right = (certificate.prediction.cpu() == y).numpy()
            result[name] = {
                "clean": accuracy(right).summary(),
                **_at_radii(certificate, right, self.radii),
                **(
                    {}
                    if textbook is None
                    else {"certified_by_sqrt2": _at_radii(textbook, right, self.radii)["certified"]}
                ),
            }
            if bracket is not None:
                result[name]["exact"] = bracket.summary()
                arrays[f"{name}.broken"] = bracket.broken
            columns = {"label": y, "prediction": certificate.prediction, "radius": certificate.radius}
            arrays |= {f"{name}.{column}": values for column, values in columns.items()}
        write_tensors(work.folder / POINTS, arrays, durable=False)
        return result

    def _certifier(self, data: Data, work: Workspace) -> _Certifier:
        """The method that this step means, with the model loaded."""
        if isinstance(self.model, NearestNeighborModel) or self.method == "nearest":
            return _Certifier(self, data, None, "nearest", "distances to stored points alone")
        model = load_model(self.model, work.store, data).model.to(usable(work.store.device))
        method, why = self.method, ""
        if method == "auto":
            method, why = self._automatic(model, data.shape)
        exact = method == "margin" and self.norm == "l2"
        bound = lipschitz_bound(model, data.shape, prove=self.prove) if exact else None
        return _Certifier(self, data, model, method, why, bound)

    def _automatic(self, model: nn.Module, input_shape: tuple[int, ...]) -> tuple[str, str]:
        """The method that ``auto`` stands for and the reason; ``auto`` itself is the strongest proof of each point."""
        if self.sigma is not None and self.norm == "l2":
            return "smoothing", f"noise of sigma {self.sigma:g} was given, and smoothing certifies any model under it"
        if self.norm == "l2" and choose.trained_bound(model, input_shape):
            return "margin", "the network was built for a small Lipschitz constant, so a margin is a radius"
        return "auto", "for each point the strongest of margins, intervals, CROWN and alpha-CROWN"


@dataclass(frozen=True)
class _Certifier:
    """One method with everything it needs."""

    step: Certify
    data: Data
    model: nn.Module | None
    method: str
    why: str
    bound: LipschitzBound | None = None

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

            return nearest.certify(x, self.data.train.tensors(), step.norm)
        return choose.certify(
            self.model,
            x,
            self.method,
            norm=step.norm,
            radii=step.radii,
            sigma=step.sigma,
            alpha=step.alpha,
            samples=step.most,
            simultaneous=step.together,
            seed=step.seed,
            box=self.data.train.box,
            seconds=step.seconds,
        )

    def bracket(self, x: Tensor) -> RadiusBracket:
        """Proved and broken radii up to the largest that was asked for; 1-Lipschitz networks start at their margins."""
        from radii.certificates.complete.true_radius import RadiusBracket, true_radii

        step = self.step
        if self.method != "complete" or self.model is None:
            raise InputError(f"The true radius is found by the method 'complete', got {self.method!r} instead.")
        box, start = self.data.train.box, None
        if step.norm == "l2" and choose.trained_bound(self.model, tuple(x.shape[1:])):
            margins = lipschitz.certify(self.model, x, choose.cheapest_bound(self.model, tuple(x.shape[1:])))
            none = margins.radius.new_full(margins.radius.shape, float("inf"))
            start = RadiusBracket(margins.prediction, margins.radius, none, x)
        return true_radii(self.model, x, max(step.radii), norm=step.norm, box=box, seconds=step.seconds, start=start)

    def proved(self, bracket: RadiusBracket) -> Certificate:
        """The lower ends of a bracket."""
        assert self.model is not None
        return bracket.certificate(self.model, self.step.norm)


def certificate_summary(certificate: Certificate) -> dict[str, Any]:
    """What kind of statement a certificate makes, as JSON data."""
    samples = getattr(certificate, "samples", None)
    return {
        "certificate": certificate.method,
        "kind": certificate.kind,
        "norm": certificate.norm,
        "alpha": certificate.alpha,
        "assumptions": list(certificate.assumptions),
        "samples": None if samples is None else float(samples.double().mean()),
    }


def bound_summary(bound: LipschitzBound) -> dict[str, Any]:
    """A network's Lipschitz bound and those of its layers as JSON data."""
    return {
        "value": bound.value,
        "features": bound.features,
        "proved": bound.is_proved,
        "layers": [{"name": b.name, "kind": b.kind, "value": b.value, "method": b.method} for b in bound.layers],
    }


def _at_radii(certificate: Certificate, right: NDArray[np.bool_], radii: Sequence[float]) -> dict[str, Any]:
    """Right and certified at each radius; the word certified is kept from estimates.

    ``population_at_least`` bounds the certified accuracy of the distribution
    from below, with 95% confidence.
    """
    rows = []
    radius = (certificate.radius * (certificate.prediction >= 0)).cpu().numpy()
    for point in certified_curve(right, radius, radii):
        share = point.bracket.proved
        row: dict[str, Any] = share.summary()
        if certificate.is_certified:
            count, alpha = share.correct, certificate.alpha or 0.0
            row["population_at_least"] = certified_accuracy_of_distribution(count, share.total, alpha)
        rows.append(row)
    return {"certified" if certificate.is_certified else "estimated": rows}
