"""All certificates by one function: by name, or the strongest proof of each point at a stated cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from radii.bounds.provably_robust import ASSUMPTIONS, Bounded
from radii.certificates._model_comparison import about
from radii.certificates.certificate import Arithmetic, Certificate
from radii.certificates.margin import trained_bound
from radii.certificates.methods import (
    AUTO,
    CERTIFICATES,
    METHODS,
    Method,
    Request,
    check_method,
    check_norm,
    tried_by_auto,
)
from radii.change import Change, threat_of
from radii.data.arrays import as_inputs
from radii.errors import InputError, OtherKindError, checked
from radii.models.adapter import ModelLike, Outputs, adapt, check_predictions
from radii.models.classifier import check_inputs
from radii.models.heads import assumed
from radii.networks.model_state import ModelState
from radii.tables import listed
from radii.threat import Ball, Box, Norm

RADII = tuple(level / 255 for level in (1, 2, 4, 8, 16, 36, 72, 108, 144, 255))
PASSES = 20_000  # forward passes that the proofs of one point may cost; the standard attack suite takes about 10,000
LAST = "sdp-crown"  # of the methods that auto tries unless more is asked for


@dataclass(frozen=True)
class Choice:
    """The strongest proof of every point, and the reasons for leaving methods out.

    Attributes:
        certificate: the larger radius of each point, in the ball's norm, with the method that proved it in
            ``methods``; None where no method fits the model.
        refusals: a sentence for every method that was left out.
    """

    certificate: Certificate | None
    refusals: tuple[str, ...]

    @property
    def why(self) -> str:
        """The reasons, each once, behind the methods that have it."""
        methods: dict[str, list[str]] = {}
        for refusal in self.refusals:
            method, _, reason = refusal.partition(": ")
            methods.setdefault(reason, []).append(method)
        return " ".join(f"{listed(names)}: {reason}" for reason, names in methods.items())


def automatic(
    model: nn.Module, input_shape: tuple[int, ...], norm: Norm, sigma: float | None = None, *, margin_alone: bool = True
) -> tuple[str, str]:
    """The method that ``auto`` stands for and the reason; ``auto`` itself is the strongest proof of each point.

    It depends on the ``model`` with its ``input_shape``, the ``norm`` of the balls and ``sigma``, if noise is given.
    Margins of a network that was built for a small Lipschitz constant are nearly as strong as all methods together
    and cost next to nothing; ``margin_alone`` takes them alone, for many points.
    """
    if sigma is not None and norm == "l2":
        return "smoothing", f"noise of sigma {sigma:g} was given, and smoothing certifies any model under it"
    if margin_alone and norm == "l2" and trained_bound(model, input_shape):
        return "margin", "the network was built for a small Lipschitz constant, so a margin is a radius"
    names = ", ".join(method.name for method in tried_by_auto(norm, LAST))
    return AUTO, f"for each point the strongest of {names}"


def choose(
    model: nn.Module,
    x: Tensor,
    ball: Ball,
    *,
    radii: Sequence[float] | None = None,
    passes: int = PASSES,
    last: str = LAST,
) -> Choice:
    """Try what the model allows, the cheapest method first, and keep the larger radius of each point.

    The methods are those of :data:`~radii.certificates.methods.METHODS` for ``auto``, in that order: first those
    that cost next to nothing, on all points; then each of the others on the points that the ones before did not
    prove at the largest radius. Radii in another norm are converted to the ball's. A method is left out at a point
    where it takes more forward passes than are left. There is no time limit, so the result is the same everywhere.

    Guarantee: deterministic, for the network as float32 computes it in eval mode, in the ball's box.

    Args:
        x: inputs [n, …] in the ball's box; never changed.
        radii: radii for which bounds are tried, by default the ball's radius alone.
        last: the last method to try; ``complete`` spends what is left on complete verification, by count too.

    Returns:
        The certificate, or None, and the reasons for what was left out.
    """
    check_inputs(x, ball.box)
    wanted = sorted({radius for radius in (radii or (ball.radius,)) if radius > 0})
    methods = tried_by_auto(ball.norm, last)
    left = torch.full((len(x),), passes)
    best, refusals = _at_once([method for method in methods if method.cost is None], model, x, ball, left)
    costly = [method for method in methods if method.cost is not None]
    if not wanted or not costly:
        return Choice(best, tuple(refusals))
    try:
        bounded = Bounded(model, tuple(x.shape[1:]))
        prediction = bounded.predict(x)
    except InputError as refusal:
        return Choice(best, (*refusals, f"bounds: {refusal}"))
    radius = torch.zeros(len(x), dtype=torch.float64) if best is None else best.radius.clone()
    radius[(prediction < 0).cpu()] = 0.0
    names = [""] * len(x) if best is None else list(best.methods)
    assumptions = [*ASSUMPTIONS, *(() if best is None else best.assumptions), *assumed(model)]
    search = _Search(bounded, x, prediction, ball, wanted, radius, names, left, assumptions)
    for method in costly:
        refusals += search.attempt(method)
    certificate = Certificate(
        prediction=prediction.cpu(),
        radius=radius,
        norm=ball.norm,
        kind="deterministic",
        method=" + ".join(dict.fromkeys(name for name in names if name)) or "bounds",
        assumptions=tuple(dict.fromkeys(assumptions)),
        methods=tuple(names),
        scale=ball.scale,
        state=ModelState.of(model),
    )
    return Choice(about(certificate, bounded.network, model, x), tuple(refusals))


def _at_once(
    methods: Sequence[Method], model: nn.Module, x: Tensor, ball: Ball, left: Tensor
) -> tuple[Certificate | None, list[str]]:
    """The larger radius of each point by methods that need no radius to try, in the ball's norm, and why not."""
    best: Certificate | None = None
    refusals = []
    for method in methods:
        try:
            proof = _computed(Request(method.name, model, x, ball, passes=left))
        except OtherKindError:
            continue
        except InputError as refusal:
            refusals.append(f"{method.name}: {refusal}")
            continue
        radius = proof.radius_in(ball, x[0].numel())
        names = proof.methods or tuple(method.name if value > 0 else "" for value in radius.tolist())
        proof = replace(proof, radius=radius, norm=ball.norm, scale=ball.scale, methods=names)
        best = proof if best is None else _larger(best, proof)
    return best, refusals


