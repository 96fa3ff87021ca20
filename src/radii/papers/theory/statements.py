"""The results one can run: name, where it is simulated, what it says, who proved it.

This module imports nothing heavy, so the list appears at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from radii.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from radii.papers.theory.result import Result


@dataclass(frozen=True)
class Statement:
    """One result of the papers, which ``radii theory NAME`` runs.

    Args:
        name: as on the command line; the module of :mod:`radii.papers.theory` and its function have the same name.
        source: paper and theorem.
        says: the statement in a sentence.
    """

    name: str
    source: str
    says: str

    @property
    def function(self) -> str:
        """The name of its module and function: the name of the result in Python's spelling."""
        return self.name.replace("-", "_")

    def simulation(self) -> Callable[..., Result]:
        """The function that runs this result."""
        return getattr(import_module(f"radii.papers.theory.{self.function}"), self.function)


_PRACH = "Prach & Lampert 2025"
_DING = "Ding et al. 2019"
_VARDI = "Vardi et al. 2022"
_SCHMIDT = "Schmidt et al. 2018"

STATEMENTS: dict[str, Statement] = {
    statement.name: statement
    for statement in (
        Statement(
            "no-free-robustness",
            f"{_PRACH}, Theorem 1",
            "A robust classifier exists and a linear one is perfectly accurate, yet no learner that sees n points "
            "exceeds 51% robust accuracy on average.",
        ),
        Statement(
            "nearest-neighbor-bound",
            f"{_PRACH}, Theorem 2",
            "Where an Linf-robust classifier with margin delta exists, 1-NN in the Linf metric reaches 99% robust "
            "accuracy at radius delta/2 from 37 ceil(1/delta)^d points.",
        ),
        Statement(
            "r-separation",
            "Yang et al. 2020, separation theorem",
            "On r-separated classes the classifier argmin dist(x, class)/r is 1/r-Lipschitz and has astuteness 1 "
            "below radius r.",
        ),
        Statement(
            "half-spaces",
            f"{_DING}, Example 1 and Proposition 2.1",
            "A measure-preserving map leaves the Bayes error at 0 but lifts the robust error of the Bayes classifier "
            "from 2 epsilon to nearly 1.",
        ),
        Statement(
            "concentration",
            f"{_DING}, Theorem 2.1 and Example 2",
            "Every set of half the mass of the cube or the ball has almost everything within a small L2 distance.",
        ),
        Statement(
            "concentric-spheres",
            f"{_DING}, section D.2.2",
            "Separating two concentric spheres robustly is separating two closer spheres: it takes a wider network.",
        ),
        Statement(
            "facets",
            f"{_DING}, Theorem D.1 (Ball 1997)",
            "A symmetric polytope within distance D of the ball in n dimensions has at least exp(n / 2D^2) facets; "
            "4^n suffice for D = 2.",
        ),
        Statement(
            "random-networks",
            "Bubeck et al. 2021, main theorem",
            "One gradient step of constant length flips the sign of a random two-layer network.",
        ),
        Statement(
            "gradient-steps",
            "Bubeck et al. 2021, main theorem",
            "With Gaussian output weights, too, a step of length sqrt(2 log(1/gamma)) times a constant flips with "
            "probability 1 - gamma, and the gradient hardly changes on the way.",
        ),
        Statement(
            "gradient-flow",
            f"{_VARDI}, experiments",
            "Networks trained to loss 1e-30 on points of the sphere are flipped on all of them by one perturbation, "
            "much shorter than the points.",
        ),
        Statement(
            "max-margin-bias",
            f"{_VARDI}, main theorem",
            "At a KKT point of the maximum margin problem one perturbation of length of order sqrt(d/n) flips every "
            "training point.",
        ),
        Statement(
            "robust-network",
            f"{_VARDI}, robust networks exist",
            "For the same points there is a two-layer network whose robust radius is (1 - c)/2 sqrt(d).",
        ),
        Statement(
            "gaussian-model",
            f"{_SCHMIDT}, Gaussian model",
            "One sample suffices for accuracy; robust accuracy needs of order epsilon^2 sqrt(d), up to a logarithm.",
        ),
        Statement(
            "gaussian-branches",
            f"{_SCHMIDT}, Gaussian model, both branches",
            "Up to epsilon = d^(-1/4)/4 one sample gives a robust classifier; beyond it no learner succeeds with fewer "
            "than epsilon^2 sigma^2 / (8 log d) samples.",
        ),
        Statement(
            "bernoulli-model",
            f"{_SCHMIDT}, Bernoulli model",
            "A linear classifier needs of order epsilon^2 d samples to be robust; after taking signs, one.",
        ),
        Statement(
            "neighbor-distances",
            f"{_PRACH}, section 12",
            "The median distance to the nearest of n points lies between (2cn)^(-1/d) and (cn)^(-1/d).",
        ),
    )
}


def statement(name: str) -> Statement:
    """The statement called ``name``."""
    if name not in STATEMENTS:
        raise unknown_name("result", name, STATEMENTS)
    return STATEMENTS[name]
