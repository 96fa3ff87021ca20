"""No Free Robustness: random functions on the hypercube, with a small coordinate that gives them away.

For n points the dimension is d = ⌈log2 n⌉ + 7. The first d − 1 coordinates
are a uniform corner c of {±1}^(d−1), the last is δφ(c), and y = φ(c) for a
uniform function φ. A perturbation of length δ erases the last coordinate;
what is left is a function that n points do not determine
(Prach & Lampert 2025, Theorem 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from radii import progress
from radii.randomness import numpy_stream, stream
from radii.tables import ChartSpec
from radii_papers.synthetic import corners, random_function
from radii_papers.theory._lines import SIGMAS, ResultRow, assume, at_most, equals, reports, standard_error
from radii_papers.theory._shallow import fit, shallow_network
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem

Signs = NDArray[np.int8]


def dimension(n: int) -> int:
    """d = ⌈log2 n⌉ + 7, in integers."""
    return (n - 1).bit_length() + 7


def memorizer_robust_accuracy(n: int) -> float:
    """½ + ½(1 − (1 − 2^(1−d))^n): right on the corners it has seen, a coin on the others."""
    return 1 - 0.5 * (1 - 2.0 ** (1 - dimension(n))) ** n


def robust_accuracy_bound(n: int) -> float:
    """½ + n/2^d, below 51%: no learner does better on average over φ."""
    return 0.5 + n / 2 ** dimension(n)


@dataclass(frozen=True)
class Problem:
    """One function φ (its values on all corners) and the corners that were drawn for training."""

    phi: Signs
    drawn: NDArray[np.int64]
    delta: float

    @property
    def bits(self) -> int:
        """d − 1."""
        return len(self.phi).bit_length() - 1

    @property
    def labels(self) -> Signs:
        """Labels of the training points: [n]."""
        return self.phi[self.drawn]

    def points(self, rows: NDArray[np.int64] | slice, attacked: bool = False) -> NDArray[np.float32]:
        """Inputs [rows, d]; ``attacked`` ones have their last coordinate moved to 0, a distance of δ."""
        last = np.zeros_like(self.phi) if attacked else self.phi
        return np.column_stack([corners(self.bits)[rows], self.delta * last[rows]]).astype(np.float32)


Accuracies = tuple[float, float]
Learner = Callable[[Problem, Generator], Accuracies]


def _accuracies(problem: Problem, score: Callable[[NDArray[np.float32]], NDArray]) -> Accuracies:
    """Clean accuracy and accuracy with the last coordinate erased, over all corners; a score of 0 is an error."""
    every = slice(None)
    clean = score(problem.points(every)) * problem.phi > 0
    erased = score(problem.points(every, attacked=True)) * problem.phi > 0
    return float(clean.mean()), float((clean & erased).mean())


def _oracle(problem: Problem, generator: Generator) -> Accuracies:
    """φ(sign x): knows φ. Attacked at distance .999 by moving a random coordinate almost to 0."""
    x = problem.points(slice(None))
    moved = x.copy()
    moved[np.arange(len(x)), generator.integers(0, problem.bits, len(x))] *= np.float32(0.001)
    weights = 1 << np.arange(problem.bits)
    seen, attacked = ((points[:, :-1] > 0) @ weights for points in (x, moved))
    clean = problem.phi[seen] == problem.phi
    return float(clean.mean()), float((clean & (problem.phi[attacked] == problem.phi)).mean())


def _last_coordinate(problem: Problem, generator: Generator) -> Accuracies:  # noqa: ARG001
    """sign(x_d): the linear classifier of the theorem."""
    return _accuracies(problem, lambda x: x[:, -1])


def _memorizer(problem: Problem, generator: Generator) -> Accuracies:  # noqa: ARG001
    """The label of a corner it has seen, +1 on any other; does not look at x_d."""
    answer = np.ones_like(problem.phi)
    answer[problem.drawn] = problem.labels
    accuracy = float((answer == problem.phi).mean())
    return accuracy, accuracy


def nearest_neighbor(problem: Problem, generator: Generator) -> Accuracies:  # noqa: ARG001
    """1-NN in L2 over all corners, exactly, by breadth-first search from the training corners.

    All training points nearest to an unreached corner are those of its
    neighbors reached in the step before, so the lowest of their numbers and
    the set of their labels propagate. With x_d erased the nearest in Hamming
    distance wins (the lowest number breaks ties); with x_d = ±δ, δ < 1, a tie
    goes to a point of the same label if there is one.
    """
    first = np.full(len(problem.phi), len(problem.drawn), dtype=np.int64)
    np.minimum.at(first, problem.drawn, np.arange(len(problem.drawn)))
    labels = np.zeros(len(problem.phi), dtype=np.uint8)  # bit 1: a nearest point is −1, bit 2: one is +1
    labels[problem.drawn] = np.where(problem.labels > 0, 2, 1)
    flips = 1 << np.arange(problem.bits)
    while len(unreached := np.flatnonzero(labels == 0)):
        neighbors = unreached[:, None] ^ flips
        first[unreached] = first[neighbors].min(1)
        labels[unreached] = np.bitwise_or.reduce(labels[neighbors], 1)
    clean = (labels & np.where(problem.phi > 0, 2, 1)) > 0
    robust = problem.labels[first] == problem.phi
    return float(clean.mean()), float((clean & robust).mean())


def _logistic_regression(problem: Problem, generator: Generator) -> Accuracies:  # noqa: ARG001
    """Nearly unregularized logistic regression."""
    from sklearn.linear_model import LogisticRegression

    if len(set(problem.labels.tolist())) == 1:  # one class drawn: the constant classifier
        return _accuracies(problem, lambda x: np.full(len(x), float(problem.labels[0])))
    model = LogisticRegression(C=1e4, max_iter=1000).fit(problem.points(problem.drawn), problem.labels)
    return _accuracies(problem, model.decision_function)


def network(problem: Problem, generator: Generator, radius: float = 0.0) -> Accuracies:
    """A one-hidden-layer ReLU network, adversarially trained for ``radius`` > 0.

    Args:
        radius: L2 radius of the training attack; default 0: none.
    """
    net = shallow_network(problem.bits + 1, 256, stream(int(generator.integers(1 << 62)), "weights"))
    batch = torch.from_numpy(problem.points(problem.drawn)), torch.from_numpy(problem.labels).float()
    fit(net, lambda step: batch, steps=200, lr=0.01, radius=radius)  # noqa: ARG005
    with torch.no_grad():
        return _accuracies(problem, lambda x: net(torch.from_numpy(x)).numpy())


def _adversarial_network(problem: Problem, generator: Generator) -> Accuracies:
    """The same network trained against perturbations of length δ."""
    return network(problem, generator, radius=problem.delta)


CHEAP: dict[str, Learner] = {
    "oracle": _oracle,
    "sign of x_d": _last_coordinate,
    "memorizer": _memorizer,
    "1-NN": nearest_neighbor,
}
TRAINED: dict[str, Learner] = {
    "logistic regression": _logistic_regression,
    "network": network,
    "adversarial network": _adversarial_network,
}


@theorem("no-free-robustness")
def no_free_robustness(
    n: Annotated[int, "training points; the dimension is ceil(log2 n) + 7"] = 1024,
    delta: Annotated[float, "size of the last coordinate and length of the attack"] = 0.1,
    precision: Annotated[float, "standard error to which averages over functions are taken"] = 0.0005,
    trained_functions: Annotated[int, "functions on which the trained learners are averaged; 0 leaves them out"] = 2,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Clean and robust accuracy over all corners, averaged over functions, against the 51% bound.

    One function scatters by ½ 2^(−(d−1)/2), so its number follows from the wanted ``precision``.
    """
    assume(2 <= n <= 1 << 15, "All 2^(d−1) corners are visited, so n must lie in 2..32768", n)
    assume(0 < delta < 1, "Theorem 1 needs 0 < delta < 1, or the oracle is not robust either", f"delta = {delta:g}")
    assume(precision > 0, "precision must be positive", precision)
    assume(trained_functions >= 0, "trained_functions must be at least 0", trained_functions)
    bits = dimension(n) - 1
    functions = max(8, math.ceil(0.25 / 2**bits / precision**2))
    scores: dict[str, list[Accuracies]] = {name: [] for name in CHEAP | (TRAINED if trained_functions else {})}
    with progress.task("functions", functions) as task:
        for number in range(functions):
            draw = numpy_stream(seed, "no-free-robustness", number)
            problem = Problem(random_function(bits, draw), draw.integers(0, 1 << bits, n), delta)
            for name, learner in (CHEAP | TRAINED if number < trained_functions else CHEAP).items():
                scores[name].append(learner(problem, draw))
            task.advance()
    averages = {name: np.mean(values, 0) for name, values in scores.items()}
    one_function = 0.5 / 2 ** (bits / 2)
    return Simulation(tuple(_table(n, scores, one_function)), _chart(n, averages))


