"""All certificates by one function: by name, or the strongest proof of each point at a stated cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from radii.certificates import CERTIFICATES, bounds, lipschitz
from radii.certificates.bounds.bounded import Bounded, passes_needed
from radii.certificates.bounds.lower_margins import Method
from radii.certificates.certificate import Arithmetic, Certificate
from radii.data.arrays import as_inputs
from radii.errors import InputError, checked, unknown_name
from radii.models.adapter import ModelLike, Outputs, adapt
from radii.models.classifier import check_inputs
from radii.models.layers.folded import Residual
from radii.models.lipschitz.network_bound import LipschitzBound, lipschitz_bound
from radii.models.model_state import ModelState
from radii.models.zoo.linf_distance import LinfDistanceNetwork
from radii.registry import is_import_path
from radii.threat import Ball, Box, Norm, converted

METHODS = ("margin", "smoothing", "estimate", *bounds.METHODS, "nearest", "complete")
LADDER: tuple[Method, ...] = ("ibp", "crown-ibp", "crown", "alpha-crown", "sdp-crown")  # cheapest first
RADII = tuple(level / 255 for level in (1, 2, 4, 8, 16, 36, 72, 108, 144, 255))
TIGHT = 2.0  # a network with a Lipschitz constant up to this was trained to have a small one
PASSES = 20_000  # forward passes that the proofs of one point may cost; the standard attack suite takes about 10,000
ROOT, REGION = 180, 50  # passes of complete verification: for each rival class, then for each region


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


def choose(
    model: nn.Module,
    x: Tensor,
    ball: Ball,
    *,
    radii: Sequence[float] | None = None,
    passes: int = PASSES,
    last: Method | Literal["complete"] = "sdp-crown",
) -> Choice:
    """Try what the model allows, the cheapest method first, and keep the larger radius of each point.

    Margins of a Lipschitz bound come first, then intervals, CROWN-IBP, CROWN, alpha-CROWN and, for L2 balls on the
    CPU, SDP-CROWN; each is tried on the points that the ones before did not prove at the largest radius. L2 margins
    are converted to the ball's norm. No clock decides: a method is left out at a point where it takes more forward
    passes than are left.

    Guarantee: deterministic, for the network as float32 computes it in eval mode, in the ball's box.

    Args:
        model: a network from inputs to logits.
        x: inputs [n, …] in the ball's box; never changed.
        ball: norm, radius and box of the perturbations.
        radii: radii for which bounds are tried, by default the ball's radius alone.
        passes: forward passes that may be spent on each point, counted from the coordinates that intervals leave open.
        last: the last method to try; ``complete`` spends what is left on complete verification, by count too.

    Returns:
        The certificate, or None, and the reasons for what was left out.
    """
    check_inputs(x, ball.box)
    wanted = sorted({radius for radius in (radii or (ball.radius,)) if radius > 0})
    best, refusals = _by_margin(model, x, ball)
    if not wanted or ball.norm == "l1":
        return Choice(best, tuple(refusals))
    try:
        bounded = Bounded(model, tuple(x.shape[1:]))
        prediction = bounded.predict(x)
    except InputError as refusal:
        return Choice(best, (*refusals, f"bounds: {refusal}"))
    radius = torch.zeros(len(x), dtype=torch.float64) if best is None else best.radius.clone()
    radius[(prediction < 0).cpu()] = 0.0
    methods = [""] * len(x) if best is None else list(best.methods)
    search = _Search(x, prediction, ball, wanted, radius, methods, torch.full((len(x),), passes))
    for method in LADDER if last == "complete" else LADDER[: LADDER.index(last) + 1]:
        if method != "sdp-crown" or (ball.norm == "l2" and x.device.type == "cpu"):
            refusals += search.by_bounds(bounded, method)
    if last == "complete":
        refusals += search.completely(model)
    assumptions = bounds.bounded.ASSUMPTIONS + (() if best is None else best.assumptions)
    return Choice(
        Certificate(
            prediction=prediction.cpu(),
            radius=radius,
            norm=ball.norm,
            kind="deterministic",
            method=" + ".join(dict.fromkeys(name for name in methods if name)) or "bounds",
            assumptions=tuple(dict.fromkeys(assumptions)),
            methods=tuple(methods),
            state=ModelState.of(model),
        ),
        tuple(refusals),
    )


@dataclass(frozen=True)
class _Search:
    """The radius that is proved for each point so far, by which method, and the forward passes that it has left.

    ``radius``, ``methods`` and ``left`` are changed in place.
    """

    x: Tensor
    prediction: Tensor
    ball: Ball
    wanted: Sequence[float]  # radii, the smallest first
    radius: Tensor
    methods: list[str]
    left: Tensor

    def _open(self, radius: float) -> Tensor:
        """The points that are not proved at ``radius``: [m] rows."""
        return torch.nonzero((self.radius < radius) & (self.prediction >= 0).cpu())[:, 0]

    def by_bounds(self, bounded: Bounded, method: Method) -> list[str]:
        """Raise radii by ``method`` where it is affordable; at the other points, why not."""
        spent, refused = torch.zeros_like(self.left), torch.zeros_like(self.left)
        for radius in reversed(self.wanted):
            rows, ball = self._open(radius), self.ball.with_radius(radius)
            if not len(rows):
                continue
            cost = passes_needed(bounded, self.x[rows], ball, method)
            dear = cost > self.left[rows]
            refused[rows[dear]] = torch.maximum(refused[rows[dear]], cost[dear])
            rows, cost = rows[~dear], cost[~dear]
            if not len(rows):
                continue
            spent[rows] = torch.maximum(spent[rows], cost)
            proved = rows[bounded.proves_by(self.x[rows], self.prediction[rows], ball, method).cpu()]
            self.radius[proved] = radius
            for row in proved.tolist():
                self.methods[row] = method
        self.left.sub_(spent)
        points = int((refused > 0).sum())
        sentence = (
            f"{method}: it takes up to {int(refused.max()):,} forward passes at {points:,} of {len(self.x):,} points"
        )
        return [f"{sentence}, where fewer are left; allow more by passes=."] if points else []

    def completely(self, model: nn.Module) -> list[str]:
        """Raise radii by complete verification with the passes that are left; at points with too few, why not."""
        from radii.certificates.complete.answer import Limits
        from radii.certificates.complete.deployed import Deployed
        from radii.certificates.complete.true_radius import decide

        with torch.no_grad():
            classes = model(self.x[:1].clone()).shape[1]
        regions = (self.left - ROOT * (classes - 1)) // REGION
        deployed, dear = Deployed.of(model, tuple(self.x.shape[1:])), 0
        for row in self._open(self.wanted[-1]).tolist():
            point, label, limits = self.x[row : row + 1].float(), int(self.prediction[row]), int(regions[row])
            dear += limits < 1
            for radius in (radius for radius in self.wanted if limits > 0 and radius > float(self.radius[row])):
                ball = self.ball.with_radius(radius)
                if decide(deployed, point, label, classes, ball, Limits(nodes=limits)).verdict != "unsat":
                    break
                self.radius[row], self.methods[row] = radius, "complete"
        return [f"complete: too few forward passes are left at {dear:,} of {len(self.x):,} points."] if dear else []


def _by_margin(model: nn.Module, x: Tensor, ball: Ball) -> tuple[Certificate | None, list[str]]:
    """L2 margins in the ball's norm, Linf margins of Linf distance networks, or None and why not."""
    if ball.norm == "linf" and type(model) is LinfDistanceNetwork:
        from radii.certificates import linf_margin

        proved = linf_margin.certify(model, x)
        return replace(proved, methods=tuple("linf-margin" if r > 0 else "" for r in proved.radius.tolist())), []
    try:
        margins = lipschitz.certify(model, x, cheapest_bound(model, tuple(x.shape[1:])))
    except InputError as refusal:
        from radii.certificates import graph_margin

        try:
            margins = graph_margin.certify(model, x, prove=False)
        except InputError:
            return None, [f"margin: {refusal}"]
    radius = converted(margins.radius, "l2", ball.norm, x[0].numel())
    methods = tuple("margin" if value > 0 else "" for value in radius.tolist())
    return replace(margins, radius=radius, norm=ball.norm, methods=methods), []


