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

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from radii.certificates.bounds.linear_maps import Convolution, Dense, Gather, Scale
from radii.certificates.bounds.program import Bend, Linear, Plus, Program
from radii.certificates.bounds.rows import (
    Domain,
    ReluLines,
    ValueBounds,
    along_lines,
    dot,
    gamma,
    least,
    pick,
    through_relu,
)
from radii.certificates.bounds.windows import both_sides, windowed

UNIT = 2.0**-24
TINY = 2.0**-125
LARGEST = 3.4e38  # of float32; a value that may be larger is not bounded at all
NUMBERS = 1 << 23  # coefficients carried at once: 32 MB of float32, 64 MB of float64
Visit = Callable[[int, Tensor], Any]


class Engine:
    """Bounds of one program.

    Args:
        program: the network on flat vectors.
        rounding: True (default) covers the float32 rounding of the deployed network.
        keep_forms: store the line in the input that bounds each coordinate, which splitting of inputs needs.
    """

    rate = 0.25  # of an ascent in slopes

    def __init__(self, program: Program, rounding: bool = True, keep_forms: bool = False) -> None:
        self.program, self.rounding, self.keep_forms = program, rounding, keep_forms
        self.unit = torch.finfo(program.dtype).eps / 2
        self.bent, self.behind = program.bent(), program.beyond_bends()
        self.plain = program.plain_relus()
        self.windowed = {number for number in self.bent if windowed(self, number)}
        self._first: dict[int, Tensor] = {}
        self.relus = {n: s.relu for n, s in program.steps.items() if isinstance(s, Bend) and s.relu is not None}

    # ------------------------------------------------------------------ forward

    def start(self, domain: Domain) -> ValueBounds:
        """Bounds of the input, rounded outward to the program's type."""
        known = ValueBounds(domain, finite=torch.ones(len(domain), dtype=torch.bool))
        low, high = domain.lower, domain.upper
        if self.program.dtype != torch.float64:
            low, high = low - 2 * self.unit * low.abs() - TINY, high + 2 * self.unit * high.abs() + TINY
        known.lower[0], known.upper[0] = low.to(self.program.dtype), high.to(self.program.dtype)
        if domain.center is not None and domain.radius is not None:
            size = (domain.center.abs() * (1 + 4 * self.unit) + TINY).to(self.program.dtype)
            known.balls[0] = (size, torch.ones_like(size[:1]))
        return known

    def forward(self, known: ValueBounds, number: int) -> None:
        """Interval bounds of one value from those of its inputs."""
        step = self.program.steps[number]
        if isinstance(step, Bend):
            shape = step.in_shape
            low, high = (known.lower[step.inputs[0]], known.upper[step.inputs[0]])
            ends = step.layer.interval(low.unflatten(1, shape), high.unflatten(1, shape))
            known.lower[number], known.upper[number] = (end.flatten(1) for end in ends)
            return
        if isinstance(step, Plus):
            a, b = step.inputs
            low, high = known.lower[b], known.upper[b]
            low, high = (low, high) if step.sign > 0 else (-high, -low)
            size = _size(known, a) + _size(known, b)
            error = size * (1.01 * ((UNIT if self.rounding else 0) + 8 * self.unit))
            lower, upper = known.lower[a] + low, known.upper[a] + high
            widened = error
        else:
            lower, upper, error, widened, size = self._linear(known, step, number)
        known.lower[number], known.upper[number] = lower - widened, upper + widened
        known.error[number] = error
        known.finite &= (size < LARGEST).all(1)

    def _linear(self, known: ValueBounds, step: Linear, number: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        low, high = known.lower[step.inputs[0]], known.upper[step.inputs[0]]
        middle, reach = (low + high) / 2, (high - low) / 2
        center = step.apply(middle)
        spread, size = step.absolute(torch.cat([reach, _size(known, step.inputs[0])])).chunk(2)
        bias = 0.0 if step.bias_size is None else step.bias_size
        size = size + bias
        if step.inputs[0] in known.balls:
            size = torch.minimum(size, self._size_in_ball(known, step, number) + bias)
        deployed = gamma(step.terms + 2, UNIT) if self.rounding and step.terms else 0.0
        tiny = TINY * (step.terms + step.back_terms + 2)
        own = gamma(step.back_terms + 8, self.unit) if step.terms else 4 * self.unit
        error = size * (1.01 * (deployed + own) + tiny) + tiny
        if step.bias_size is not None:
            error = error + step.bias_size * (1.01 * gamma(self.program.sizes[number] + 8, self.unit))
        # center and spread are off by gamma_n size each, with a few roundings more
        widened = size * (1.01 * deployed + 2.02 * gamma(step.terms + 8, self.unit)) + tiny
        return center - spread, center + spread, error, widened, size

    def _size_in_ball(self, known: ValueBounds, step: Linear, number: int) -> Tensor:
        """The largest |W| |x| of each output over an L2 ball: |W| |center| + radius |row of W|, rounded up.

        A layer that scales or moves coordinates hands the ball on: |x| <= size + radius times a vector in the
        unit ball times ``spread``, coordinate by coordinate.
        """
        size, spread = known.balls[step.inputs[0]]
        assert known.domain.radius is not None
        squares = step.linear.squares(spread.square().unflatten(1, step.in_shape))
        if squares is None:
            return torch.full_like(known.lower[step.inputs[0]][:, :1], torch.inf)
        up = 1 + 2 * gamma(step.terms + 8, self.unit)
        around, width = step.absolute(size) * up + TINY, squares.flatten(1).sqrt() * up + TINY
        if isinstance(step.linear, Scale) or (isinstance(step.linear, Gather) and step.terms == 0):
            bias = 0.0 if step.bias_size is None else step.bias_size
            known.balls[number] = ((around + bias) * up, width)
        return around + known.domain.radius * (1 + 4 * self.unit) * width

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
            domain: the regions.
            outer: bounds that are known to hold on these regions already, by value.
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
        if isinstance(step, Linear) and isinstance(step.linear, Dense):  # its rows stand in its matrix
            rows = step.linear.weight.index_select(0, place)
            error = known.error[number][dom, place].double()
            bias = torch.zeros_like(error) if step.bias is None else step.bias[place].double()
            total = torch.cat([bias - error, -bias - error])
            return self.lower(known, step.inputs[0], torch.cat([rows, -rows]), twice, visit=visit, total=total)
        if twice is None and visit is None and number in self.windowed and not torch.is_grad_enabled():
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
    ) -> Tensor:
        """Lower bounds of rows . value [R], float64, over the domain ``dom[i]`` of each row.

        Args:
            known: bounds of all values before ``number``.
            number: the value that the rows [R, d] multiply.
            rows: coefficients.
            dom: the domain of each row; None if there is one domain, or one for each row.
            alphas: lower slopes of ReLUs for each row, by the ReLU's value; any in [slope, 1] gives a true bound.
            betas: added to the coefficients of a value that a ReLU reads; true bounds where
                beta z <= 0 on the domain, which is what a split gives.
            visit: a function that receives the coefficients of each layer that is not linear, and of the input.
            total: constants of the rows [R], 0 by default; overwritten.
        """
        pending = {number: rows}
        total = torch.zeros(len(rows), dtype=torch.float64) if total is None else total
        quick, fused = not torch.is_grad_enabled(), set[int]()
        owned: set[int] = set()  # values whose rows nothing else holds
        for place in sorted((n for n in self.program.steps if n <= number), reverse=True):
            if place not in pending:
                continue
            A = pending.pop(place)
            step = self.program.steps[place]
            if place in fused:  # its bias and rounding were counted with the ReLU behind it
                assert isinstance(step, Linear)
                _accumulate(pending, step.inputs[0], step.transpose(A))
                if isinstance(step.linear, Dense | Convolution):
                    owned.add(step.inputs[0])
                continue
            if quick and place in self.plain:
                assert isinstance(step, Bend)
                if visit is not None:
                    visit(place, A)
                pending[step.inputs[0]] = self._quick(step, A, known, dom, total, alphas, betas, place, place in owned)
                fused.add(step.inputs[0])
                continue
            if isinstance(step, Bend):
                if visit is not None:
                    visit(place, A)
                alpha = None if alphas is None else alphas.get(place)
                back, constant = self.through(step, A, known, dom, alpha)
                total = total + constant
                source = step.inputs[0]
                if betas is not None and source in betas and back is not None:
                    back = back + betas[source]
                if back is not None:
                    _accumulate(pending, source, back)
                continue
            total = total - dot(A.abs(), pick(known.error[place], dom))
            if isinstance(step, Plus):
                for source, factor in zip(step.inputs, (1.0, step.sign), strict=True):
                    _accumulate(pending, source, A if factor == 1.0 else -A)
                continue
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

    def first_form(self, number: int) -> Tensor:
        """The matrix [d, inputs] of a value that only linear layers precede."""
        if number not in self._first:
            rows = torch.eye(self.program.sizes[number], dtype=self.program.dtype)
            pending, matrix = {number: rows}, torch.zeros(len(rows), self.program.sizes[0], dtype=rows.dtype)
            for place in sorted((n for n in self.program.steps if n <= number), reverse=True):
                A = pending.pop(place, None)
                step = self.program.steps[place]
                if A is None or isinstance(step, Bend):
                    continue
                backs = [step.transpose(A)] if isinstance(step, Linear) else [A, step.sign * A]
                for source, back in zip(step.inputs, backs, strict=True):
                    _accumulate(pending, source, back)
            self._first[number] = pending.get(0, matrix)
        return self._first[number]

    def _quick(
        self,
        step: Bend,
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
        source = step.inputs[0]
        before = self.program.steps[source]
        assert isinstance(before, Linear)
        assert step.relu is not None
        if dom is None:
            dom = torch.zeros(len(A), dtype=torch.int64) if len(known.domain) == 1 else torch.arange(len(A))
        under, over, lift = known.lines(step.relu, source)
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
        lines, after = known.lines(self.relus[place], self.program.steps[place].inputs[0]), torch.empty_like(z)
        slopes = pick(lines[0], dom) if slopes is None else slopes
        kernel: Any = along_lines
        arrays = (value.contiguous().numpy() for value in (z, slopes, dom, *lines))
        kernel(A.numpy(), *arrays, after.numpy())
        return after, A

    def through(
        self, step: Bend, A: Tensor, known: ValueBounds, dom: Tensor | None, alpha: Tensor | None = None
    ) -> tuple[Tensor | None, Tensor]:
        """Rows of what a layer that is not linear reads, from rows ``A`` of its result, and their constants.

        Args:
            step: the layer.
            A: coefficients [R, d].
            known: bounds of what it reads.
            dom: the domain of each row.
            alpha: lower slopes of a ReLU for each row.
        """
        low, high = known.lower[step.inputs[0]], known.upper[step.inputs[0]]
        if step.relu is not None:
            under, over, lift = known.lines(step.relu, step.inputs[0])
            under, over, lift = pick(under, dom), pick(over, dom), pick(lift, dom)
            if alpha is not None:
                under = torch.where(lift > 0, alpha, under)
            back, constant = ReluLines.apply(A, under, over, lift)
            return back, constant * (1 + 1.01 * gamma(A.shape[1] + 4, self.unit))
        low, high = (pick(end, dom).expand(len(A), -1).unflatten(1, step.in_shape) for end in (low, high))
        shape = step.layer.interval(low[:1], high[:1])[0].shape[1:]
        back, constant = step.layer.lines(A.unflatten(1, shape)[:, None], low, high)
        reach = torch.maximum(*(end.abs().flatten(1) for end in step.layer.interval(low, high)))
        slack = dot(A.abs(), reach) * (4 * gamma(A.shape[1] + 4, self.unit))
        return None if back is None else back[:, 0].flatten(1), constant[:, 0].double() - slack


def _accumulate(pending: dict[int, Tensor], source: int, rows: Tensor) -> None:
    """Add rows to those that already wait for a value; several layers may read it."""
    pending[source] = pending[source] + rows if source in pending else rows


def _size(known: ValueBounds, number: int) -> Tensor:
    return torch.maximum(known.lower[number].abs(), known.upper[number].abs())
