"""Margins by CROWN and alpha-CROWN, one input at a time; the cost grows with the unstable ReLUs only."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from radii.certificates.bounds.bound_engine import Engine
from radii.certificates.bounds.propagation import Region
from radii.certificates.bounds.rows import Domain, ValueBounds, relu_lines
from radii.certificates.bounds.slope_ascent import DECAY, FADING, RATE, SQUARES, has_slopes, hidden_ascent, raised


def crown_margins(engine: Engine, region: Region, specs: Tensor, steps: int = 0) -> Tensor:
    """Lower bounds of specs . logits [n, s] over ``region``, float64.

    With ``steps`` the lower slopes are ascended (alpha-CROWN; Xu et al. 2021): those of the margins first, then
    those of hidden values too, on the margins that are still open.

    Args:
        engine: bounds of the network.
        region: the inputs; in float64.
        specs: coefficients of the logits [n, s, classes].
        steps: ascent steps in the lower slopes of every row; 0 for CROWN.
    """
    low, high, center = (value.double().flatten(1) for value in (region.lower, region.upper, region.center))
    margins = []
    with torch.no_grad():
        for i in range(len(low)):
            around = None if region.radius is None else center[i : i + 1]
            domain = Domain(low[i : i + 1], high[i : i + 1], around, region.radius)
            margins.append(_margins(engine, domain, specs[i].to(engine.program.dtype), steps))
    return torch.stack(margins)


def _margins(engine: Engine, domain: Domain, rows: Tensor, steps: int) -> Tensor:
    """Bounds of the rows over one region, the cheapest way first."""
    known, output = engine.bounds(domain), engine.program.output
    lowers = engine.lower(known, output, rows.clone())
    if not steps or bool((lowers > 0).all()):
        return lowers
    if not has_slopes(engine):
        return torch.maximum(lowers, _ascended(engine, known, rows, steps))
    lowers = torch.maximum(lowers, raised(engine, known, output, rows, None, steps))
    open_ = torch.nonzero(lowers <= 0)[:, 0]
    if len(open_):
        known = engine.bounds(domain, refine=hidden_ascent(engine, steps))
        lowers[open_] = torch.maximum(lowers[open_], raised(engine, known, output, rows[open_], None, steps))
    return lowers


def _ascended(engine: Engine, known: ValueBounds, rows: Tensor, steps: int) -> Tensor:
    """The best bounds during gradient ascent in the slopes, for networks whose bends are not all ReLUs."""
    alphas = {}
    for place, layer in engine.relus.items():
        source = engine.program.steps[place].inputs[0]
        under, _, _ = relu_lines(layer, known.lower[source], known.upper[source])
        alphas[place] = under.repeat(len(rows), 1).requires_grad_()
    best = torch.full((len(rows),), -torch.inf, dtype=torch.float64)
    ascent = Ascent([(value, RATE) for value in alphas.values()])
    with torch.enable_grad():
        for _ in range(steps):
            bound = engine.lower(known, engine.program.output, rows, None, alphas)
            best = torch.maximum(best, bound.detach())
            open_ = best <= 0
            if not bound.requires_grad or not bool(open_.any()):
                break
            ascent.step(bound[open_].sum())
            with torch.no_grad():
                for place, layer in engine.relus.items():
                    alphas[place].clamp_(layer.slope, 1.0)
    return best


class Ascent:
    """Gradient ascent by Adam (Kingma & Ba 2015) without the start-up cost of torch.optim; rates fall by 3% a step.

    Args:
        rates: each parameter with its own rate.
    """

    def __init__(self, rates: Sequence[tuple[Tensor, float]]) -> None:
        self._rates = list(rates)
        self._mean = [torch.zeros_like(value) for value, _ in rates]
        self._square = [torch.zeros_like(value) for value, _ in rates]
        self._count = 0

    def step(self, objective: Tensor) -> None:
        """Raise ``objective``; parameters that it does not depend on stay."""
        if not self._rates:
            return
        grads = torch.autograd.grad(objective, [value for value, _ in self._rates], allow_unused=True)
        self._count += 1
        fade = FADING ** (self._count - 1)
        first, second = 1 - DECAY**self._count, 1 - SQUARES**self._count
        with torch.no_grad():
            for (value, rate), grad, mean, square in zip(self._rates, grads, self._mean, self._square, strict=True):
                if grad is None:
                    continue
                mean.mul_(DECAY).add_(grad, alpha=1 - DECAY)
                square.mul_(SQUARES).addcmul_(grad, grad, value=1 - SQUARES)
                value.addcdiv_(mean, (square / second).sqrt_().add_(1e-8), value=rate * fade / first)
