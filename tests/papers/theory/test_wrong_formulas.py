"""A deliberately wrong formula must turn the verdict: these are the papers' own errors and a few of ours."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from radii_papers.theory._uniform_sums import normal_central_mass
from radii_papers.theory.statements import statement

WRONG: list[tuple[str, str, str, Callable[..., Any], dict[str, Any]]] = [
    ("twice the chance of a seen corner", "no-free-robustness", "memorizer_robust_accuracy", lambda n: 0.5156,
     {"n": 16, "precision": 0.001, "trained_functions": 0}),
    ("a linear classifier that loses nothing", "no-free-robustness", "robust_accuracy_bound", lambda n: 0.49,
     {"n": 16, "precision": 0.001, "trained_functions": 0}),
    ("|B|/(ne) without its worst case", "nearest-neighbor-bound", "robust_accuracy_bound",
     lambda n, boxes: 1 - boxes / (n * math.e**2), {"d": 4, "delta": 0.49, "radius": 0.24, "tests": 1000}),
    ("atoms that are seen with certainty", "nearest-neighbor-bound", "rare_atoms_robust_accuracy", lambda n, count: 1.0,
     {"d": 4, "delta": 0.49, "radius": 0.24, "tests": 1000}),
    ("variance 1/4 instead of 1/12 in the limit", "half-spaces", "normal_central_mass",
     lambda reach, d: normal_central_mass(reach, d, 1 / 4), {"d": (100,), "samples": 2000}),
    ("a bound that Chebyshev does not give", "half-spaces", "chebyshev_bound",
     lambda d, epsilon, variance=1 / 12: 1 - variance / (10 * d * epsilon**2), {"d": (10,), "epsilon": 0.2}),
    ("(1 − ε²/4)^2d on the ball", "concentration", "ball_bound",
     lambda epsilon, mass, d: 1 - (1 - epsilon**2 / 4) ** (2 * d) / mass, {"d": 20, "samples": 2000}),
    ("√(4π) instead of √(2π) on the cube", "concentration", "cube_bound",
     lambda epsilon, mass: float(norm.cdf(epsilon * math.sqrt(4 * math.pi) + norm.ppf(mass))), {"d": 20}),
    ("4n facets are enough for D = 2", "facets", "facet_bound", lambda n, distance: math.exp(2 * n / distance**2),
     {"largest": 3}),
    ("E σ² and E σ'² exchanged", "random-networks", "moments", lambda activation: (0.4645, 0.3943),
     {"d": (100,), "k": (100,), "activations": ("tanh",)}),
    ("a length without the half of γ", "gradient-steps", "flip_length",
     lambda gamma, activation: float(norm.ppf(1 - gamma)) * 0.92,
     {"d": 100, "k": 100, "activations": ("tanh",), "gamma": (0.1,), "networks": 100}),
    ("a gradient that changes by t/d", "gradient-steps", "gradient_change", lambda length, d, activation: length / d,
     {"d": 100, "k": 100, "activations": ("tanh",), "gamma": (0.1,), "networks": 100}),
    ("a first branch that ends at ½ d^(−1/4)", "gaussian-branches", "branch_end", lambda d: 0.5 * d**-0.25,
     {"d": (10_000,), "far": (1e8,), "draws": 8}),
    ("|δ| = √d/n", "max-margin-bias", "perturbation_length", lambda d, n: math.sqrt(d) / n,
     {"d": (30, 60), "width": 20}),
    ("(1 − 1/d)^½ instead of (1 − 1/d)·½", "gaussian-model", "lower_bound_error", lambda d: math.sqrt(1 - 1 / d),
     {"d": (10_000,), "epsilon": (0.1,), "draws": 1}),
    ("n without its constant c²", "gaussian-model", "samples_needed",
     lambda d, c, epsilon: epsilon**2 * math.sqrt(d), {"d": (10_000,), "epsilon": (0.25,), "draws": 1}),
    ("the Bernoulli law without ε²", "bernoulli-model", "asymptotic_samples",
     lambda d, c, epsilon: d / (8 * math.pi * c**4), {"d": (10_000,)}),
    ("boxes of side s, whose diameter in L2 is s√d", "euclidean-bound", "log_boxes",
     lambda dimension, reach: dimension * math.log(math.ceil(1 / reach)),
     {"d": (2,), "training_sets": 4, "tests": 200}),
    ("a ball without its Gamma function", "euclidean-bound", "log_ball",
     lambda dimension, radius: dimension * math.log(radius), {"d": (3,), "training_sets": 4, "tests": 200}),
    ("every point useful with probability 1/n, whatever k", "useful-points", "useful",
     lambda k, before, after: sum(1 / i for i in range(before + 1, after + 1)),
     {"n": 128, "k": (3,), "training_sets": 60}),
    ("the norm of the weights instead of its dual", "robust-margin", "own_budgets",
     lambda x, y, w, b, epsilon: float(np.maximum(0, 1 - y * (x @ w + b) + epsilon * np.linalg.norm(w)).sum()),
     {"n": 20, "d": 3, "classifiers": 5}),
    ("a shared budget for each point", "robust-margin", "shared_budget",
     lambda x, y, w, b, budget: float(np.maximum(0, 1 - y * (x @ w + b)).sum() + len(y) * budget * np.abs(w).sum()),
     {"n": 20, "d": 3, "classifiers": 5}),
    ("a bound of the change without |W|²", "gradient-stability", "change_bound",
     lambda radius, spectral, k: radius / k, {"d": (100, 200), "networks": 8}),
    ("a lemma in which the gradient does not change", "gradient-stability", "lemma_bound",
     lambda f, slope, eta, change: f - 2 * eta * slope * slope, {"d": (100, 200), "networks": 8}),
    ("a length that falls with the balance", "class-balance", "unbalanced_length",
     lambda d, positive, negative: 2 * min(positive, negative) / (positive + negative) * math.sqrt(
         d / (positive + negative)), {"d": 64, "n": 16, "shares": (0.25,), "width": 40}),
    ("Eq. 18 without ε²", "error-near-half", "samples_at", lambda gamma, d, c, epsilon: gamma**2 * d / 1e3,
     {"gammas": (0.45,), "draws": 3}),
    ("the dimension of the space instead of the data", "low-dimensional-data", "samples_on_subspace",
     lambda k, c, epsilon: 0.36 * math.sqrt(10 * k) * epsilon**2, {"d": (2000,), "k": (200, 400), "draws": 20}),
    ("a price that grows like √d", "many-sample-tasks", "price",
     lambda d, sigma, epsilon: epsilon**2 * math.sqrt(d), {"d": (10_000, 20_000), "noise": (0.2,), "draws": 8}),
    ("an attack that costs nothing", "network-samples", "best_error", lambda theta, sigma, epsilon: 0.3,
     {"d": 50, "n": (16, 64), "width": 20, "seeds": 2}),
    ("an L2 attack of twice its length", "euclidean-attacks", "hopeless_samples",
     lambda d, c, rho: c * c * math.sqrt(d) / (d / (2 * rho) ** 2 - 1), {"d": (10_000,)}),
    ("(1 − 1/m)^2n", "structured-data", "unseen", lambda n, clusters: (1 - 1 / clusters) ** (2 * n),
     {"d": 10_000, "s": (10,), "clusters": 16, "draws": 60}),
    ("one direction of d² instead of d(d + 1)/2 − 1", "network-against-kernel", "directions", lambda d: d * d,
     {"d": 20, "n": (160,), "seeds": 4}),
    ("sharpness that the factor does not change", "generalization-measures", "scaled_trace",
     lambda traces, alpha: sum(traces),
     {"n": 40, "d": 8, "noise": (0.0, 0.5, 1.0), "alphas": (3.0,), "width": 40}),
    ("Eq. 35 as printed", "neighbor-distances", "linear_bracket",
     lambda n, d: (1 - math.log(n) / d, 1 - math.log(2 * n) / d), {"n": 1000, "queries": 50}),
    ("a median that forgets log 2", "neighbor-distances", "exact_median", lambda n, d: (1 / n) ** (1 / d),
     {"n": 1000, "queries": 50}),
]  # fmt: skip


@pytest.mark.parametrize(("why", "name", "formula", "wrong", "parameters"), WRONG, ids=[case[0] for case in WRONG])
def test_a_wrong_formula_is_caught(
    why: str, name: str, formula: str, wrong: Callable, parameters: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate = statement(name).simulation()
    assert simulate(**parameters).holds
    monkeypatch.setattr(import_module(simulate.__module__), formula, wrong)
    assert simulate(**parameters).verdict == "fails", why


def test_a_classifier_that_is_not_the_distance_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from radii_papers.theory import _r_separation as r_separation

    right = r_separation.distance_scores
    parameters = {"per_class": 10, "d": 10, "trials": 3}
    monkeypatch.setattr(
        r_separation, "distance_scores", lambda x, data, labels, r, norm: right(x, data, labels, 2 * r, norm)
    )
    assert r_separation.r_separation(**parameters).verdict == "fails"


def test_a_network_that_is_not_robust_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from radii_papers.theory import _robust_network as robust_network

    right = robust_network.robust_two_layer

    def boastful(x, y):  # type: ignore[no-untyped-def]
        network, radius = right(x, y)
        return network, 1.5 * radius

    monkeypatch.setattr(robust_network, "robust_two_layer", boastful)
    assert robust_network.robust_network(d=(50, 100), restarts=2).verdict == "fails"
