"""The results one can run: name, where it is simulated, what it says, who proved it.

This module imports nothing heavy, so the list appears at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from radii.errors import unknown_name
from radii.studies.citations import cites

if TYPE_CHECKING:
    from collections.abc import Callable

    from radii_papers.theory.result import Result


@dataclass(frozen=True)
class Statement:
    """One result of the papers, which ``radii theory NAME`` runs.

    Args:
        name: as on the command line; the function of :mod:`radii_papers.theory` has this name, its module ``_name``.
        source: paper and theorem.
        takeaway: what one should remember of it, in one sentence; the last line of a run in which it holds.
    """

    name: str
    source: str
    says: str
    takeaway: str

    @property
    def function(self) -> str:
        """The name of its module and function: the name of the result in Python's spelling."""
        return self.name.replace("-", "_")

    def simulation(self) -> Callable[..., Result]:
        """The function that runs this result."""
        return getattr(import_module(f"radii_papers.theory._{self.function}"), self.function)


_PRACH = "Prach & Lampert 2025"
_DING = "Ding et al. 2019"
_VARDI = "Vardi et al. 2022"
_SCHMIDT = "Schmidt et al. 2018"
_BUBECK = "Bubeck et al. 2021"
_SLIDES = "Weinberger 2023 (slides)"