def _table(n: int, scores: dict[str, list[Accuracies]], one_function: float) -> list[ResultRow]:
    exact, bound = memorizer_robust_accuracy(n), robust_accuracy_bound(n)
    rows = []
    for name, values in scores.items():
        clean, robust = np.mean(values, 0)
        if name == "oracle":
            rows += [equals("oracle, clean", clean, 1, 0), equals("oracle, robust at .999", robust, 1, 0)]
        elif name == "sign of x_d":
            rows += [equals(f"{name}, clean", clean, 1, 0), equals(f"{name}, robust", robust, 0, 0)]
        else:
            spread = max(standard_error([value for _, value in values]) if len(values) >= 8 else 0.0,
                         one_function / math.sqrt(len(values)))  # fmt: skip
            rows.append(reports(f"{name}, clean", clean))
            if name in CHEAP:
                rows.append(equals(f"{name}, robust", robust, exact, SIGMAS * spread))
            rows.append(at_most(f"{name}, robust", robust, bound, SIGMAS * spread))
    return rows


def _chart(n: int, averages: dict[str, NDArray]) -> ChartSpec:
    bars = [
        measured(name, value, which)
        for name, pair in averages.items()
        for which, value in zip(("clean", "robust"), pair, strict=True)
    ]
    bound = predicted("1-NN", robust_accuracy_bound(n), "bound for learners")
    return chart(f"No free robustness: n = {n}, d = {dimension(n)}", "learner", "accuracy", (*bars, bound))
