"""For linear classifiers adversarial training is regularization by the dual norm, and its limit is the largest margin.

For f(x) = ⟨w, x⟩ + b and the hinge loss h(z) = max(0, 1 − z), an Linf attacker of radius ε lowers y f(x) by ε|w|₁:

- each point its own ε:        Σ max h(y_i f(x_i + δ_i)) = Σ h(y_i f(x_i) − ε|w|₁);
- one budget Σ|δ_i| ≤ c:       max Σ h(y_i f(x_i + δ_i)) = Σ h(y_i f(x_i)) + c|w|₁,

the second whenever some point has y f(x) ≤ 1, as every w has on data that no plane separates: the sum is convex in
the budgets, so its maximum spends all on one point (Xu et al. 2009, which Ding et al. 2019 quote in D.2.2). On
separable data with margin γ, half the Linf distance of the two convex hulls, adversarial training has loss 0 exactly
for ε < γ, loss at least 2 beyond (hull points closer than 2ε bound the slacks), and its shortest solution has
|w|₁ = 1/(γ − ε): the classifier of the largest margin, at every ε.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import linprog

from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.synthetic import Labels, Points, balanced_signs, corners
from radii_papers.theory._lines import ResultRow, assume, assume_positive, at_least, at_most, equals
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

Vector = NDArray[np.float64]
EXACT = 1e-9  # sums of float64
SOLVED = 1e-6  # what the solver of linear programs promises
GAP = 0.4  # the classes of the separable data are moved apart by so much in the first coordinate
SHARES = (0.25, 0.5, 0.75, 0.9)  # of the margin, as radii of adversarial training


def hinge(margins: Vector) -> Vector:
    """max(0, 1 − z)."""
    return np.maximum(0, 1 - margins)


def shared_budget(x: Points, y: Labels, w: Vector, b: float, budget: float) -> float:
    """Σ h(y f(x)) + c|w|₁: what a budget c that all points share adds."""
    return float(hinge(y * (x @ w + b)).sum() + budget * np.abs(w).sum())


def own_budgets(x: Points, y: Labels, w: Vector, b: float, epsilon: float) -> float:
    """Σ h(y f(x) − ε|w|₁): what a radius ε for each point does."""
    return float(hinge(y * (x @ w + b) - epsilon * np.abs(w).sum()).sum())


def _searched(x: Points, y: Labels, w: Vector, b: float, size: float) -> Vector:
    """The loss of every point (rows) moved to every corner of its Linf ball of radius ``size``: [n, 2^d]."""
    moved = x[:, None, :] + size * corners(x.shape[1])[None, :, :]
    return hinge(y[:, None] * (moved @ w + b))


@dataclass(frozen=True)
class Separator:
    """A solution of a linear program over (w, b); ``value`` is its objective."""

    w: Vector
    b: float
    value: float


def _program(x: Points, y: Labels, epsilon: float, slack: bool) -> Separator:
    """Minimize Σξ (``slack``) or |w|₁ under y f(x) − ε|w|₁ ≥ 1 − ξ, ξ ≥ 0; without slack ξ = 0.

    The variables are w⁺, w⁻, b⁺, b⁻ and ξ, all at least 0.
    """
    n, d = x.shape
    signed = y[:, None] * x
    left = np.hstack([signed - epsilon, -signed - epsilon, y[:, None], -y[:, None], np.eye(n) * slack])
    cost = np.concatenate([np.full(2 * d, 0.0 if slack else 1.0), [0.0, 0.0], np.full(n, float(slack))])
    solved = linprog(cost, -left, np.full(n, -1.0), method="highs")
    values = solved.x
    return Separator(values[:d] - values[d : 2 * d], float(values[2 * d] - values[2 * d + 1]), float(solved.fun))


def largest_margin(x: Points, y: Labels) -> float:
    """γ = max min y f(x) over |w|₁ = 1: one over the least |w|₁ with y f(x) ≥ 1."""
    return 1 / _program(x, y, 0.0, slack=False).value


def hull_distance(x: Points, y: Labels) -> float:
    """The Linf distance of the convex hulls of the classes, by the linear program over their weights."""
    d = x.shape[1]
    signed = np.where(y > 0, 1.0, -1.0)[:, None] * x
    upper = np.hstack([np.vstack([signed.T, -signed.T]), -np.ones((2 * d, 1))])
    sums = np.vstack([np.append(y > 0, 0.0), np.append(y < 0, 0.0)])
    return float(linprog(np.append(np.zeros(len(x)), 1.0), upper, np.zeros(2 * d), sums, [1.0, 1.0]).fun)


def _data(n: int, d: int, separable: bool, draw: Generator) -> tuple[Points, Labels]:
    x, y = draw.standard_normal((n, d)), balanced_signs(n, draw)
    x[:, 0] = np.abs(x[:, 0]) * y + GAP * y if separable else x[:, 0] + GAP * y
    return x, y


@theorem("robust-margin")
def robust_margin(
    n: Annotated[int, "points"] = 40,
    d: Annotated[int, "dimension, at most 10: every corner of the attacker's ball is tried"] = 5,
    budget: Annotated[float, "c, what the attacker may spend on all points together"] = 0.7,
    classifiers: Annotated[int, "random linear classifiers on which both sums are compared"] = 50,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Worst-case sums by trying every corner against their closed forms; training programs against the margin."""
    assume(1 <= d <= 10, "d must lie between 1 and 10", d)
    assume(n >= 4, "Two classes need n of at least 4", n)
    assume_positive(budget=budget, classifiers=classifiers)
    draw = numpy_stream(seed, "robust-margin")
    mixed, apart = _data(n, d, False, draw), _data(n, d, True, draw)
    rows = _sum_rows(*mixed, budget, classifiers, draw)
    far = _program(*apart, 0.0, slack=False)
    w, b = 2 * far.w, 2 * far.b  # every margin is at least 2
    gain = budget / (2 * float(np.abs(w).sum()))
    worst = _searched(*apart, w, b, gain).max()
    rows.append(at_most("separable data, all margins ≥ 2: a small budget adds", worst, 0, EXACT))
    lines, picture = _margin_rows(*apart)
    title = "Shortest solution of adversarial training on separable data"
    return Simulation((*rows, *lines), chart(title, "radius over the margin", "|w|₁ times the margin", picture))