def _larger(first: Certificate, second: Certificate) -> Certificate:
    """The first certificate with the second's radius where that is larger, for the same prediction."""
    better = (second.radius > first.radius) & (second.prediction == first.prediction)
    names = zip(better.tolist(), first.methods, second.methods, strict=True)
    return replace(
        first,
        radius=torch.where(better, second.radius, first.radius),
        method=f"{first.method} + {second.method}",
        methods=tuple(new if swap else old for swap, old, new in names),
        assumptions=tuple(dict.fromkeys(first.assumptions + second.assumptions)),
    )


@dataclass(frozen=True)
class _Size:
    """What the cost of a proof depends on, see :class:`~radii.certificates.methods.ProofSize`."""

    bounded: Bounded
    x: Tensor
    ball: Ball

    @property
    def norm(self) -> Norm:
        return self.ball.norm

    @property
    def classes(self) -> int:
        return self.bounded.classes

    @cached_property
    def hidden_rows(self) -> Tensor:
        """Two rows for every coordinate that CROWN tightens, one for each side."""
        return 2 * self.bounded.unstable(self.x, self.ball)


def passes_needed(bounded: Bounded, x: Tensor, ball: Ball, method: str) -> Tensor:
    """About how many forward passes the proof of each point of ``x`` costs in ``ball`` by ``method``: [n].

    ``bounded`` is the traced network.
    """
    cost = METHODS[method].cost
    assert cost is not None, f"{method} has no cost in the table"
    return torch.as_tensor(cost(_Size(bounded, x, ball))).expand(len(x))


