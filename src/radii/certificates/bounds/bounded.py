"""Which predictions cannot change within a radius, proved by bounds of the margins."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from radii import progress
from radii.certificates.bounds.bound_engine import Engine
from radii.certificates.bounds.lower_margins import METHODS, Method, crown_margins, lower_margins, margin_specs
from radii.certificates.bounds.network import Network, build
from radii.certificates.bounds.program import compiled
from radii.certificates.bounds.propagation import Region, forward
from radii.certificates.bounds.relaxations import Affine, Relu, Sum
from radii.certificates.bounds.tracing import example, trace
from radii.certificates.certificate import Certificate
from radii.errors import InputError
from radii.models.agreement import check_agreement, check_same
from radii.models.classifier import ask, check_inputs, frozen, predicted_class
from radii.models.model_state import ModelState
from radii.threat import Ball, Norm

if TYPE_CHECKING:
    from radii.certificates.bounds.sdp_crown import BallEngine

__all__ = ["METHODS", "Bounded", "certify", "margins", "passes_needed", "region_of"]

CHEAPER: dict[Method, tuple[Method, ...]] = {
    "ibp": ("ibp",),
    "crown-ibp": ("ibp", "crown-ibp"),
    "crown": ("ibp", "crown-ibp", "crown"),
    "alpha-crown": ("ibp", "crown-ibp", "crown", "alpha-crown"),
    "sdp-crown": ("ibp", "crown-ibp", "crown", "sdp-crown"),
    "wong-kolter": ("wong-kolter",),
}
ASCENT, BATCH = 20, 256  # steps of alpha-CROWN; points whose open coordinates are counted at once
ASSUMPTIONS = (
    "float32 network, each layer's sums in any order (no TF32, bfloat16, Winograd or FFT convolutions)",
    "bounds inflated by every layer's float32 rounding and by their own",
)


class Bounded:
    """A model whose bounds can be computed: traced once, with weights as they are now.

    Args:
        model: any network from inputs to logits; what cannot be bounded is refused by name.
        input_shape: the shape of one input, without the batch.
        rounding: whether bounds cover the network as float32 computes it (the default), or the real-valued one.
    """

    def __init__(self, model: nn.Module, input_shape: tuple[int, ...], rounding: bool = True) -> None:
        self.model, self.rounding = model, rounding
        self.dtype = torch.float64 if rounding else torch.float32
        if not all(bool(tensor.isfinite().all()) for tensor in (*model.parameters(), *model.buffers())):
            raise InputError("The model cannot be bounded: some of its weights are not finite numbers.")
        with torch.no_grad():
            traced = trace(model, input_shape)
            self.network: Network = build(traced, self.dtype)
            self._single: Network = build(traced, torch.float32) if rounding else self.network
        with torch.no_grad(), frozen(model):
            for network in (self.network, self._single) if rounding else (self.network,):
                check_agreement(model, partial(self._at, network), input_shape, example(model))

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """The model's classes at inputs ``x`` [n, …], -1 for NaN: [n].

        Raises:
            InputError: the model and the layers that were traced differ at these inputs.
        """
        predictions = []
        with frozen(self.model):
            for part in x.split(256):
                logits = ask(self.model, part)
                check_same(logits, self._at(self.network, part))
                predictions.append(predicted_class(logits))
        return torch.cat(predictions)

    def logits(self, x: Tensor) -> Tensor:
        """The logits of the traced network at ``x`` in float64, without float32 rounding: [n, classes]."""
        return self._at(self.network, x.double())[0]

    def _at(self, network: Network, x: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds of the logits at single inputs: without rounding, one value."""
        dtype = self.dtype if network is self.network else torch.float32
        value = forward(network, _point(x.to(dtype)))[network.output]
        return value.lower, value.upper

    def margins(self, x: Tensor, prediction: Tensor, ball: Ball, method: Method = "crown", steps: int = 20) -> Tensor:
        """Lower bounds of logit_y - logit_c, y the prediction, over the ball around each input: [n, classes - 1]."""
        if self.network.input_shape != tuple(x.shape[1:]):
            raise InputError(f"Inputs must have shape {self.network.input_shape}, got {tuple(x.shape[1:])} instead.")
        if method in ("crown", "alpha-crown") and self.rounding and x.device.type == "cpu":
            specs = margin_specs(prediction, self.network.classes)
            region = region_of(x, ball, torch.float64)
            return crown_margins(self._engine, region, specs, steps if method == "alpha-crown" else 0)
        if method == "sdp-crown":
            return self._ball_margins(x, prediction, ball, steps)
        return self._margins(self.network, self.dtype, x, prediction, ball, method, steps)

    def _ball_margins(self, x: Tensor, prediction: Tensor, ball: Ball, steps: int) -> Tensor:
        """SDP-CROWN's bounds, on the CPU; over a Linf ball they are alpha-CROWN's."""
        if x.device.type != "cpu":
            raise InputError(f"The method 'sdp-crown' runs on the CPU, got inputs on {x.device.type!r} instead.")
        specs = margin_specs(prediction, self.network.classes)
        return crown_margins(self._engine, region_of(x, ball, torch.float64), specs, steps, self._balls)

    @cached_property
    def _engine(self) -> Engine:
        """Rows in float32 for float32 networks; a float64 network keeps its weights."""
        with torch.no_grad():
            wide = self.rounding and example(self.model).dtype == torch.float64
            network, dtype = (self.network, torch.float64) if wide else (self._single, torch.float32)
            return Engine(compiled(network, dtype), self.rounding)

    @cached_property
    def _balls(self) -> BallEngine:
        from radii.certificates.bounds.sdp_crown import BallEngine

        return BallEngine(self._engine.program, self.rounding)

    def quick_margins(self, x: Tensor, prediction: Tensor, ball: Ball) -> Tensor:
        """As :meth:`margins` by intervals in float32, for Linf balls: as sound, a little lower, much faster."""
        return self._margins(self._single, torch.float32, x, prediction, ball, "ibp")

    def _margins(
        self,
        network: Network,
        dtype: torch.dtype,
        x: Tensor,
        prediction: Tensor,
        ball: Ball,
        method: Method,
        steps: int = 20,
    ) -> Tensor:
        with torch.no_grad():
            specs = margin_specs(prediction, self.network.classes).to(dtype)
            region = region_of(x, ball, dtype)
            return lower_margins(network, region, specs, method, rounding=self.rounding, steps=steps)

    def proves(self, x: Tensor, prediction: Tensor, ball: Ball, method: Method) -> Tensor:
        """Which predictions hold on the whole ball, cheapest method first: [n] bool. NaN proves nothing.

        Args:
            x: inputs [n, …].
            prediction: their classes [n].
            ball: norm, radius and box.
            method: the last method to try.
        """
        proved = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        for attempt in CHEAPER[method]:
            left = torch.nonzero(~proved)[:, 0]
            if len(left):
                proved[left] = self.proves_by(x[left], prediction[left], ball, attempt)
        return proved

    def proves_by(self, x: Tensor, prediction: Tensor, ball: Ball, method: Method) -> Tensor:
        """Which predictions hold on the whole ball by this one method: [n] bool; arguments as for ``proves``."""
        proved = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        if method == "ibp" and self.rounding and ball.norm == "linf":
            for rows in torch.arange(len(x)).split(256):
                proved[rows] = (self.quick_margins(x[rows], prediction[rows], ball) > 0).all(1)
        left = torch.nonzero(~proved)[:, 0]
        for rows in left.split(256 if method in ("ibp", "crown-ibp") else 8) if len(left) else ():
            proved[rows] = (self.margins(x[rows], prediction[rows], ball, method) > 0).all(1)
        return proved