def _sum_rows(x: Points, y: Labels, budget: float, classifiers: int, draw: Generator) -> list[ResultRow]:
    """Both identities at random classifiers; the searched maximum of the second spends the budget on one point."""
    own, shared = [], []
    for _ in range(classifiers):
        w = np.asarray(draw.standard_normal(x.shape[1]))
        b = float(draw.standard_normal())
        now = hinge(y * (x @ w + b))
        corner = _searched(x, y, w, b, budget).max(1)
        own.append(abs(corner.sum() - own_budgets(x, y, w, b, budget)))
        shared.append(abs(now.sum() + (corner - now).max() - shared_budget(x, y, w, b, budget)))
    least = _program(x, y, 0.0, slack=True).value
    return [
        at_least("no plane separates the data: least sum of hinge losses", least, 0.1),
        at_most("a radius for each point: searched less h(y f − ε|w|₁)", max(own), 0, EXACT * len(x)),
        at_most("one budget for all: searched less Σh + c|w|₁", max(shared), 0, EXACT * len(x)),
    ]


def _margin_rows(x: Points, y: Labels) -> tuple[list[ResultRow], list[Row]]:
    """Adversarial training on separable data: zero loss up to the margin, the largest margin at every radius."""
    margin = largest_margin(x, y)
    rows = [
        equals("separable data: margin over half the distance of the hulls", 2 * margin / hull_distance(x, y), 1,
               SOLVED),
        at_most("loss of adversarial training at .99 margin", _program(x, y, 0.99 * margin, slack=True).value, 0,
                SOLVED),
        at_least("loss of adversarial training at 1.01 margin", _program(x, y, 1.01 * margin, slack=True).value, 2,
                 SOLVED),
    ]  # fmt: skip
    picture: list[Row] = []
    for share in SHARES:
        robust = _program(x, y, share * margin, slack=False)
        size, least = np.abs(robust.w).sum(), (y * (x @ robust.w + robust.b)).min()
        rows += [
            equals(f"radius {share:g} of the margin: |w|₁ (γ − ε)", size * margin * (1 - share), 1, SOLVED),
            equals(f"radius {share:g} of the margin: margin of the solution over the largest", least / size / margin, 1,
                   SOLVED),
        ]  # fmt: skip
        picture.append(measured(share, size * margin, "trained"))
    picture += [predicted(float(share), 1 / (1 - float(share)), "1/(1 − ε/γ)") for share in np.linspace(0, 0.92, 47)]
    return rows, picture
