"""Margins by CROWN and alpha-CROWN, one input at a time, by rows that only unstable ReLUs cost."""

from __future__ import annotations

import torch
from torch import Tensor

from radii.certificates.bounds.bound_engine import Engine
from radii.certificates.bounds.propagation import Region
from radii.certificates.bounds.rows import Domain, ValueBounds, relu_lines
from radii.certificates.bounds.slope_ascent import Ascent

RATE = 0.25


def crown_margins(engine: Engine, region: Region, specs: Tensor, steps: int = 0) -> Tensor:
    """Lower bounds of specs . logits [n, s] over ``region``, float64.

    Args:
        engine: bounds of the network.
        region: the inputs; in float64.
        specs: coefficients of the logits [n, s, classes].
        steps: of ascent in the lower slopes of every row (alpha-CROWN; Xu et al. 2021); 0 for CROWN.
    """
    low, high, center = (value.double().flatten(1) for value in (region.lower, region.upper, region.center))
    found = []
    with torch.no_grad():
        for i in range(len(low)):
            around = None if region.radius is None else center[i : i + 1]
            known = engine.bounds(Domain(low[i : i + 1], high[i : i + 1], around, region.radius))
            rows = specs[i].to(engine.program.dtype)
            lowers = engine.lower(known, engine.program.output, rows.clone())
            if steps and not bool((lowers > 0).all()):
                lowers = torch.maximum(lowers, _ascended(engine, known, rows, steps))
            found.append(lowers)
    return torch.stack(found)


def _ascended(engine: Engine, known: ValueBounds, rows: Tensor, steps: int) -> Tensor:
    """The best bounds met while ascending in the slopes; every slope in range gives a true bound."""
    alphas = {}
    for place, layer in engine.relus.items():
        source = engine.program.steps[place].inputs[0]
        under, _, _ = relu_lines(layer, known.lower[source], known.upper[source])
        alphas[place] = under.repeat(len(rows), 1).requires_grad_()
    best = torch.full((len(rows),), -torch.inf, dtype=torch.float64)
    ascent = Ascent([(value, RATE) for value in alphas.values()])
    with torch.enable_grad():
        for _ in range(steps):
            found = engine.lower(known, engine.program.output, rows, None, alphas)
            best = torch.maximum(best, found.detach())
            open_ = best <= 0
            if not found.requires_grad or not bool(open_.any()):
                break
            ascent.step(found[open_].sum())
            with torch.no_grad():
                for place, layer in engine.relus.items():
                    alphas[place].clamp_(layer.slope, 1.0)
    return best