def _margin(model: nn.Module, x: Tensor, arithmetic: Arithmetic) -> Certificate:
    """Margins layer by layer, or by the graph of a network that branches."""
    try:
        return lipschitz.certify(model, x, arithmetic=arithmetic)
    except InputError as refusal:
        from radii.certificates import graph_margin

        if arithmetic != "float32":
            raise
        try:
            return graph_margin.certify(model, x)
        except InputError:
            raise refusal from None


def cheapest_bound(model: nn.Module, input_shape: tuple[int, ...]) -> LipschitzBound:
    """A Lipschitz bound by the quick fallback, and by proof where the network was trained to have a small one.

    Args:
        model: the network.
        input_shape: the shape of one input.
    """
    quick = lipschitz_bound(model, input_shape, prove=False)
    return lipschitz_bound(model, input_shape) if _is_trained_for(quick) else quick


def trained_bound(model: nn.Module, input_shape: tuple[int, ...]) -> bool:
    """Whether every layer has a Lipschitz bound and the network was built to have a small one.

    Args:
        model: the network.
        input_shape: the shape of one input.
    """
    try:
        return _is_trained_for(lipschitz_bound(model, input_shape, prove=False))
    except InputError:
        return False


def _is_trained_for(quick: LipschitzBound) -> bool:
    """A quick bound of residual layers is loose; their kind says what they were built for."""
    return quick.value <= TIGHT or any(layer.kind == Residual.__name__ for layer in quick.layers)


