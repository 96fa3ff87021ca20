"""Lower bounds of logit margins over a region, by the methods of the literature.

``ibp``         intervals, the last linear layers merged (Gowal et al. 2018)
``crown-ibp``   intervals inside, one backward pass for the margins (Zhang et al. 2020)
``crown``       backward passes for every ReLU's input too (Zhang et al. 2018)
``alpha-crown`` CROWN with the lower slopes optimized by gradient ascent (Xu et al. 2021)
``sdp-crown``   alpha-CROWN with offsets of whole layers, for L2 balls (Chiu et al. 2025)
``wong-kolter`` CROWN with equal slopes: the dual of the convex outer polytope (Wong & Kolter 2018)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from radii.certificates.bounds.bound_engine import Engine
from radii.certificates.bounds.network import Network
from radii.certificates.bounds.propagation import Bounds, Region, Slopes, backward, forward, of_input, step
from radii.certificates.bounds.relaxations import Affine, Relu, Sum
from radii.certificates.bounds.rows import Domain
from radii.certificates.bounds.slope_ascent import hidden_ascent, raised
from radii.errors import unknown_name

if TYPE_CHECKING:
    from radii.certificates.bounds.sdp_crown import BallEngine

Method = Literal["ibp", "crown-ibp", "crown", "alpha-crown", "sdp-crown", "wong-kolter"]
METHODS: tuple[Method, ...] = ("ibp", "crown-ibp", "crown", "alpha-crown", "sdp-crown", "wong-kolter")
NUMBERS = 1 << 23  # coefficients in one backward pass: 64 MB of float64


def margin_specs(prediction: Tensor, classes: int) -> Tensor:
    """Coefficients of logit_y - logit_c, y the ``prediction``, for each other class c: [n, classes - 1, classes]."""
    own = torch.nn.functional.one_hot(prediction, classes)[:, None]
    others = torch.eye(classes, dtype=own.dtype, device=own.device).expand(len(own), -1, -1)
    keep = others.argmax(2) != prediction[:, None]
    return (own - others)[keep].view(len(own), classes - 1, classes)


def lower_margins(
    network: Network, region: Region, specs: Tensor, method: Method, *, rounding: bool = False, steps: int = 20
) -> Tensor:
    """Lower bounds of specs . logits [n, s] over ``region``.

    Minus infinity where nothing is proved: the region is empty, a bound is NaN, or a value may exceed the
    largest float32.

    Args:
        network: the layers.
        region: the inputs, one region for each row.
        specs: coefficients of the logits [n, s, classes].
        method: one of :data:`METHODS`.
        rounding: whether bounds cover the float32 rounding of every layer.
        steps: steps of gradient ascent of alpha-crown; default 20.
    """
    if method not in METHODS:
        raise unknown_name("relaxation", method, METHODS)
    equal = method == "wong-kolter"
    if method in ("ibp", "crown-ibp"):
        bounds = forward(network, region, rounding)
        margins = backward(network, bounds, region, specs, network.output, deep=method != "ibp")
    else:
        bounds = _tightened(network, region, rounding, equal)
        if method == "alpha-crown":
            margins = _ascended(network, bounds, region, specs, steps)
        else:
            slopes = _equal_slopes(network, bounds) if equal else None
            margins = backward(network, bounds, region, specs, network.output, slopes=slopes)
    sound = torch.stack([value.sound_rows() for value in bounds.values()]).all(0)
    return torch.where(sound[:, None] & ~margins.isnan(), margins, -torch.inf)


def _tightened(network: Network, region: Region, rounding: bool, equal: bool) -> dict[int, Bounds]:
    """Bounds of every value, by backward passes where a layer that is not linear reads it and its sign is open."""
    bounds = {0: of_input(region)}
    behind = {0: False}  # does a layer that is not linear come before this value?
    readers = network.readers()
    for number, layer in network.layers.items():
        bounds[number] = step(layer, [bounds[source] for source in layer.inputs], region, rounding)
        linear = isinstance(layer, Affine | Sum)
        behind[number] = not linear or any(behind[source] for source in layer.inputs)
        read = any(not isinstance(reader, Affine | Sum) for reader in readers[number])
        if linear and read and behind[number]:
            slopes = _equal_slopes(network, bounds) if equal else None
            only_relu = all(isinstance(reader, Relu) for reader in readers[number])
            bounds[number] = _tighter(network, bounds, region, number, slopes, only_relu)
    return bounds


def _tighter(
    network: Network, bounds: dict[int, Bounds], region: Region, number: int, slopes: Slopes | None, only_relu: bool
) -> Bounds:
    """Both bounds of each coordinate of a value, by backward passes over blocks of coordinates."""
    value = bounds[number]
    n = len(value.lower)
    low, high = value.lower.flatten(1).clone(), value.upper.flatten(1).clone()
    wanted = ((low < 0) & (high > 0)).any(0) if only_relu else (high > low).any(0)
    width = max(bounds[source].lower[0].numel() for source in bounds)
    open_places = torch.nonzero(wanted)[:, 0]
    if len(open_places) == 0:
        return value
    for places in open_places.split(max(1, NUMBERS // (2 * n * width))):
        one = torch.zeros(len(places), low.shape[1], dtype=low.dtype, device=low.device)
        one[torch.arange(len(places)), places] = 1
        A = torch.cat([one, -one]).unflatten(1, value.lower.shape[1:]).expand(n, -1, *value.lower.shape[1:])
        bound = backward(network, bounds, region, A, number, slopes=slopes)
        low[:, places] = torch.maximum(low[:, places], bound[:, : len(places)])
        high[:, places] = torch.minimum(high[:, places], -bound[:, len(places) :])
    return value.meet(low.view_as(value.lower), high.view_as(value.upper))


def _equal_slopes(network: Network, bounds: dict[int, Bounds]) -> Slopes:
    slopes = {}
    for number, layer in network.layers.items():
        if isinstance(layer, Relu) and layer.inputs[0] in bounds:
            below = bounds[layer.inputs[0]]
            slopes[number] = layer.equal_slopes(below.lower, below.upper)
    return slopes


def _ascended(network: Network, bounds: dict[int, Bounds], region: Region, specs: Tensor, steps: int) -> Tensor:
    """The best bound during gradient ascent in the lower slopes; every slope in its range gives a true bound."""
    relus = {number: layer for number, layer in network.layers.items() if isinstance(layer, Relu)}
    slopes: Slopes = {}
    for number, layer in relus.items():
        below = bounds[layer.inputs[0]]
        start = torch.where(below.upper > -below.lower, 1.0, layer.slope).to(below.lower.dtype)
        slopes[number] = start.detach().requires_grad_()
    best = backward(network, bounds, region, specs, network.output).detach()
    if not slopes:
        return best
    optimizer = torch.optim.Adam(slopes.values(), lr=0.2)
    with torch.enable_grad():
        for _ in range(steps):
            margins = backward(network, bounds, region, specs, network.output, slopes=slopes)
            best = torch.maximum(best, margins.detach())
            if not margins.requires_grad:  # steps behind every ReLU: no slope matters
                break
            optimizer.zero_grad()
            (-margins.clamp_max(0.1).sum()).backward()  # what is proved needs no more
            optimizer.step()
            with torch.no_grad():
                for number, layer in relus.items():
                    slopes[number].clamp_(layer.slope, 1.0)
    return best


def crown_margins(
    engine: Engine, region: Region, specs: Tensor, steps: int = 0, balls: BallEngine | None = None
) -> Tensor:
    """Lower bounds of specs . logits [n, s] over ``region``, float64.

    With ``steps`` the lower slopes are ascended (alpha-CROWN; Xu et al. 2021): those of the margins first, then
    those of hidden values too, on the margins that are still open.

    Args:
        engine: bounds of the network.
        region: the inputs; in float64.
        specs: coefficients of the logits [n, s, classes].
        steps: ascent steps in the lower slopes of every row; 0 for CROWN.
        balls: bounds of the same network for SDP-CROWN.
    """
    low, high, center = (value.double().flatten(1) for value in (region.lower, region.upper, region.center))
    margins = []
    with torch.no_grad():
        for i in range(len(low)):
            around = None if region.radius is None else center[i : i + 1]
            domain = Domain(low[i : i + 1], high[i : i + 1], around, region.radius)
            rows = specs[i].to(engine.program.dtype)
            if balls is None:
                margins.append(_crown_margins(engine, domain, rows, steps))
            else:
                from radii.certificates.bounds.sdp_crown import ball_margins

                margins.append(ball_margins(engine, balls, domain, rows, steps))
    return torch.stack(margins)


def _crown_margins(engine: Engine, domain: Domain, rows: Tensor, steps: int) -> Tensor:
    """Bounds of the rows over one region, the cheapest way first."""
    known, output = engine.bounds(domain), engine.program.output
    lowers = engine.lower(known, output, rows.clone())
    if not steps or bool((lowers > 0).all()):
        return lowers
    if not engine.relus:
        return lowers
    lowers = torch.maximum(lowers, raised(engine, known, output, rows, None, steps))
    open_ = torch.nonzero(lowers <= 0)[:, 0]
    if len(open_):
        known = engine.bounds(domain, refine=hidden_ascent(engine, steps))
        lowers[open_] = torch.maximum(lowers[open_], raised(engine, known, output, rows[open_], None, steps))
    return lowers