STATEMENTS: dict[str, Statement] = {
    statement.name: statement
    for statement in (
        Statement(
            "no-free-robustness",
            f"{_PRACH}, Theorem 1, Eq. 6 to 11",
            "A robust classifier exists and a linear one is perfectly accurate, yet no learner that sees n points "
            "exceeds 51% robust accuracy on average.",
            "That a robust classifier exists does not mean that any affordable amount of data teaches it: with n "
            "points all learners stay at a coin flip.",
        ),
        Statement(
            "nearest-neighbor-bound",
            f"{_PRACH}, Theorem 2, Eq. 13 to 26",
            "Where an Linf-robust classifier with margin delta exists, 1-NN in the Linf metric reaches 99% robust "
            "accuracy at radius delta/2 from 37 ceil(1/delta)^d points.",
            "Where a robust classifier exists, storing enough points finds one, but enough is exponential in the "
            "dimension.",
        ),
        Statement(
            "r-separation",
            "Yang et al. 2020, separation theorem",
            "On r-separated classes the classifier argmin dist(x, class)/r is 1/r-Lipschitz and has astuteness 1 "
            "below radius r.",
            "Accuracy and robustness do not exclude each other on separated classes: the distance to the classes "
            "gives both up to half the gap.",
        ),
        Statement(
            "half-spaces",
            f"{_DING}, Example 1 and Proposition 2.1",
            "A measure-preserving map leaves the Bayes error at 0 but lifts the robust error of the Bayes classifier "
            "from 2 epsilon to nearly 1.",
            "The same task can be easy or hopeless to solve robustly: it depends on how the inputs are distributed, "
            "not on what their classes mean.",
        ),
        Statement(
            "concentration",
            f"{_DING}, Theorem 2.1 and Example 2",
            "Every set of half the mass of the cube or the ball has almost everything within a small L2 distance.",
            "In many dimensions almost every point of a uniform cube or ball lies near any boundary that halves it; "
            "in the ball the distance even shrinks.",
        ),
        Statement(
            "concentric-spheres",
            f"{_DING}, section D.2.2 and Fig. 6",
            "Separating two concentric spheres robustly is separating two closer spheres: it takes a wider network.",
            "An attacker moves classes closer together, so a robust classifier needs more units than an accurate one.",
        ),
        Statement(
            "facets",
            f"{_DING}, Theorem D.1 (Ball 1997)",
            "A symmetric polytope within distance D of the ball in n dimensions has at least exp(n / 2D^2) facets; "
            "4^n suffice for D = 2.",
            "A ball is expensive for flat pieces: being a little closer to it takes exponentially more of them.",
        ),
        Statement(
            "random-networks",
            f"{_BUBECK}, main theorem",
            "One gradient step of constant length flips the sign of a random two-layer network.",
            "Random two-layer networks are fragile: a step of length about 1 along the gradient flips inputs of "
            "length √d.",
        ),
        Statement(
            "gradient-steps",
            f"{_BUBECK}, main theorem",
            "With Gaussian output weights, too, a step of length sqrt(2 log(1/gamma)) times a constant flips with "
            "probability 1 - gamma, and the gradient hardly changes on the way.",
            "How sure the flip is costs only the root of a logarithm: going from 50% to 98% makes the step three to "
            "four times as long.",
        ),
        Statement(
            "gradient-flow",
            f"{_VARDI}, experiments",
            "Networks trained to loss 1e-30 on points of the sphere are flipped on all of them by one perturbation, "
            "much shorter than the points.",
            "Training to nothing but a small loss leaves one short direction that flips every training point.",
        ),
        Statement(
            "max-margin-bias",
            f"{_VARDI}, main theorem",
            "At a KKT point of the maximum margin problem one perturbation of length of order sqrt(d/n) flips every "
            "training point.",
            "The largest margin in the weights is not a large margin in the inputs: √(d/n) breaks points of length √d.",
        ),
        Statement(
            "robust-network",
            f"{_VARDI}, robust networks exist",
            "For the same points there is a two-layer network whose robust radius is (1 - c)/2 sqrt(d).",
            "A robust network of the same kind exists and is easy to write down; gradient methods just do not go "
            "there.",
        ),
        Statement(
            "gaussian-model",
            f"{_SCHMIDT}, Gaussian model",
            "One sample suffices for accuracy; robust accuracy needs of order epsilon^2 sqrt(d), up to a logarithm.",
            "One point teaches accuracy, robustness takes of order ε²√d: more data is the price, whatever the learner.",
        ),
        Statement(
            "gaussian-branches",
            f"{_SCHMIDT}, Gaussian model, both branches",
            "Up to epsilon = d^(-1/4)/4 one sample gives a robust classifier; beyond it no learner succeeds with fewer "
            "than epsilon^2 sigma^2 / (8 log d) samples.",
            "Small attacks are free and larger ones cost; the change comes where ε is about d^(−1/4).",
        ),
        Statement(
            "bernoulli-model",
            f"{_SCHMIDT}, Bernoulli model",
            "A linear classifier needs of order epsilon^2 d samples to be robust; after taking signs, one.",
            "The right preprocessing can replace any amount of data: signs make one sample enough.",
        ),
        Statement(
            "neighbor-distances",
            f"{_PRACH}, section 12, Eq. 29 to 35 and Fig. 12",
            "The median distance to the nearest of n points lies between (2cn)^(-1/d) and (cn)^(-1/d).",
            "The nearest neighbor comes closer like n^(−1/d): in 28 dimensions a thousand times the data brings it "
            "22% closer.",
        ),
        Statement(
            "euclidean-bound",
            f"{_PRACH}, remark on L2 after the second theorem",
            "Where only an L2-robust classifier exists, 1-NN reaches 99% from 37 ceil(sqrt(d)/(2(delta - radius)))^d "
            "points, of order c^d d^(d/2).",
            "In L2 the cube is far larger than in Linf: covering it costs d^(d/2) more, and no cover and no set of "
            "training points avoids that.",
        ),
        Statement(
            "useful-points",
            f"{_PRACH}, section 12, Eq. 28",
            "Point n is among the k nearest of a test point with probability k/n, so every doubling of the data brings "
            "k ln 2 useful points.",
            "If accuracy comes from near points, each doubling of the data can add only the same amount: a straight "
            "line over log n, whatever the data.",
        ),
        Statement(
            "robust-margin",
            f"{_DING}, section D.2.2 (Xu et al. 2009)",
            "For linear classifiers the adversary's largest sum of hinge losses is the plain sum with the dual norm of "
            "the weights added, and adversarial training finds the largest margin.",
            "For linear classifiers robust training is regularization: it separates with the largest margin, and fails "
            "exactly where the attack is larger than that margin.",
        ),
        Statement(
            "gradient-stability",
            f"{_BUBECK}, Eq. 7 to 10",
            "No step of constant length changes the gradient of a random network by more than order 1/sqrt(d), so the "
            "descent lemma turns one gradient into a flip.",
            "On the way of an adversarial step a wide random network is almost linear, even where the adversary bends "
            "it most.",
        ),
        Statement(
            "class-balance",
            f"{_VARDI}, main theorem, dependence on c",
            "With a share c of the smaller class the universal perturbation is at most of order sqrt(d/(c^2 n)).",
            "Unbalanced classes hardly protect: the perturbation grows by at most a factor 1 + n/d, not by 1/c.",
        ),
        Statement(
            "beyond-separation",
            f"{_VARDI}, experiments and conclusion: n = d, logistic loss, clusters",
            "One short perturbation flips all training points also for n = d, for the logistic loss, and for points in "
            "clusters, where the theorem says nothing.",
            "The bias to fragile networks is no artifact of the theorem's conditions: it is there for as many points "
            "as "
            "dimensions, for either loss, and for clusters.",
        ),
        Statement(
            "error-near-half",
            f"{_SCHMIDT}, Eq. 18 (Bernoulli model, gamma)",
            "A linear classifier from n samples has robust error at least 1/2 - gamma while n is of order "
            "epsilon^2 gamma^2 d, up to logarithms.",
            "There is a threshold: nearly the number of samples that gives 1% robust error gives 49%, so gamma hardly "
            "matters to the mean classifier.",
        ),
        Statement(
            "low-dimensional-data",
            f"{_SLIDES}, open question 1 on Schmidt et al.: data on manifolds",
            "In a subspace of k dimensions robust learning takes of order epsilon^2 sqrt(k) samples, whatever the "
            "dimension of the space.",
            "What counts is the dimension of the data, not of the pixels: the gap between accurate and robust shrinks "
            "with it and does not vanish.",
        ),
        Statement(
            "many-sample-tasks",
            f"{_SLIDES}, open question 2 on Schmidt et al.: tasks that one sample does not solve",
            "Where accuracy takes of order d samples, robust accuracy takes a constant number of times as many.",
            "The dramatic gap between accurate and robust needs a task that one sample solves; on hard tasks "
            "robustness costs a constant factor.",
        ),
        Statement(
            "network-samples",
            f"{_SLIDES}, open question 3 on Schmidt et al. and research proposal 1: networks and their training",
            "No learner is below the least robust error of any classifier; how far above it is depends on the training "
            "more than on the class of functions.",
            "With the same data adversarial training decides more than the network does, and where a linear function "
            "is optimal a network only adds variance.",
        ),
        Statement(
            "euclidean-attacks",
            f"{_SLIDES}, open question 4 on Schmidt et al.: L2 perturbations",
            "Against L2 attacks of length epsilon sqrt(d) robust learning takes of order epsilon^2 sqrt(d) samples; "
            "against attacks of constant length, a constant number.",
            "In L2 the gap is the same at equal length, upper and lower bound meet, and it is gone for attacks that do "
            "not grow with the dimension.",
        ),
        Statement(
            "structured-data",
            f"{_SLIDES}, research proposal 2: clusters and sparse models",
            "One sample is robust on sparse means if its largest coordinates are kept; on clusters robustness costs at "
            "most m ln 2 samples more.",
            "Structure that the learner uses makes robustness cheap; the same structure ignored leaves it as dear as "
            "before.",
        ),
        Statement(
            "network-against-kernel",
            f"{_SLIDES}, research proposal 3: networks against kernels and linear classifiers",
            "On a product of two of d inputs a linear function explains nothing, a rotation invariant kernel n/p with "
            "p "
            "of order d^2, a network almost all from a small multiple of d points.",
            "Networks that learn features need order d points where kernels that do not know the axes need order d^2.",
        ),
        Statement(
            "generalization-measures",
            f"{_SLIDES}, research proposal 4: beyond VC and flatness",
            "Networks of one size that fit all training labels have any test error, and one function can be as flat "
            "and "
            "as sharp as one likes; weights for a margin of 1 rise with the error.",
            "Neither the number of parameters nor flatness says how well a network generalizes; the size of the "
            "weights "
            "for its margin at least ranks it.",
        ),
    )
}


def statement(name: str) -> Statement:
    """The statement called ``name``."""
    if name not in STATEMENTS:
        raise unknown_name("result", name, STATEMENTS)
    return STATEMENTS[name]


def search(words: str) -> tuple[Statement, ...]:
    """The result of that name, or all whose source has these words: ``prach theorem 1``."""
    if words in STATEMENTS:
        return (STATEMENTS[words],)
    return tuple(known for known in STATEMENTS.values() if cites(known.source, words.split()))
