"""Parameters at which each theorem still bites but takes about a second."""

from __future__ import annotations

from typing import Any

import pytest

SMALL: dict[str, dict[str, Any]] = {
    "no-free-robustness": {"n": 16, "precision": 0.002, "trained_functions": 1},
    "nearest-neighbor-bound": {"d": 2, "training_sets": 12, "tests": 500},
    "r-separation": {"per_class": 15, "d": 20, "trials": 5},
    "half-spaces": {"d": (10, 100), "samples": 5000},
    "concentration": {"d": 100, "samples": 10_000},
    "concentric-spheres": {"widths": (4, 64), "steps": 60, "tests": 500},
    "facets": {"largest": 4},
    "random-networks": {"d": (100,), "k": (100,), "networks": 40, "activations": ("tanh", "relu")},
    "gradient-steps": {"d": 100, "k": 100, "activations": ("tanh",), "gamma": (0.5, 0.1), "networks": 100},
    "gradient-flow": {"d": (50, 100, 200), "width": 60, "networks": 4},
    "max-margin-bias": {"d": (30, 60), "width": 20},
    "robust-network": {"d": (50, 200), "restarts": 3},
    "gaussian-model": {"d": (10_000,), "epsilon": (0.25,), "draws": 2},
    "gaussian-branches": {"d": (10_000,), "far": (1e8,), "draws": 8},
    "bernoulli-model": {"d": (10_000, 100_000)},
    "euclidean-bound": {"d": (2, 3), "training_sets": 4, "tests": 300},
    "useful-points": {"n": 128, "k": (1, 3), "training_sets": 60},
    "robust-margin": {"n": 20, "d": 3, "classifiers": 10},
    "gradient-stability": {"d": (100, 200), "networks": 8},
    "class-balance": {"d": 64, "n": 16, "shares": (0.5, 0.125), "width": 40},
    "beyond-separation": {"d": (100, 150), "width": 60, "networks": 2},
    "error-near-half": {"gammas": (0.45,), "draws": 3},
    "low-dimensional-data": {"d": (2000,), "k": (200, 400), "draws": 60},
    "many-sample-tasks": {"d": (10_000, 20_000), "noise": (0.2,), "draws": 16},
    "network-samples": {"d": 50, "n": (16, 64), "width": 20, "seeds": 2},
    "euclidean-attacks": {"d": (10_000,), "draws": 6},
    "structured-data": {"d": 10_000, "s": (10,), "clusters": 16, "draws": 60},
    "network-against-kernel": {"d": 20, "n": (40, 160), "seeds": 4},
    "generalization-measures": {"n": 40, "d": 8, "noise": (0.0, 0.5, 1.0), "alphas": (0.1, 3.0), "width": 40},
    "neighbor-distances": {"n": 5000, "queries": 100},
}


@pytest.fixture
def small() -> dict[str, dict[str, Any]]:
    """Quick parameters by result."""
    return SMALL