@dataclass(frozen=True)
class _Search:
    """The radius that is proved for each point so far, by which method, and the forward passes that it has left.

    ``radius``, ``methods``, ``left`` and ``assumptions`` are changed in place.
    """

    bounded: Bounded
    x: Tensor
    prediction: Tensor
    ball: Ball
    wanted: Sequence[float]  # radii, the smallest first
    radius: Tensor
    methods: list[str]
    left: Tensor
    assumptions: list[str]

    def attempt(self, method: Method) -> list[str]:
        """Raise radii by ``method`` where it is affordable; at the other points, why not."""
        spent, refused = torch.zeros_like(self.left), torch.zeros_like(self.left)
        try:
            if method.proves_by_bounds:
                for radius in reversed(self.wanted):
                    self._by_bounds(method.name, radius, spent, refused)
            else:
                self._by_certificate(method.name, spent, refused)
        except InputError as refusal:
            return [f"{method.name}: {refusal}"]
        self.left.sub_(spent)
        points = int((refused > 0).sum())
        sentence = (
            f"{method.name}: it takes up to {int(refused.max()):,} forward passes at {points:,} of {len(self.x):,} "
            "points"
        )
        return [f"{sentence}, where fewer are left; allow more by passes=."] if points else []

    def _affordable(self, method: str, radius: float, spent: Tensor, refused: Tensor) -> Tensor:
        """The points [m] that are not proved at ``radius`` and can pay for the method; the others are ``refused``."""
        rows = torch.nonzero((self.radius < radius) & (self.prediction >= 0).cpu())[:, 0]
        if not len(rows):
            return rows
        cost = passes_needed(self.bounded, self.x[rows], self.ball.with_radius(radius), method)
        too_expensive = cost > self.left[rows]
        refused[rows[too_expensive]] = torch.maximum(refused[rows[too_expensive]], cost[too_expensive])
        rows, cost = rows[~too_expensive], cost[~too_expensive]
        spent[rows] = torch.maximum(spent[rows], cost)
        return rows

    def _by_bounds(self, method: str, radius: float, spent: Tensor, refused: Tensor) -> None:
        """Prove points at one radius by bounds of the traced network."""
        rows = self._affordable(method, radius, spent, refused)
        if len(rows):
            ball = self.ball.with_radius(radius)
            holds = self.bounded.proves_by(self.x[rows], self.prediction[rows], ball, method).cpu()
            self._raise(rows[holds], torch.full_like(self.radius[rows[holds]], radius), method)

    def _by_certificate(self, method: str, spent: Tensor, refused: Tensor) -> None:
        """Ask a method for its own certificate of the points that are not proved at the largest radius."""
        rows = self._affordable(method, self.wanted[-1], spent, refused)
        if len(rows):
            proof = _computed(
                Request(
                    method, self.bounded.model, self.x[rows], self.ball.with_radius(self.wanted[-1]),
                    radii=tuple(self.wanted), passes=self.left[rows], proved=self.radius[rows],
                )
            )  # fmt: skip
            radius = proof.radius_in(self.ball, self.x[0].numel()).cpu()
            better = (radius > self.radius[rows]) & (proof.prediction.cpu() == self.prediction[rows].cpu())
            self._raise(rows[better], radius[better], method)
            self.assumptions.extend(proof.assumptions)

    def _raise(self, rows: Tensor, radius: Tensor, method: str) -> None:
        self.radius[rows] = radius
        for row in rows.tolist():
            self.methods[row] = method


def _computed(request: Request) -> Certificate:
    """The certificate that a method of the table, or of another package, gives for ``request``."""
    function = CERTIFICATES.factory(request.method)
    if request.method in METHODS:
        certificate = function(request)
    else:
        certificate = function(request.model, request.x, request.ball)
    if not isinstance(certificate, Certificate) or certificate.radius.shape != (len(request.x),):
        raise InputError(
            f"The certificate {request.method!r} must return a radii.Certificate of {len(request.x)} points."
        )
    return certificate


