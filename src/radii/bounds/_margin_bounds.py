"""Lower bounds of logit margins over regions, by the methods of the literature.

``ibp``         intervals, the last linear layers merged (Gowal et al. 2018)
``crown-ibp``   intervals inside, one backward pass for the margins (Zhang et al. 2020)
``crown``       backward passes for every ReLU's input too (Zhang et al. 2018)
``alpha-crown`` CROWN with the lower slopes optimized by gradient ascent (Xu et al. 2021)
``sdp-crown``   alpha-CROWN with offsets of whole layers, for L2 balls (Chiu et al. 2025)
``wong-kolter`` CROWN with equal slopes: the dual of the convex outer polytope (Wong & Kolter 2018)
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from radii.bounds.alpha_crown import hidden_ascent, raised
from radii.bounds.bound_engine import NUMBERS, Engine
from radii.bounds.regions import Domain


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
def each_margin(domain: Domain, rows: Tensor, bound: Callable[[Domain, Tensor], Tensor]) -> Tensor:
    """``bound`` of the rows [s, classes] of one region, for all n regions of ``domain``: [n, s]."""
    return torch.stack([bound(domain[i : i + 1], rows[i]) for i in range(len(rows))])


def crown_margins(engine: Engine, domain: Domain, rows: Tensor, steps: int = 0) -> Tensor:
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
