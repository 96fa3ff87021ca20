"""Fast bounds that hold for the float32 network: intervals forward, rows of coefficients backward.

A row of coefficients A of a value z is carried to the input (CROWN, Zhang et
al. 2018): A . z >= A' . x + constant. Three things are taken off every row, so
that the bound holds for the network as float32 computes it and although the
rows themselves may be float32:

* the deployed rounding of a layer, at most gamma_n (|W| |x| + |b|), n its products
  and gamma_n = nu / (1 - nu) with u = 2^-24, whatever the order of its sums;
* the rounding of A W, at most gamma_m |A| |W|, which moves the bound by at most
  gamma_m |A| (|W| |x|), with m the products of the transposed layer and u of the rows' type;
* the rounding of A . b and of the relaxations' constants, by the same rule.

All of them are |A| times a vector that one forward pass gives. Totals are
float64. The factor 1.01 covers the rounding of these errors themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from radii.bounds._convolution_windows import both_sides, is_windowed
from radii.bounds.regions import (
    Domain,
    InputBall,
    ValueBounds,
    dot,
    gamma,
    least,
    pick,
)
from radii.networks.operations.activations import Activation, Relu
from radii.networks.operations.linear import Join, Linear, Sum
from radii.networks.operations.linear_maps import (
    Convolution,
    Dense,
    LinearMap,
    Move,
    Scale,
    TransposedConvolution,
)
from radii.networks.operations.operation import Interval, Nonlinear, Operation, Shape
from radii.networks.program import Program

UNIT = 2.0**-24
TINY = 2.0**-125
UNBOUNDED = 2.99e38  # an operation that is not linear says more than this where it has no bound
LARGEST = 3.4e38  # of float32; a value that may be larger is not bounded at all
NUMBERS = 1 << 23  # coefficients carried at once: 32 MB of float32, 64 MB of float64
COMPILED = 1 << 13  # from so many coefficients on, the compiled pass is worth the time that numba takes to load
PRODUCTS = (Dense, Convolution, TransposedConvolution)  # maps whose weights a runtime may merge with factors
Visit = Callable[[int, Tensor], Any]
Check = Callable[[], None]  # is called often, and may raise to end a long computation


class Engine:
    """Bounds of one program.

    Args:
        rounding: True (default) covers the float32 rounding of the deployed network.
    """

    rate = 0.25  # of an ascent in slopes
    equal_slopes = False  # of the two lines of a ReLU

    def __init__(self, program: Program, rounding: bool = True, keep_forms: bool = False) -> None:
        self.program, self.rounding, self.keep_forms = program, rounding, keep_forms
        self.unit = torch.finfo(program.dtype).eps / 2
        self.bent, self.behind = program.pre_activations(), program.behind_activations()
        self.plain = program.fusable_relus()
        self.windowed = {number for number in self.bent if is_windowed(self, number)}
        self._first: dict[int, Tensor] = {}
        self.nonlinear = {number for number, step in program.steps.items() if isinstance(step, Nonlinear)}
        self.relus = {number: step for number, step in program.steps.items() if isinstance(step, Relu)}
        self.check: Check = lambda: None

    def watched(self, check: Check) -> Engine:
        """The same engine, which calls ``check`` before every layer on its way."""
        other = copy(self)
        other.check = check
        return other

    # ------------------------------------------------------------------ forward

    def start(self, domain: Domain) -> ValueBounds:
        """Bounds of the input, rounded outward to the program's type."""
        inside = (domain.lower <= domain.upper).all(1)  # not of an empty region, nor of NaN
        known = ValueBounds(domain, finite=inside, equal_slopes=self.equal_slopes)
        low, high = domain.lower, domain.upper
        if self.program.dtype != torch.float64:
            low, high = low - 2 * self.unit * low.abs() - TINY, high + 2 * self.unit * high.abs() + TINY
        known.lower[0], known.upper[0] = low.to(self.program.dtype), high.to(self.program.dtype)
        if domain.center is not None and domain.radius is not None:
            size = (domain.center.abs() * (1 + 4 * self.unit) + TINY).to(self.program.dtype)
            spread = domain.scales() if domain.scale is None else domain.scales() * (1 + 4 * self.unit) + TINY
            known.balls[0] = InputBall(size, spread.to(size.dtype), domain.center.to(size.dtype), 0 * size)
        return known

    def forward(self, known: ValueBounds, number: int) -> None:
        """Interval bounds of one value from those of its inputs."""
        self.check()
        step = self.program.steps[number]
        if isinstance(step, Nonlinear):
            low, high = (end.flatten(1) for end in step.interval(*_ends(known, step)))
            known.lower[number], known.upper[number] = low, high
            known.finite &= ((low > -UNBOUNDED) & (high < UNBOUNDED)).all(1)  # a weight of 0 does not make inf finite
            return
        if isinstance(step, Join):
            for end in (known.lower, known.upper):
                end[number] = torch.cat([end[source] for source in step.inputs], 1)
            known.error[number] = torch.zeros_like(known.lower[number])
            return
        if isinstance(step, Sum):
            a, b = step.inputs
            low, high = known.lower[b], known.upper[b]
            low, high = (low, high) if step.sign > 0 else (-high, -low)
            size = _size(known, a) + _size(known, b)
            error = size * (1.01 * ((UNIT if self.rounding else 0) + 8 * self.unit))
            lower, upper = known.lower[a] + low, known.upper[a] + high
            widened = error
        else:
            assert isinstance(step, Linear)
            lower, upper, error, widened, size = self._linear(known, step, number)
        known.lower[number], known.upper[number] = lower - widened, upper + widened
        known.error[number] = error
        known.finite &= (size < LARGEST).all(1)
        if isinstance(step, Linear) and self.rounding:
            known.finite &= (step.largest(_size(known, step.inputs[0])) < LARGEST).all(1)

    def _linear(self, known: ValueBounds, step: Linear, number: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        low, high = known.lower[step.inputs[0]], known.upper[step.inputs[0]]
        middle, reach = (low + high) / 2, (high - low) / 2
        center = step.apply(middle)
        spread, size = step.absolute(torch.cat([reach, _size(known, step.inputs[0])])).chunk(2)
        bias = 0.0 if step.bias_size is None else step.bias_size
        size = size + bias
        lower, upper = center - spread, center + spread
        if step.inputs[0] in known.balls:
            low, high, largest = self._in_ball(known, step, number)
            lower, upper = torch.maximum(lower, low), torch.minimum(upper, high)
            size = torch.minimum(size, largest + bias)
        deployed = gamma(step.terms + 2, UNIT) if self.rounding and step.terms else 0.0
        tiny = TINY * (step.terms + step.back_terms + 2) + self._merged(known, step)
        own = gamma(step.back_terms + 8, self.unit) if step.terms else 4 * self.unit
        error = size * (1.01 * (deployed + own) + tiny) + tiny
        if step.bias_size is not None:
            error = error + step.bias_size * (1.01 * gamma(self.program.sizes[number] + 8, self.unit))
        # center and spread are off by gamma_n size each, with a few roundings more
        widened = size * (1.01 * deployed + 2.02 * gamma(step.terms + 8, self.unit)) + tiny
        if number in known.balls:
            known.balls[number] = replace(known.balls[number], off=known.balls[number].off + widened)
        return lower, upper, error, widened, size

    def _merged(self, known: ValueBounds, step: Linear) -> Tensor | float:
        """What else may underflow where a runtime multiplies the factors of this step and the step before it first.

        onnxruntime merges a factor into the weights of the product before it, and computes a product of scaled
        numbers as a scaled product. Where that may exceed the largest float32, nothing is bounded.
        """
        before = self.program.steps.get(step.inputs[0])
        if not self.rounding or not isinstance(before, Linear) or not step.terms:
            return 0.0
        sizes = _size(known, before.inputs[0])
        if isinstance(step.linear, Scale) and isinstance(before.linear, PRODUCTS):
            product = before.linear
            weight = product.forward.weight if isinstance(product, TransposedConvolution) else product.weight
            known.finite &= float(weight.abs().max()) * float(step.linear.factor.abs().max()) < LARGEST
            return TINY * before.terms * sizes.amax(1, keepdim=True)
        if isinstance(step.linear, Dense) and isinstance(before.linear, Scale) and before.bias is None:
            known.finite &= (step.absolute(sizes) < LARGEST).all(1)
            return TINY * step.terms * float(before.linear.factor.abs().max())
        return 0.0

    def _in_ball(self, known: ValueBounds, step: Linear, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """Ends of W x + bias over a ball, W center + bias -+ radius |row of W|, and the largest |W| |x| there.

        Rows count in the dual norm: in L2 and, where it is not known in L1, in L2, which is larger.

        The ends leave out the rounding of this step, as those of the box do. An operation that scales or moves
        coordinates hands the ball on.
        """
        ball, radius = known.balls[step.inputs[0]], known.domain.radius
        assert radius is not None
        spread = ball.spread.unflatten(1, step.in_shape)
        squares = _l1_squares(step.linear, spread) if known.domain.norm == "l1" else None
        squares = step.linear.squares(spread.square()) if squares is None else squares
        if squares is None:
            ends = (-torch.inf, torch.inf, torch.inf)
            low, high, largest = (torch.full_like(known.lower[step.inputs[0]][:, :1], end) for end in ends)
            return low, high, largest
        up = 1 + 2 * gamma(step.terms + 8, self.unit)
        around, width = step.absolute(ball.size) * up + TINY, squares.flatten(1).sqrt() * up + TINY
        center, off = step.apply(ball.center), step.absolute(ball.off) * up
        if isinstance(step.linear, Scale | Move):
            bias = 0.0 if step.bias_size is None else step.bias_size
            known.balls[number] = InputBall((around + bias) * up, width, center, off)
        reach = radius * (1 + 4 * self.unit) * width
        return center - reach - off, center + reach + off, around + reach

    def intervals(self, domain: Domain) -> ValueBounds:
        """Bounds of every value by intervals (IBP)."""
        known = self.start(domain)
        for number in self.program.steps:
            self.forward(known, number)
        return known

    def bounds(
        self, domain: Domain, outer: ValueBounds | None = None, refine: Callable[..., Any] | None = None
    ) -> ValueBounds:
        """Bounds of every value; by backward rows where a layer that is not linear reads it and its sign is open.

        Args:
            refine: computes both bounds of some coordinates of one domain; rows by default.
        """
        known = self.start(domain)
        for number in self.program.steps:
            self.forward(known, number)
            if number not in self.bent:
                continue
            if outer is not None and number in outer.lower:
                known.lower[number] = torch.maximum(known.lower[number], outer.lower[number])
                known.upper[number] = torch.minimum(known.upper[number], outer.upper[number])
            if number in self.behind or domain.radius is not None:
                self._tighten(known, number, refine)
        return known

    def _tighten(self, known: ValueBounds, number: int, refine: Callable[..., Any] | None) -> None:
        """Both bounds of the coordinates whose sign is open, by rows."""
        low, high = known.lower[number], known.upper[number]
        only_relu = all(reader in self.relus for reader in self.bent[number])
        open_ = (low < 0) & (high > 0) if only_relu else high > low
        if only_relu and self.behind.isdisjoint({number}):
            open_ = high > low  # the first layer of an L2 ball: its intervals are loose
        dom, place = torch.nonzero(open_, as_tuple=True)
        if len(dom) == 0:
            return
        if refine is not None:
            lower, upper = refine(known, number, dom, place)
        else:
            lower, upper = self.coordinates(known, number, dom, place)
        dtype = self.program.dtype
        slack = 0.0 if dtype == torch.float64 else 2 * self.unit
        lower, upper = lower - slack * lower.abs(), upper + slack * upper.abs()
        new_low, new_high = low.clone(), high.clone()
        new_low[dom, place] = torch.maximum(low[dom, place], lower.to(dtype))
        new_high[dom, place] = torch.minimum(high[dom, place], upper.to(dtype))
        known.lower[number], known.upper[number] = new_low, new_high

    def coordinates(self, known: ValueBounds, number: int, dom: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds of coordinate ``place[i]`` of value ``number`` in domain ``dom[i]``: two vectors."""
        width = max(self.program.sizes.values())
        lowers, uppers, forms = [], [], list[Tensor]()
        slopes: list[Tensor] = []
        visit = (lambda spot, A: slopes.append(A) if spot == 0 else None) if self.keep_forms else None
        for part in torch.arange(len(dom)).split(max(1, NUMBERS // (2 * width))):
            both = self._both_sides(known, number, dom[part], place[part], visit)
            lowers.append(both[: len(part)])
            uppers.append(-both[len(part) :])
            if slopes:
                forms.append(slopes.pop()[: len(part)])
        if forms:
            known.forms[number] = (dom, place, torch.cat(forms))
        return torch.cat(lowers), torch.cat(uppers)

    def _both_sides(self, known: ValueBounds, number: int, dom: Tensor, place: Tensor, visit: Visit | None) -> Tensor:
        """Lower bounds of z[place] and then of -z[place]."""
        step = self.program.steps[number]
        twice = None if len(known.domain) == 1 else dom.repeat(2)
        if (
            isinstance(step, Linear) and isinstance(step.linear, Dense) and len(step.in_shape) == 1
        ):  # its rows are known
            rows = step.linear.weight.index_select(0, place)
            error = known.error[number][dom, place].double()
            bias = torch.zeros_like(error) if step.bias is None else step.bias[place].double()
            total = torch.cat([bias - error, -bias - error])
            return self.lower(known, step.inputs[0], torch.cat([rows, -rows]), twice, visit=visit, total=total)
        windowed = number in self.windowed and not known.equal_slopes
        if twice is None and visit is None and windowed and not torch.is_grad_enabled():
            return both_sides(self, known, number, place)
        rows = torch.zeros(len(place), self.program.sizes[number], dtype=self.program.dtype)
        rows[torch.arange(len(place)), place] = 1
        return self.lower(known, number, torch.cat([rows, -rows]), twice, visit=visit)

    # ------------------------------------------------------------------ backward

    def lower(
        self,
        known: ValueBounds,
        number: int,
        rows: Tensor,
        dom: Tensor | None = None,
        alphas: dict[int, Tensor] | None = None,
        betas: dict[int, Tensor] | None = None,
        visit: Visit | None = None,
        total: Tensor | None = None,
        deep: bool = True,
    ) -> Tensor:
        """Lower bounds of rows . value [R], float64, over the domain ``dom[i]`` of each row.

        Args:
            number: the value that the rows [R, d] multiply.
            dom: the domain of each row; None if there is one domain, or one for each row.
            alphas: lower slopes of ReLUs for each row, by the ReLU's value; any in [slope, 1] gives a true bound.
            betas: added to the coefficients of a value that a ReLU reads; true bounds where
                beta z <= 0 on the domain, which is what a split gives.
            total: constants of the rows [R], 0 by default; overwritten.
            deep: False ends at the last operations that are not linear, with their intervals.
        """
        pending = {number: rows}
        total = torch.zeros(len(rows), dtype=torch.float64) if total is None else total
        quick, fused = rows.numel() >= COMPILED and not torch.is_grad_enabled(), set[int]()
        owned: set[int] = set()  # values whose rows nothing else holds
        for place in sorted((n for n in self.program.steps if n <= number), reverse=True):
            if place not in pending:
                continue
            self.check()
            A = pending.pop(place)
            step = self.program.steps[place]
            if place in fused:  # its bias and rounding were counted with the ReLU behind it
                assert isinstance(step, Linear)
                _accumulate(pending, step.inputs[0], step.transpose(A))
                if isinstance(step.linear, Dense | Convolution):
                    owned.add(step.inputs[0])
                continue
            if isinstance(step, Nonlinear) and not deep:
                total = total + self._between(A, pick(known.lower[place], dom), pick(known.upper[place], dom))
                continue
            if quick and place in self.plain:
                assert isinstance(step, Relu)
                if visit is not None:
                    visit(place, A)
                pending[step.inputs[0]] = self._quick(step, A, known, dom, total, alphas, betas, place, place in owned)
                fused.add(step.inputs[0])
                continue
            if isinstance(step, Nonlinear):
                if visit is not None:
                    visit(place, A)
                alpha = None if alphas is None else alphas.get(place)
                backs, constant = self.through(step, A, known, dom, alpha)
                total = total + constant
                for source, back in zip(step.inputs, backs, strict=True):
                    if back is not None:
                        more = None if betas is None else betas.get(source)
                        _accumulate(pending, source, back if more is None else back + more)
                continue
            if isinstance(step, Join):
                for source, part in zip(step.inputs, step.split(A), strict=True):
                    _accumulate(pending, source, part)
                continue
            total = total - dot(A.abs(), pick(known.error[place], dom))
            if isinstance(step, Sum):
                for source, factor in zip(step.inputs, (1.0, step.sign), strict=True):
                    _accumulate(pending, source, A if factor == 1.0 else -A)
                continue
            assert isinstance(step, Linear)
            if step.bias is not None:
                total = total + A @ step.bias
            _accumulate(pending, step.inputs[0], step.transpose(A))
        if 0 in pending:
            A = pending.pop(0)
            if visit is not None:
                visit(0, A)
            total = total + least(A, known.domain, dom)
        finite = known.finite if dom is None else known.finite[dom]
        return torch.where(finite, total, -torch.inf)

    def _between(self, A: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """The least A . z for z between ``low`` and ``high``, less the rounding of the sum: [R]."""
        least_, size = dot(A.clamp_min(0), low) + dot(A.clamp_max(0), high), torch.maximum(low.abs(), high.abs())
        return least_ - dot(A.abs(), size) * (2.02 * gamma(A.shape[1] + 4, self.unit))

    def first_form(self, number: int) -> Tensor:
        """The matrix [d, inputs] of a value that only linear layers precede."""
        if number not in self._first:
            rows = torch.eye(self.program.sizes[number], dtype=self.program.dtype)
            pending, matrix = {number: rows}, torch.zeros(len(rows), self.program.sizes[0], dtype=rows.dtype)
            for place in sorted((n for n in self.program.steps if n <= number), reverse=True):
                A = pending.pop(place, None)
                step = self.program.steps[place]
                if A is None or isinstance(step, Nonlinear):
                    continue
                for source, back in zip(step.inputs, _linear_backs(step, A), strict=True):
                    _accumulate(pending, source, back)
            self._first[number] = pending.get(0, matrix)
        return self._first[number]

    def _quick(
        self,
        step: Relu,
        A: Tensor,
        known: ValueBounds,
        dom: Tensor | None,
        total: Tensor,
        alphas: dict[int, Tensor] | None,
        betas: dict[int, Tensor] | None,
        place: int,
        owned: bool,
    ) -> Tensor:
        """The compiled pass through a ReLU, its linear layer's bias and rounding; ``owned`` rows are overwritten."""
        from radii.bounds._kernels import through_relu  # loads numba

        source = step.inputs[0]
        before = self.program.steps[source]
        assert isinstance(before, Linear)
        if dom is None:
            dom = torch.zeros(len(A), dtype=torch.int64) if len(known.domain) == 1 else torch.arange(len(A))
        under, over, lift = known.lines(step, source)
        none = A.new_zeros(0, A.shape[1])
        alpha = none if alphas is None else alphas.get(place, none)
        extra = none if betas is None else betas.get(source, none)
        A = A.contiguous() if owned else A.clone(memory_format=torch.contiguous_format)
        bias = torch.zeros(A.shape[1], dtype=A.dtype) if before.bias is None else before.bias
        arrays = [
            value.contiguous().numpy() for value in (A, dom, under, alpha, extra, over, lift, known.error[source], bias)
        ]
        kernel: Any = through_relu
        kernel(*arrays, 1 + 1.01 * gamma(A.shape[1] + 4, self.unit), total.numpy())
        return A

    def first_slopes(self, known: ValueBounds, place: int) -> Tensor:
        """Slopes [B, k] of the ReLU ``place`` from which an ascent starts: of its lower lines."""
        return known.lines(self.relus[place], self.program.steps[place].inputs[0])[0]

    def along(
        self, known: ValueBounds, place: int, A: Tensor, z: Tensor, dom: Tensor, slopes: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The lines of the ReLU ``place`` at ``z`` [R, d] for rows ``A``, and the derivatives by ``slopes`` [R, k]."""
        from radii.bounds._kernels import along_lines  # loads numba

        lines, after = known.lines(self.relus[place], self.program.steps[place].inputs[0]), torch.empty_like(z)
        slopes = pick(lines[0], dom) if slopes is None else slopes
        kernel: Any = along_lines
        arrays = (value.contiguous().numpy() for value in (z, slopes, dom, *lines))
        kernel(A.numpy(), *arrays, after.numpy())
        return after, A

    def through(
        self, step: Nonlinear, A: Tensor, known: ValueBounds, dom: Tensor | None, alpha: Tensor | None = None
    ) -> tuple[tuple[Tensor | None, ...], Tensor]:
        """Rows of what ``step`` reads, from rows ``A`` [R, d] of its result, and their constants."""
        if isinstance(step, Relu):
            under, over, lift = known.lines(step, step.inputs[0])
            under, over, lift = pick(under, dom), pick(over, dom), pick(lift, dom)
            if alpha is not None:
                under = torch.where(lift > 0, alpha, under)
            back, constant = ReluLines.apply(A, under, over, lift)
            return (back,), constant * (1 + 1.01 * gamma(A.shape[1] + 4, self.unit))
        if isinstance(step, Activation):
            return self._within_bands(step, A, known, dom)
        ends = _ends(known, step, dom, len(A))
        backs, constant = step.lines(A.unflatten(1, step.out_shape)[:, None], ends)
        reach = torch.maximum(*(end.abs().flatten(1) for end in step.interval(*ends)))
        slack = dot(A.abs(), reach) * (4 * gamma(A.shape[1] + 4, self.unit))
        flat = tuple(None if back is None else back[:, 0].flatten(1) for back in backs)
        return flat, constant[:, 0].double() - slack

    def _within_bands(
        self, step: Activation, A: Tensor, known: ValueBounds, dom: Tensor | None
    ) -> tuple[tuple[Tensor], Tensor]:
        """Rows through a function of each coordinate, whose lines are computed once for each domain."""
        (ends,) = _ends(known, step)
        size = _size(known, step.inputs[0])
        under, down, over, up = (band.flatten(1) for band in step.bands(*ends))
        reach = torch.maximum(down.abs() + under.abs() * size, up.abs() + over.abs() * size)
        under, down, over, up, reach = (pick(part, dom) for part in (under, down, over, up, reach))
        positive, negative = A.clamp_min(0), A.clamp_max(0)
        slack = dot(A.abs(), reach) * (4 * gamma(A.shape[1] + 4, self.unit))
        return (positive * under + negative * over,), dot(positive, down) + dot(negative, up) - slack


class ReluLines(torch.autograd.Function):
    """A . relu(z) >= back . z + constant: the lower slope where A > 0, the chord elsewhere."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, under: Tensor, over: Tensor, lift: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients of z and the constant."""
        slope = torch.where(A > 0, under, over)
        ctx.save_for_backward(A, slope, lift)
        return A * slope, dot(A.clamp_max(0), lift)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        """Gradients of A and of the lower slopes."""
        A, slope, lift = ctx.saved_tensors
        back, constant = grads
        by_A = back * slope + (A < 0) * lift * constant[:, None].to(A.dtype)
        return by_A, (back * A.clamp_min(0) if ctx.needs_input_grad[1] else None), None, None


def _linear_backs(step: Operation, A: Tensor) -> Sequence[Tensor]:
    """Rows of each input of a linear ``step``, from rows ``A`` [R, d] of its result."""
    if isinstance(step, Sum):
        return A, step.sign * A
    if isinstance(step, Join):
        return step.split(A)
    assert isinstance(step, Linear)
    return (step.transpose(A),)


def _l1_squares(linear: LinearMap, spread: Tensor) -> Tensor | None:
    """The square of the largest |W_ij| spread_j of each row, the length of the row dual to L1; None if not known."""
    if isinstance(linear, Dense) and spread.dim() == 2:
        return (linear.weight.abs() * spread).amax(1)[None].square()
    return None


def _ends(known: ValueBounds, step: Nonlinear, dom: Tensor | None = None, rows: int | None = None) -> list[Interval]:
    """The bounds of what ``step`` reads, in its shapes: for every domain, or for the domain of each of ``rows``."""

    def shaped(value: Tensor, shape: Shape) -> Tensor:
        value = pick(value, dom)
        return (value if rows is None else value.expand(rows, -1)).unflatten(1, shape)

    return [
        (shaped(known.lower[source], shape), shaped(known.upper[source], shape))
        for source, shape in zip(step.inputs, step.in_shapes, strict=True)
    ]


def _accumulate(pending: dict[int, Tensor], source: int, rows: Tensor) -> None:
    """Add rows to those that already wait for a value; several layers may read it."""
    pending[source] = pending[source] + rows if source in pending else rows


def _size(known: ValueBounds, number: int) -> Tensor:
    return torch.maximum(known.lower[number].abs(), known.upper[number].abs())
