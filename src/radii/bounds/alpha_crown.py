"""Bounds that are raised by the lower slopes of ReLUs, of hidden values too (alpha-CROWN, Xu et al. 2021).

A bound is least at one input x*. Let that input run through the lines that the
bound took in place of the ReLUs; then the derivative of the bound by a ReLU's
lower slope is its positive coefficient times the value that the line reads
there, by a multiplier of a split that value itself, and by a coefficient of the
first row the value it multiplies. So a gradient is one pass backward and one
forward, with no graph of operations. Any slope in its range gives a true bound:
gradients need no care for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from radii.bounds.bound_engine import NUMBERS, Engine
from radii.bounds.regions import ValueBounds, dot, lowest_input
from radii.networks.operations.linear import Join, Linear, Sum
from radii.networks.operations.operation import Nonlinear

FADING = 0.97  # of Adam's rate, after each step
ROUND, STALLED = 5, 0.002  # so many steps must raise the bounds by this share of them together, or the ascent ends

Refine = Callable[[ValueBounds, int, Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Slope:
    """Bounds of rows [R] with their derivatives: by slopes of each ReLU, and the values [R, d] at the least input."""

    bound: Tensor
    by_alpha: dict[int, Tensor]
    values: dict[int, Tensor]


def lower_with_slopes(
    engine: Engine,
    known: ValueBounds,
    number: int,
    rows: Tensor,
    dom: Tensor | None,
    alphas: dict[int, Tensor],
    betas: dict[int, Tensor] | None = None,
    total: Tensor | None = None,
) -> Slope:
    """As :meth:`Engine.lower`, with derivatives.

    Args:
        number: the value that the rows [R, d] multiply.
        dom: the domain of each row; None if there is one domain, or one for each row.
        total: constants of the rows [R].
    """
    met: dict[int, Tensor] = {}
    with torch.no_grad():
        constants = None if total is None else total.clone()
        bound = engine.lower(
            known, number, rows, dom, alphas, betas, lambda place, A: met.update({place: A.clone()}), constants
        )
        by_alpha, values = _ahead(engine, known, number, dom, alphas, met, len(rows))
    return Slope(bound, by_alpha, values)


def _ahead(
    engine: Engine,
    known: ValueBounds,
    number: int,
    dom: Tensor | None,
    alphas: dict[int, Tensor],
    met: dict[int, Tensor],
    count: int,
) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """The inputs at which the rows are least, through the lines that the rows took; coefficients are overwritten."""
    dtype, steps = engine.program.dtype, engine.program.steps
    if dom is None:
        dom = torch.zeros(count, dtype=torch.int64) if len(known.domain) == 1 else torch.arange(count)
    slopes = met.get(0)
    slopes = torch.zeros(count, engine.program.sizes[0], dtype=dtype) if slopes is None else slopes
    values, by_alpha = {0: lowest_input(slopes, known.domain, dom).to(dtype)}, dict[int, Tensor]()
    for place in _needed(engine, number):
        step = steps[place]
        if isinstance(step, Linear):
            engine.check()
            values[place] = step.apply(values[step.inputs[0]])
        elif isinstance(step, Sum):
            values[place] = values[step.inputs[0]] + step.sign * values[step.inputs[1]]
        elif isinstance(step, Join):
            values[place] = torch.cat([values[source] for source in step.inputs], 1)
        elif place not in met:  # nothing of these rows passes here
            assert isinstance(step, Nonlinear)
            values[place] = step.at(*(values[source] for source in step.inputs))
        elif place not in engine.relus:
            assert isinstance(step, Nonlinear)
            values[place] = _by_lines(engine, step, met[place], known, dom, [values[n] for n in step.inputs])
        else:
            z, slopes_there = values[step.inputs[0]].contiguous(), alphas.get(place)
            values[place], derivative = engine.along(known, place, met[place], z, dom, slopes_there)
            if place in alphas:
                by_alpha[place] = derivative
    return by_alpha, values


def _by_lines(
    engine: Engine, step: Nonlinear, A: Tensor, known: ValueBounds, dom: Tensor, inputs: Sequence[Tensor]
) -> Tensor:
    """The value that the lines of ``step`` give at ``inputs``: what its coefficients ``A`` multiply, a derivative."""
    with torch.enable_grad():
        leaf = A.detach().requires_grad_()
        backs, constant = engine.through(step, leaf, known, dom)
        total = constant.sum()
        for back, z in zip(backs, inputs, strict=True):
            total = total if back is None else total + (back * z).sum()
        if not total.requires_grad:
            return torch.zeros_like(A)
        return torch.autograd.grad(total, leaf)[0]


def _needed(engine: Engine, number: int) -> list[int]:
    """The values that ``number`` depends on, and itself, in order."""
    wanted = {number}
    for place in sorted((n for n in engine.program.steps if n <= number), reverse=True):
        if place in wanted:
            wanted.update(engine.program.steps[place].inputs)
    return sorted(wanted - {0})


class Adam:
    """Gradient ascent by Adam (Kingma & Ba 2015) in one compiled pass; rates fall by 3% a step.

    Args:
        value: the parameters, changed in place, contiguous.
    """

    def __init__(self, value: Tensor, rate: float, least: float, most: float) -> None:
        self.value, self.rate, self.least, self.most = value, rate, least, most
        self._mean, self._square, self._count = torch.zeros_like(value), torch.zeros_like(value), 0

    def step(self, grad: Tensor) -> None:
        """Move along ``grad``."""
        from radii.bounds._kernels import DECAY, SQUARES, adam_step  # loads numba

        self._count += 1
        first, second = 1 - DECAY**self._count, 1 - SQUARES**self._count
        rate = self.rate * FADING ** (self._count - 1) / first
        arrays = [tensor.contiguous().numpy().reshape(-1) for tensor in (self.value, grad, self._mean, self._square)]
        kernel: Any = adam_step
        kernel(*arrays, rate, 1 / second, self.least, self.most)


def raised(
    engine: Engine,
    known: ValueBounds,
    number: int,
    rows: Tensor,
    dom: Tensor | None,
    steps: int,
    total: Tensor | None = None,
    until: float = 0.0,
) -> Tensor:
    """The best bounds of ``rows`` [R] during ascent in the slopes of every row.

    Args:
        rows: coefficients [R, d].
        dom: the domain of each row; None if there is one domain, or one for each row.
    """
    alphas, ascents = dict[int, Tensor](), dict[int, Adam]()
    for place in set(_needed(engine, number)) & set(engine.relus):
        layer, under = engine.relus[place], engine.first_slopes(known, place)
        spread = under.expand(len(rows), -1) if dom is None else under[dom]
        alphas[place] = spread.clone(memory_format=torch.contiguous_format)
        ascents[place] = Adam(alphas[place], engine.rate, layer.slope, 1.0)
    best = torch.full((len(rows),), -torch.inf, dtype=torch.float64)
    before = best
    for step in range(steps):
        met = lower_with_slopes(engine, known, number, rows, dom, alphas, total=total)
        best = torch.maximum(best, met.bound)
        open_ = best <= until
        late = not bool(open_.any()) or not met.by_alpha or step == steps - 1
        if step % ROUND == ROUND - 1:
            late = late or bool((best - before)[open_].sum() <= STALLED * best[open_].abs().sum())
            before = best
        if late:
            break
        for place, grad in met.by_alpha.items():
            ascents[place].step(grad)
    return best


def hidden_ascent(engine: Engine, steps: int) -> Refine:
    """What :meth:`Engine.bounds` takes as ``refine``: open coordinates get slopes of their own.

    Returns:
        A function from bounds so far, a value, domains and places to lower and upper bounds of these coordinates.
    """

    def refine(known: ValueBounds, number: int, dom: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        lower, upper = engine.coordinates(known, number, dom, place)
        open_ = torch.nonzero((lower < 0) & (upper > 0))[:, 0]
        width = max(engine.program.sizes[n] for n in (0, *_needed(engine, number)))
        wanted = number in engine.behind and len(open_) > 0
        for part in open_.split(max(1, NUMBERS // (2 * width))) if wanted else ():
            rows, source, total = _first_rows(engine, known, number, dom[part], place[part])
            twice = None if len(known.domain) == 1 else dom[part].repeat(2)
            best = raised(engine, known, source, rows, twice, steps, total)
            lower[part] = torch.maximum(lower[part], best[: len(part)])
            upper[part] = torch.minimum(upper[part], -best[len(part) :])
        return lower, upper

    return refine


def _first_rows(
    engine: Engine, known: ValueBounds, number: int, dom: Tensor, place: Tensor
) -> tuple[Tensor, int, Tensor | None]:
    """Rows of z[place] and then of -z[place]; of what a linear layer reads, with the constants it adds."""
    rows = torch.zeros(len(place), engine.program.sizes[number], dtype=engine.program.dtype)
    rows[torch.arange(len(place)), place] = 1
    rows = torch.cat([rows, -rows])
    step = engine.program.steps[number]
    if not isinstance(step, Linear):
        return rows, number, None
    total = -dot(rows.abs(), known.error[number][dom].repeat(2, 1))
    if step.bias is not None:
        total = total + (rows @ step.bias).double()
    return step.transpose(rows), step.inputs[0], total
