"""Formulas of the papers, computed with this package's functions: each returns figures by name.

They are the evidence for claims that need neither data nor training: whether a
definition does what the text says. Every formula takes a seed, which only
matters where it draws numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.stats import norm
from torch import nn
from torch.nn import functional as F

from radii.certificates import lipschitz
from radii.certificates.smoothing.randomized import estimate
from radii.confidence_interval import lower_limits
from radii.data.variants import gamma, saturate, scale
from radii.errors import unknown_name
from radii.evaluation.local_lipschitz import local_lipschitz
from radii.models.io.bundle import Architecture, initialize
from radii.models.lipschitz.network_bound import lipschitz_bound
from radii.randomness import numpy_stream, stream
from radii.threat import Ball
from radii.training.objectives.cross_entropies import self_normalizing_cross_entropy
from radii.training.objectives.gradient_regularization import GradientRegularization
from radii.training.objectives.objective import TrainingProgress

Figures = dict[str, float]
RADIUS, SIGMA, ALPHA = 36 / 255, 1 / 8, 0.001  # Prach & Lampert 2025, sections 2.1 and 4; Cohen et al. 2019


def _margin_radius(seed: int) -> Figures:
    """The radius margin/√2 of an orthogonal map: what its worst perturbation does just below and just above it.

    Towards class c the gap of g(x) = Qx closes fastest along q_c − q_y, of length √2.
    """
    q, _ = torch.linalg.qr(torch.randn(10, 10, generator=stream(seed, "margin"), dtype=torch.float64))
    net = nn.Sequential(nn.Linear(10, 10, bias=False))
    net[0].weight = nn.Parameter(q.float())
    x = torch.rand(2000, 10, generator=stream(seed, "margin", "x"))
    certificate = lipschitz.certify(net, x, form="sqrt2", arithmetic="exact")
    scores = x.double() @ net[0].weight.detach().double().T
    rival = scores.scatter(1, certificate.prediction[:, None], -torch.inf).argmax(1)
    weight = net[0].weight.detach().double()
    way = F.normalize(weight[rival] - weight[certificate.prediction], dim=1)

    def flipped(share: float) -> float:
        moved = x.double() + share * certificate.radius[:, None] * way
        return float(((moved @ weight.T).argmax(1) != certificate.prediction).double().mean())

    return {"flipped at .999 radius": flipped(0.999), "flipped at 1.001 radius": flipped(1.001)}


def _smoothing(seed: int) -> Figures:
    """What randomized smoothing needs for radius 36/255 at sigma 1/8, as an estimate and as a certificate.

    A half-space at distance 36/255 is the hardest classifier of that radius, so
    the share of noisy votes that it wins is the probability that is needed.
    """
    draws = SIGMA * numpy_stream(seed, "smoothing").standard_normal(1_000_000)
    figures = {"share of votes at distance 36/255": float((draws < RADIUS).mean())}
    constant = nn.Linear(2, 2)
    constant.weight, constant.bias = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.tensor([1.0, 0.0]))
    clipped = estimate(constant, torch.full((1, 2), 0.5), SIGMA, samples=1000, seed=seed)
    figures["largest radius of a clipped estimate"] = float(clipped.radius[0])
    needed = float(norm.cdf(RADIUS / SIGMA))
    for samples in (1000, 10_000, 100_000):
        proved = lower_limits(np.arange(samples + 1), samples, ALPHA) >= needed
        figures[f"votes of {samples} for a certificate"] = float(np.flatnonzero(proved)[0])
    figures["votes of 1000 for the estimate"] = float(math.ceil(1000 * needed))
    return figures


def _self_normalizing(seed: int) -> Figures:
    """SelfNormalizingCE (Eq. 27): blind to the scale at t = 0 only, and with one softmax."""
    scores = torch.randn(64, 10, generator=stream(seed, "scores"), dtype=torch.float64)
    y = torch.arange(64) % 10

    def change(t: float) -> float:
        return float(
            (self_normalizing_cross_entropy(10 * scores, y, t) - self_normalizing_cross_entropy(scores, y, t)).abs()
        )

    shifted = scores / scores.std(1, keepdim=True) - F.one_hot(y, 10)
    twice = F.cross_entropy(shifted.softmax(1), y)
    return {
        "change by a factor of 10, t = 0": change(0.0),
        "change by a factor of 10, t = 1/10": change(0.1),
        "one softmax over two": float(F.cross_entropy(shifted, y) / twice),
    }


def _gradient_penalty(seed: int) -> Figures:
    """The gradient penalty by finite differences over the exact one: with the square and, as on the slide, without."""
    torch_stream = stream(seed, "gradient-penalty")
    net = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 5)).double()
    for parameter in net.parameters():
        nn.init.normal_(parameter, 0, 0.3, generator=torch_stream)
    x = torch.rand(50, 20, generator=torch_stream, dtype=torch.float64)
    y = torch.arange(50) % 5
    plain = F.cross_entropy(net(x), y)

    def penalty(objective: GradientRegularization) -> float:
        return float((objective.loss(net, x, y, TrainingProgress(0, 1)).value - plain).detach())

    exact = penalty(GradientRegularization(1.0, "double-backpropagation"))
    squared = penalty(GradientRegularization(1.0, "finite-difference", h=1e-3))
    inputs = x.clone().requires_grad_()
    each = F.cross_entropy(net(inputs), y, reduction="none")
    (slope,) = torch.autograd.grad(each.sum(), inputs)
    ahead = F.cross_entropy(net(x + 1e-3 * F.normalize(slope, dim=1)), y, reduction="none")
    unsquared = float(((ahead - each) / 1e-3).mean().detach())
    return {"squared over exact": squared / exact, "without the square over exact": unsquared / exact}


def _lipschitz_estimator(seed: int) -> Figures:
    """The local Lipschitz estimate of a linear function over its exact value |w|_1, ascending and descending."""
    weight = torch.randn(1, 100, generator=stream(seed, "linear"))
    net = nn.Linear(100, 1, bias=False)
    net.weight = nn.Parameter(weight)
    x = torch.full((8, 100), 0.5)
    exact = float(weight.abs().sum())
    away = 0.1 * (2 * torch.rand(8, 100, generator=stream(seed, "start")) - 1)
    for _ in range(20):  # as the public code steps: against the gradient of the ratio, whose sign is that of the rise
        away = (away - 0.02 * torch.sign(away @ weight.T) * weight.sign()).clamp(-0.1, 0.1)
    lowered = (away @ weight.T).abs().squeeze(1) / away.abs().amax(1)
    return {
        "ascending over exact": local_lipschitz(net, x, Ball("linf", 0.1), seed=seed).mean / exact,
        "descending over exact": float(lowered.mean()) / exact,
    }


def _variants(seed: int) -> Figures:  # noqa: ARG001
    """The pixel maps of Ding et al. 2019 on all 256 grey levels."""
    levels = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    plain = levels.ravel() / 255.0
    saturated = {p: np.asarray(saturate(levels, p), dtype=np.float64).ravel() for p in (1, 2, 4, 16, 256)}
    ends = np.asarray(saturate(levels, np.inf)).ravel()
    far = [np.abs(values - 0.5).mean() for values in saturated.values()]
    return {
        "saturate:2 from the identity": float(np.abs(saturated[2] - plain).max()),
        "levels of saturate:inf": float(len(np.unique(ends))),
        "saturate keeps the order, levels lost": float(sum((np.diff(v) <= 0).sum() for v in saturated.values())),
        "smallest step of mean contrast in p": float(np.diff(far).min()),
        "gamma:1 from the identity": float(np.abs(np.asarray(gamma(levels, 1.0)).ravel() - plain).max()),
        "scale:.9 at white": float(np.asarray(scale(levels, 0.9)).ravel()[-1]),
    }


def _losses(seed: int) -> Figures:
    """The least sum of losses over five margins one of which is not positive, found by a bounded minimizer."""
    start = numpy_stream(seed, "losses").uniform(-1, 0, 5)
    margins = [(-5, 0)] + 4 * [(-5, 40)]
    sums: dict[str, Callable[[np.ndarray], float]] = {
        "logistic": lambda margin: float(np.logaddexp(0, -margin).sum()),
        "exponential": lambda margin: float(np.exp(-margin).sum()),
    }
    return {
        f"least {name} loss with an error": float(minimize(total, start, bounds=margins).fun)
        for name, total in sums.items()
    }


def _near_orthogonality(seed: int) -> Figures:
    """How many random points of the sphere of radius √d the condition n ≤ (d + 1)/(3(max|⟨x_i, x_j⟩| + 1)) allows."""
    figures = {}
    for d in (100, 200, 400, 800):
        x = numpy_stream(seed, "sphere", d).standard_normal((math.isqrt(d), d))
        x *= math.sqrt(d) / np.linalg.norm(x, axis=1, keepdims=True)
        products = np.abs(x @ x.T)[~np.eye(len(x), dtype=bool)]
        figures[f"points allowed, d = {d}"] = float((d + 1) / (3 * (products.max() + 1)))
    return figures


def _uniform(seed: int) -> Figures:
    """The variance of a uniform pixel, from 10⁶ draws."""
    draws = numpy_stream(seed, "uniform").random(1_000_000)
    return {"variance": float(draws.var())}


def _cube_and_ball(seed: int) -> Figures:
    """Distances over √d of uniform pairs in the cube, and in the unit ball, in 3072 dimensions.

    In the cube a squared difference has mean 1/6 and variance 7/180, so distances lie at √(1/6) ± √(7/120/d). In the
    ball both points have length near 1 and are orthogonal: √(2/d).
    """
    d, draw = 3072, numpy_stream(seed, "cube and ball")
    cube = draw.random((400, d)) - draw.random((400, d))
    directions = draw.standard_normal((2, 400, d))
    lengths = draw.random((2, 400, 1)) ** (1 / d) / np.linalg.norm(directions, axis=2, keepdims=True)
    ball = (directions * lengths)[0] - (directions * lengths)[1]
    in_cube, in_ball = (np.linalg.norm(pairs, axis=1) / math.sqrt(d) for pairs in (cube, ball))
    return {
        "mean distance in the cube": float(in_cube.mean()),
        "deviation in the cube, times √d": float(in_cube.std() * math.sqrt(d)),
        "mean distance in the ball": float(in_ball.mean()),
    }


def _architectures(seed: int) -> Figures:
    """Table 2 of Prach & Lampert 2025 counted in the networks that this package builds for it: layers by kind."""
    shapes: dict[str, tuple[str, dict[str, object]]] = {
        "SimpleConvNet": ("simple-convnet", {}),
        "1-Lipschitz ConvNet": ("lipschitz-convnet", {}),
    }
    figures = {}
    for name, (model, arguments) in shapes.items():
        kinds = [
            type(layer).__name__.lower()
            for layer in initialize(
                Architecture(name=model, arguments=arguments, input_shape=(3, 32, 32), classes=tuple("0123456789")),
                seed,
            ).modules()
        ]
        for word in ("relu", "maxmin", "maxpool", "unshuffle", "batchnorm"):
            figures[f"{name}, {word}"] = float(sum(word in kind for kind in kinds))
    return figures


def _lipschitz_networks(seed: int) -> Figures:
    """Proved Lipschitz bounds of untrained networks whose weights were stretched tenfold."""
    figures = {}
    for layer in ("aol", "cpl"):
        architecture = Architecture(
            name="lipschitz-convnet",
            arguments={"width": 8, "depth": 1, "blocks": 2, "layer": layer},
            input_shape=(1, 8, 8),
            classes=tuple("0123456789"),
        )
        model = initialize(architecture, seed)
        draw = stream(seed, "stretch")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=draw)).mul_(10)
        figures[layer] = lipschitz_bound(model, (1, 8, 8)).value
        figures[f"{layer}, greatest weight"] = max(float(weight.detach().abs().max()) for weight in model.parameters())
    return figures


_FORMULAS: dict[str, Callable[[int], Figures]] = {
    "uniform": _uniform,
    "margin-radius": _margin_radius,
    "smoothing": _smoothing,
    "self-normalizing": _self_normalizing,
    "gradient-penalty": _gradient_penalty,
    "lipschitz-estimator": _lipschitz_estimator,
    "variants": _variants,
    "losses": _losses,
    "near-orthogonality": _near_orthogonality,
    "cube-and-ball": _cube_and_ball,
    "architectures": _architectures,
    "lipschitz-networks": _lipschitz_networks,
}
NAMES = tuple(_FORMULAS)


def formula(name: str) -> Callable[[int], Figures]:
    """The formula called ``name``."""
    if name not in _FORMULAS:
        raise unknown_name("formula", name, NAMES)
    return _FORMULAS[name]