def _point(x: Tensor) -> Region:
    return Region(x, x, x)


def region_of(x: Tensor, ball: Ball, dtype: torch.dtype) -> Region:
    """The ``ball`` around each input of ``x``, within its box, in ``dtype`` and rounded outward."""
    if ball.norm not in ("l2", "linf"):
        raise InputError(f"Bounds exist for l2 and linf balls, got {ball.norm!r} instead.")
    center = x.to(dtype)
    radius = ball.radius * (1 + 4 * torch.finfo(dtype).eps)
    slack = 2 * torch.finfo(dtype).eps * (center.abs() + radius)
    lower, upper = center - radius - slack, center + radius + slack
    if ball.box is not None:
        lower, upper = lower.clamp_min(ball.box[0]), upper.clamp_max(ball.box[1])
    lower, upper = ball.keep_fixed(lower, center - slack), ball.keep_fixed(upper, center + slack)
    return Region(center, lower, upper, radius if ball.norm == "l2" else None)


@torch.no_grad()
def passes_needed(bounded: Bounded, x: Tensor, ball: Ball, method: Method) -> Tensor:
    """About how many forward passes the proof of each point costs by ``method``: [n].

    A row of coefficients carried back costs about one pass; CROWN carries two for every coordinate that a
    layer which is not linear reads, beyond the first, and whose sign intervals leave open: few in networks that were
    trained for narrow intervals. A step of alpha-CROWN carries each of these rows, and those
    of the margins twice, back and forth again. SDP-CROWN does the same work beside CROWN's, and searches one parameter
    for each row and layer, in about three times the time.

    Args:
        bounded: the network.
        x: inputs [n, …].
        ball: norm, radius and box; Linf intervals are cheap, in float32.
        method: one of the methods of bounds.
    """
    classes = bounded.network.classes
    if method in ("ibp", "crown-ibp"):
        cheap = 8 + 2 * classes if method == "crown-ibp" else 4 if ball.norm == "linf" else 8
        return torch.full((len(x),), cheap)
    hidden = 2 * torch.cat([_open(bounded.network, region_of(part, ball, bounded.dtype)) for part in x.split(BATCH)])
    crown = 8 + 2 * classes + hidden
    ascent = 3 * ASCENT * (2 * classes + hidden)
    return {"alpha-crown": crown + ascent, "sdp-crown": 4 * crown + 3 * ascent}.get(method, crown)


