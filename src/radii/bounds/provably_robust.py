"""Which predictions cannot change within a radius, proved by bounds of the margins, by the methods of the literature.

``ibp``         intervals, the last linear layers merged (Gowal et al. 2018)
``crown-ibp``   intervals inside, one backward pass for the margins (Zhang et al. 2020)
``crown``       backward passes for every ReLU's input too (Zhang et al. 2018)
``alpha-crown`` CROWN with the lower slopes optimized by gradient ascent (Xu et al. 2021)
``sdp-crown``   alpha-CROWN with offsets of whole layers, for L2 balls (Chiu et al. 2025)
``wong-kolter`` CROWN with equal slopes: the dual of the convex outer polytope (Wong & Kolter 2018)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from radii.bounds.alpha_crown import hidden_ascent, raised
from radii.bounds.bound_engine import NUMBERS, Engine
from radii.bounds.regions import Domain
from radii.errors import InputError
from radii.models.equality_check import check_agreement, check_same
from radii.models.heads import freeze, provable
from radii.networks.calling import ask, frozen, predicted_class
from radii.networks.frozen import Frozen
from radii.networks.model_state import check_behavior
from radii.networks.program import Program
from radii.networks.read_torch import build, example, record
from radii.threat import Ball

BATCH = 256  # points treated at once by intervals
ASSUMPTIONS = (
    "float32 network, each layer's sums in any order (no TF32, bfloat16, Winograd or FFT convolutions)",
    "bounds inflated by every layer's float32 rounding and by their own",
)


class Bounded:
    """A model whose bounds can be computed: read once, with weights as they are now. Bounds run on the CPU.

    ``network`` is what was read, and what proofs are about. ``scores`` is the network that is bounded, whose largest
    logit must exceed the others by ``margin``: the model itself and 0, unless a head stands behind its logits.

    Args:
        model: any network from inputs to logits; what cannot be bounded is refused by name.
        input_shape: the shape of one input, without the batch.
        rounding: whether bounds cover the network as float32 computes it (the default), or the real-valued one.
    """

    def __init__(self, model: nn.Module, input_shape: tuple[int, ...], rounding: bool = True) -> None:
        self.model, self.rounding = model, rounding
        self.scores, self.margin = provable(model)
        check_behavior(model)
        if not all(bool(tensor.isfinite().all()) for tensor in (*model.parameters(), *model.buffers())):
            raise InputError("The model cannot be bounded: some of its weights are not finite numbers.")
        with torch.no_grad():
            recording = record(self.scores, input_shape)
            self.exact: Program = build(recording, torch.float64)
            own = build(recording, example(model).dtype)
        self.network = (
            Frozen(own) if self.scores is model and not isinstance(model, Frozen) else freeze(model, input_shape)
        )
        self.engine = Engine(own, rounding)
        with torch.no_grad(), frozen(model):
            for program in (self.exact, own):
                check_agreement(self.scores, partial(_at, program), input_shape, example(model))

    @property
    def classes(self) -> int:
        """How many logits there are."""
        return self.exact.outputs

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """The network's classes at inputs ``x`` [n, …], -1 for NaN, after its logits were compared with the model's."""
        predictions = []
        with frozen(self.model):
            for part in x.split(BATCH):
                check_same(ask(self.scores, part), _at(self.exact, part))
                predictions.append(predicted_class(self.network(part.cpu())).to(x.device))
        return torch.cat(predictions)

    def logits(self, x: Tensor) -> Tensor:
        """The logits of the network that was read at ``x`` in float64, without float32 rounding: [n, classes]."""
        return self.exact.run(x.double())

    def margins(self, x: Tensor, prediction: Tensor, ball: Ball, method: str = "crown", steps: int = 20) -> Tensor:
        """Lower bounds of logit_y - logit_c, y the prediction, over the ball around each input: [n, classes - 1].

        Minus infinity where nothing is proved, as where a value may exceed the largest float32.
        """
        if self.exact.input_shape != tuple(x.shape[1:]):
            raise InputError(f"Inputs must have shape {self.exact.input_shape}, got {tuple(x.shape[1:])} instead.")
        domain, rows = domain_of(x, ball), margin_rows(prediction.cpu(), self.classes)
        return self._margins(domain, rows, method, steps).nan_to_num(-torch.inf, torch.inf, -torch.inf).to(x.device)

    def _margins(self, domain: Domain, rows: Tensor, method: str, steps: int) -> Tensor:
        if method in ("ibp", "crown-ibp"):
            return interval_margins(self.engine, domain, rows, deep=method == "crown-ibp")
        if method in ("crown", "alpha-crown"):
            ascent = steps if method == "alpha-crown" else 0
            return _each_margin(domain, rows, lambda one, its: _crown_margins(self.engine, one, its, ascent))
        if method == "wong-kolter":
            return _each_margin(domain, rows, lambda one, its: _crown_margins(self._parallel_lines, one, its))
        if method != "sdp-crown":
            raise InputError(f"No method of bounds is called {method!r}.")
        from radii.bounds._sdp_crown import BallEngine, ball_margins

        balls = BallEngine(self.engine.program, self.rounding)
        return _each_margin(
            domain, rows, lambda one, its: ball_margins(self.engine, balls, one, its.to(balls.program.dtype), steps)
        )

    @cached_property
    def _parallel_lines(self) -> Engine:
        engine = Engine(self.engine.program, self.rounding)
        engine.equal_slopes = True
        return engine

    def proves(self, x: Tensor, prediction: Tensor, ball: Ball, methods: Sequence[str]) -> Tensor:
        """Which predictions hold on the whole ball by one of ``methods``, the cheapest first: [n] bool.

        NaN proves nothing.
        """
        proved = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        for attempt in methods:
            left = torch.nonzero(~proved)[:, 0]
            if len(left):
                proved[left] = self.proves_by(x[left], prediction[left], ball, attempt)
        return proved

    def proves_by(self, x: Tensor, prediction: Tensor, ball: Ball, method: str) -> Tensor:
        """Which predictions hold on the whole ball by this one method: [n] bool."""
        parts = torch.arange(len(x)).split(BATCH)
        return torch.cat([(self.margins(x[p], prediction[p], ball, method) > self.margin).all(1) for p in parts])

    @torch.no_grad()
    def unstable(self, x: Tensor, ball: Ball) -> Tensor:
        """How many coordinates CROWN tightens in the ``ball`` around each input of ``x``: [n].

        Those that an operation which is not linear reads, behind another such, and whose sign intervals leave open:
        few in networks that were trained for narrow intervals.
        """
        engine, counts = self.engine, []
        for part in x.split(BATCH):
            known = engine.intervals(domain_of(part, ball))
            total = torch.zeros(len(part), dtype=torch.int64)
            for number, readers in engine.bent.items():
                if number in engine.behind and number not in engine.nonlinear:
                    low, high = known.lower[number], known.upper[number]
                    only_relu = all(reader in engine.relus for reader in readers)
                    total += ((low < 0) & (high > 0) if only_relu else ~(high <= low)).sum(1)
            counts.append(total)
        return torch.cat(counts)


def _at(program: Program, x: Tensor) -> tuple[Tensor, Tensor]:
    value = program.run(x.to(device="cpu", dtype=program.dtype)).to(x.device)
    return value, value


def domain_of(x: Tensor, ball: Ball) -> Domain:
    """The ``ball`` around each input of ``x``, within its box, as flat float64 regions rounded outward."""
    lower, upper, center, radius = region_of(x.cpu(), ball, torch.float64)
    lower, upper, center = lower.flatten(1), upper.flatten(1), center.flatten(1)
    if ball.norm == "linf":
        return Domain(lower, upper)
    scale = None
    if ball.scale or ball.unit:
        scale = ball.scales(center).clone()
        scale[:, list(ball.fixed)] = 0.0
    return Domain(lower, upper, center, radius, ball.norm, scale)


def region_of(x: Tensor, ball: Ball, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, float]:
    """Lower and upper ends, center and radius of the ``ball`` around each input, within its box, rounded outward.

    Limits of features make the ends tighter; whole features and relations are left out, which is sound.
    """
    center = x.to(dtype)
    radius = ball.radius * (1 + 4 * torch.finfo(dtype).eps)
    reach: Tensor | float = radius * ball.scales(center) if ball.scale or ball.unit else radius
    slack = 2 * torch.finfo(dtype).eps * (center.abs() + reach)
    lower, upper = center - reach - slack, center + reach + slack
    low, high = ball.ends
    lower, upper = lower.clamp_min(low), upper.clamp_max(high)
    if not ball.limits.all_allowed:
        least, most = (end.view_as(center) for end in ball.limits.room(center.flatten(1)))
        lower, upper = torch.maximum(lower, least), torch.minimum(upper, most)
    lower, upper = ball.keep_fixed(lower, center - slack), ball.keep_fixed(upper, center + slack)
    return lower, upper, center, radius


def margins(model: nn.Module, x: Tensor, ball: Ball, method: str = "crown", *, rounding: bool = True) -> Tensor:
    """Lower bounds of the predicted class's margins over a ball: [n, classes - 1]; all positive proves it.

    Args:
        x: inputs [n, …].
        method: a method of bounds; default ``crown``.
        rounding: whether the bounds cover the rounding of float32; default True.
    """
    bounded = Bounded(model, tuple(x.shape[1:]), rounding)
    return bounded.margins(x, bounded.predict(x).clamp_min(0), ball, method)


def margin_rows(prediction: Tensor, classes: int) -> Tensor:
    """Coefficients of logit_y - logit_c, y the ``prediction``, for each other class c: [n, classes - 1, classes]."""
    own = torch.nn.functional.one_hot(prediction, classes)[:, None]
    others = torch.eye(classes, dtype=own.dtype, device=own.device).expand(len(own), -1, -1)
    keep = others.argmax(2) != prediction[:, None]
    return (own - others)[keep].view(len(own), classes - 1, classes)


@torch.no_grad()
def interval_margins(engine: Engine, domain: Domain, rows: Tensor, *, deep: bool) -> Tensor:
    """Lower bounds of rows . logits [n, s], float64, from intervals of the hidden values.

    Args:
        domain: n regions.
        rows: coefficients of the logits [n, s, classes].
        deep: carry the rows to the input between lines (CROWN-IBP); else only through the last linear layers (IBP).
    """
    most = max(1, NUMBERS // (rows.shape[1] * max(engine.program.sizes.values()))) if deep else len(rows)
    margins = []
    for part in torch.arange(len(rows)).split(most):
        known = engine.intervals(domain[part])
        dom = torch.arange(len(part)).repeat_interleave(rows.shape[1])
        flat = rows[part].flatten(0, 1).to(engine.program.dtype)
        margins.append(engine.lower(known, engine.program.output, flat, dom, deep=deep).view(len(part), -1))
    return torch.cat(margins)


@torch.no_grad()
def _each_margin(domain: Domain, rows: Tensor, bound: Callable[[Domain, Tensor], Tensor]) -> Tensor:
    """``bound`` of the rows [s, classes] of one region, for all n regions of ``domain``: [n, s]."""
    return torch.stack([bound(domain[i : i + 1], rows[i]) for i in range(len(rows))])


def _crown_margins(engine: Engine, domain: Domain, rows: Tensor, steps: int = 0) -> Tensor:
    """Bounds of rows . logits [s] over one region, float64, the cheapest way first.

    With ``steps`` the lower slopes are ascended (alpha-CROWN): those of the margins first, then those of hidden
    values too, on the margins that are still open.
    """
    rows = rows.to(engine.program.dtype)
    known, output = engine.bounds(domain), engine.program.output
    lowers = engine.lower(known, output, rows.clone())
    if not steps or bool((lowers > 0).all()) or not engine.relus:
        return lowers
    lowers = torch.maximum(lowers, raised(engine, known, output, rows, None, steps))
    open_ = torch.nonzero(lowers <= 0)[:, 0]
    if len(open_):
        known = engine.bounds(domain, refine=hidden_ascent(engine, steps))
        lowers[open_] = torch.maximum(lowers[open_], raised(engine, known, output, rows[open_], None, steps))
    return lowers