@checked
def certify(
    model: ModelLike,
    x: ArrayLike | Tensor,
    method: str = "auto",
    threat: str | Ball | Change | None = None,
    *,
    norm: Norm = "l2",
    radii: Sequence[float] | None = None,
    sigma: float | None = None,
    alpha: float = 0.001,
    samples: int = 100_000,
    simultaneous: bool = False,
    seed: int = 0,
    box: Box | None = (0.0, 1.0),
    stored: tuple[Tensor, Tensor] | None = None,
    arithmetic: Arithmetic = "float32",
    seconds: float = 60.0,
    outputs: Outputs = "auto",
    nhwc: bool = False,
) -> Certificate:
    """Certify the predictions of ``model`` on ``x`` [n, …].

    Args:
        model: a network from inputs to logits, or anything that :func:`radii.models.adapter.adapt` takes.
        x: inputs [n, …] in ``box``; never changed.
        method: a name of :data:`~radii.certificates.methods.METHODS`, one that another package publishes, an import
            path, or ``auto``: smoothing if ``sigma`` is given, else the strongest deterministic proof of each point
            (:func:`choose`).
        threat: a ball or its text (``linf:8/255``), in place of ``norm``, ``radii`` and ``box``; or a change of
            images, as ``brightness:0.2``, whose true radius is looked for up to its strength within ``seconds``.
        norm: norm of the radii; default ``l2``.
        radii: radii to try, for methods that prove stated radii; default: grey levels from 1/255 to 1.
        sigma: standard deviation of the noise of smoothing; use that of the model's training.
        alpha: error probability of a statement of smoothing; default 0.001.
        samples: the largest number of samples of smoothing for each input; default 100,000.
        simultaneous: one ``alpha`` for all inputs together; default False.
        seed: seed of the noise; default 0.
        box: the least and the greatest value of an input; default (0, 1), None: no limit.
        stored: points and labels of the nearest-neighbor classifier; only for ``nearest``.
        arithmetic: ``float32`` (default) covers rounding; ``exact`` leaves it out of margins and bounds, and says so.
        seconds: time of ``complete`` for each input and radius; default 60.
        outputs: what the model returns: ``auto`` (default), ``logits`` or ``probabilities``.
        nhwc: whether images have their channels last; default False.

    Returns:
        A prediction and a radius for each input, with the assumptions of the guarantee.

    Raises:
        InputError: no method fits, or the one asked for does not; the sentence names the layer and the reason.
    """
    check_method(method)
    largest = Ball(norm, 0.0, box) if threat is None else threat_of(threat)
    if isinstance(largest, Change):
        return _of_change(model, x, largest, seconds, outputs, nhwc)
    norm, box = largest.norm, largest.box
    levels = tuple(() if radii is None else radii) or (RADII if threat is None else (largest.radius,))
    largest = largest.with_radius(max(levels))
    x = as_inputs(x, nhwc=nhwc, exact=method == "nearest")
    network = nn.Identity() if method == "nearest" else adapt(model, x, outputs=outputs, nhwc=nhwc)
    if method == AUTO:
        method, _ = automatic(network, tuple(x.shape[1:]), norm, sigma, margin_alone=False)
    if method == AUTO:
        choice = choose(network, x, largest, radii=levels)
        if choice.certificate is None:
            raise InputError(
                f"No deterministic certificate fits this model. {choice.why} For smoothing give sigma "
                "(--sigma), the noise that the model was trained with."
            )
        return _of_users_model(choice.certificate, model, network, x)
    if method in METHODS:
        check_norm(method, norm)
    certificate = _computed(
        Request(
            method, network, x, largest, levels, sigma=sigma, alpha=alpha, samples=samples, simultaneous=simultaneous,
            seed=seed, stored=stored, arithmetic=arithmetic, seconds=seconds,
        )
    )  # fmt: skip
    if largest.scale or (norm == "l1" and certificate.norm == "l2"):  # an L2 ball contains the L1 ball of its radius
        radius = certificate.radius_in(largest, x[0].numel())
        certificate = replace(certificate, radius=radius, norm=norm, scale=largest.scale)
    return certificate if method == "nearest" else _of_users_model(certificate, model, network, x)


def _of_change(
    model: ModelLike, x: ArrayLike | Tensor, change: Change, seconds: float, outputs: Outputs, nhwc: bool
) -> Certificate:
    """The proved strengths of a change of images."""
    from radii.certificates.change_certificate import of_bracket
    from radii.verification.change_radius import change_radii  # loaded where it is asked for

    images = as_inputs(x, nhwc=nhwc)
    network = adapt(model, images, outputs=outputs, nhwc=nhwc)
    bracket = change_radii(network, images, change, seconds=seconds)
    return _of_users_model(of_bracket(network, change, bracket), model, network, images)


def _of_users_model(certificate: Certificate, model: ModelLike, network: nn.Module, x: Tensor) -> Certificate:
    """The certificate of ``network`` as one of the ``model`` that it was made of, after their answers were compared."""
    if network is model:
        return certificate
    if certificate.kind == "deterministic" and certificate.arithmetic == "float32":
        check_predictions(model, network, x, torch.where(certificate.radius > 0, certificate.prediction.cpu(), -1))
    if certificate.state is None or not isinstance(model, nn.Module):
        return certificate
    return replace(certificate, state=ModelState.of(model))