def _open(network: Network, region: Region) -> Tensor:
    """How many coordinates CROWN tightens in each region: read by a layer that is not linear, behind another such."""
    behind: dict[int, bool] = {0: False}
    readers, known = network.readers(), forward(network, region)
    total = torch.zeros(len(region.lower), dtype=torch.int64)
    for number, layer in network.layers.items():
        linear = isinstance(layer, Affine | Sum)
        behind[number] = not linear or any(behind[source] for source in layer.inputs)
        bent = [reader for reader in readers[number] if not isinstance(reader, Affine | Sum)]
        if linear and behind[number] and bent:
            low, high = known[number].lower.flatten(1), known[number].upper.flatten(1)
            only_relu = all(isinstance(reader, Relu) for reader in bent)
            total += ((low < 0) & (high > 0) if only_relu else ~(high <= low)).sum(1).cpu()
    return total


def margins(model: nn.Module, x: Tensor, ball: Ball, method: Method = "crown", *, rounding: bool = True) -> Tensor:
    """Lower bounds of the predicted class's margins over a ball: [n, classes - 1]; all positive proves it.

    Args:
        model: a network from inputs to logits.
        x: inputs [n, …].
        ball: norm, radius and box of the perturbations.
        method: one of :data:`METHODS`; default ``crown``.
        rounding: whether the bounds cover the rounding of float32; default True.
    """
    bounded = Bounded(model, tuple(x.shape[1:]), rounding)
    return bounded.margins(x, bounded.predict(x).clamp_min(0), ball, method)


def certify(
    model: nn.Module,
    x: Tensor,
    radii: Sequence[float],
    norm: Norm = "linf",
    method: Method = "crown",
    *,
    rounding: bool = True,
    box: tuple[float, float] | None = (0.0, 1.0),
) -> Certificate:
    """The largest of ``radii`` at which each prediction is proved, by bisection (a proof covers smaller radii).

    Guarantee: deterministic, for perturbations that stay in ``box``.

    Args:
        model: a network from inputs to logits; a layer that cannot be bounded is refused by name.
        x: inputs [n, …] in ``box``; never changed.
        radii: radii to try, positive.
        norm: norm of the radii, ``linf`` (default) or ``l2``.
        method: one of :data:`METHODS`; default ``crown``.
        rounding: True (default) covers the network as float32 computes it; False the real-valued network.
        box: the least and the greatest value of an input; default (0, 1), None: no limit.

    Raises:
        InputError: no positive radius, an unknown method, inputs outside the box, or a layer without bounds.
    """
    check_inputs(x, box)
    if not radii or min(radii) <= 0:
        raise InputError(f"Radii to certify must be positive numbers, got {list(radii)} instead.")
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r} instead.")
    if method == "sdp-crown" and norm != "l2":
        raise InputError(f"The method 'sdp-crown' certifies l2 balls, got {norm!r} instead; try alpha-crown.")
    rising = sorted(set(radii))
    bounded = Bounded(model, tuple(x.shape[1:]), rounding)
    prediction = bounded.predict(x)
    # The first proved[i] radii are proved for input i; those up to still[i] may be. Bisection until both are equal.
    proved = torch.zeros(len(x), dtype=torch.int64)
    still = torch.where(prediction.cpu() >= 0, len(rising), 0)
    with progress.task(f"proving by {method}", len(rising), "radii") as bar:
        while bool((proved < still).any()):
            middle = (proved + still + 1) // 2
            for number in middle[proved < still].unique().tolist():
                rows = torch.nonzero((proved < still) & (middle == number))[:, 0]
                holds = bounded.proves(x[rows], prediction[rows], Ball(norm, rising[number - 1], box), method).cpu()
                proved[rows[holds]] = number
                still[rows[~holds]] = number - 1
            bar.advance()
    return Certificate(
        prediction=prediction,
        radius=torch.tensor([0.0, *rising], dtype=torch.float64)[proved],
        norm=norm,
        kind="deterministic",
        method=method,
        assumptions=ASSUMPTIONS if rounding else ("exact arithmetic: the rounding of float32 is not covered",),
        arithmetic="float32" if rounding else "exact",
        state=ModelState.of(model),
        exact_logits=None if rounding else bounded.logits,
    )