def check_method(name: str) -> None:
    """Refuse a name that no certificate has; an import path is not imported.

    Args:
        name: one of :data:`METHODS`, ``auto``, the name of an entry point in ``radii.certificates``, or an import path.

    Raises:
        InputError: there is none of that name.
    """
    known = (*METHODS, "auto", *CERTIFICATES)
    if name not in known and not is_import_path(name):
        hint = "Or give an import path: package.module:function or file.py:function."
        raise unknown_name("certificate", name, known, hint)


def _of_another_package(method: str, model: nn.Module, x: Tensor, ball: Ball) -> Certificate:
    check_method(method)
    certificate = CERTIFICATES.factory(method)(model, x, ball)
    if not isinstance(certificate, Certificate) or certificate.radius.shape != (len(x),):
        raise InputError(f"The certificate {method!r} must return a radii.Certificate of {len(x)} points.")
    return certificate


@checked
def certify(
    model: ModelLike,
    x: ArrayLike | Tensor,
    method: str = "auto",
    threat: str | Ball | None = None,
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
        method: one of :data:`METHODS`, or ``auto``: smoothing if ``sigma`` is given, else the strongest
            deterministic proof of each point (:func:`choose`).
        threat: a ball or its text (``linf:8/255``), in place of ``norm``, ``radii`` and ``box``.
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
    largest = Ball(norm, 0.0, box) if threat is None else Ball.of(threat)
    norm, box = largest.norm, largest.box
    levels = tuple(() if radii is None else radii) or (RADII if threat is None else (largest.radius,))
    largest = largest.with_radius(max(levels))
    x = as_inputs(x, nhwc=nhwc)
    network = nn.Identity() if method == "nearest" else adapt(model, x, outputs=outputs, nhwc=nhwc)
    if method == "auto" and (sigma is None or norm != "l2"):
        choice = choose(network, x, largest, radii=levels)
        if choice.certificate is None:
            raise InputError(
                f"No deterministic certificate fits this model. {' '.join(choice.refusals)} For smoothing give sigma "
                "(--sigma), the noise that the model was trained with."
            )
        return choice.certificate
    method = "smoothing" if method == "auto" else method
    if method not in METHODS:
        return _of_another_package(method, network, x, largest)
    if method == "margin" and norm == "linf" and type(model) is LinfDistanceNetwork:
        from radii.certificates import linf_margin

        return linf_margin.certify(model, x)
    if method in ("margin", "smoothing", "estimate") and norm != "l2":
        raise InputError(f"The method {method!r} certifies l2 balls, got {norm!r} instead; try crown.")
    if method == "margin":
        return _margin(network, x, arithmetic)
    if method == "nearest":
        if stored is None:
            raise InputError("The nearest-neighbor certificate needs the stored points.")
        from radii.certificates import nearest

        return nearest.certify(x, stored, norm)
    if method == "complete":
        if norm not in ("linf", "l2"):
            raise InputError(f"The method 'complete' certifies linf and l2 balls, got {norm!r} instead.")
        from radii.certificates.complete import true_radius

        return true_radius.certify(network, x, levels, norm=norm, box=box, seconds=seconds)
    if method in bounds.METHODS:
        return bounds.certify(network, x, levels, norm, method, rounding=arithmetic == "float32", box=box)
    if sigma is None:
        raise InputError(f"The method {method!r} needs the noise that the model was trained with: sigma.")
    from radii.certificates.smoothing import randomized

    if method == "estimate":
        return randomized.estimate(network, x, sigma, seed=seed, box=box)
    return randomized.certify_sequential(
        network, x, sigma, levels, most=samples, alpha=alpha, simultaneous=simultaneous, seed=seed, box=box
    )
