"""How the universal perturbation depends on the balance of the classes: hardly, far less than the bound 1/c allows.

For n₊ and n₋ orthogonal points of length √d the maximum margin network has one positive neuron along the sum of the
positive points and one negative neuron along the other sum, with biases that the inputs' constant 1 brings. Their
heights α₊, α₋ make all margins 1,

    α₊(d + n₊) − α₋n₋ = 1,   α₋(d + n₋) − α₊n₊ = 1,

and x_i − y_i η Σ y_j x_j crosses zero for both classes at η = 1/(d(α₊n₊ + α₋n₋)), so the perturbation's length is
√(nd)/(d(α₊n₊ + α₋n₋)). With c = min(n₊, n₋)/n this is √(d/n) at c = ½ and grows to at most (1 + n/d) times that,
while the theorem (Vardi et al. 2022) allows √(d/(c²n)).
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from radii import progress
from radii.randomness import numpy_stream
from radii.tables import Row
from radii_papers.synthetic import orthogonal
from radii_papers.theory._lines import ResultRow, assume, assume_positive, at_least, at_most, equals
from radii_papers.theory._max_margin import (
    initial_network,
    kkt_point,
    label_direction,
    perturbation_length,
    train,
    universal_perturbation,
)
from radii_papers.theory.result import Simulation, chart, measured, predicted, theorem


def unbalanced_length(d: int, positive: int, negative: int) -> float:
    """√(nd)/(d(α₊n₊ + α₋n₋)): the length of the universal perturbation of the maximum margin network."""
    sides = np.array([[d + positive, -negative], [-positive, d + negative]], dtype=np.float64)
    up, down = np.linalg.solve(sides, [1.0, 1.0])
    return math.sqrt((positive + negative) * d) / (d * (up * positive + down * negative))


@theorem("class-balance")
def class_balance(
    d: Annotated[int, "dimension"] = 128,
    n: Annotated[int, "orthogonal points, at most (d + 1)/3"] = 32,
    shares: Annotated[tuple[float, ...], "c, the share of the smaller class"] = (0.5, 0.25, 0.125, 0.0625),
    width: Annotated[int, "hidden units"] = 60,
    seed: Annotated[int, "seed of all random numbers"] = 0,
) -> Simulation:
    """Length of the universal perturbation of KKT points over the share of the smaller class, against both formulas."""
    assume(d >= 10, "d must be at least 10", d)
    assume(4 <= n <= (d + 1) / 3, f"The theorem needs n ≤ (d + 1)/3 = {(d + 1) / 3:.1f} orthogonal points, and 4 for "
           "two classes", n)  # fmt: skip
    assume(len(shares) > 0 and 1 / n <= min(shares) and max(shares) <= 0.5,
           f"The share of the smaller class must lie between 1/n = {1 / n:g} and 1/2", shares)  # fmt: skip
    assume_positive(width=width)
    rows: list[ResultRow] = []
    picture: list[Row] = []
    with progress.task("KKT points", len(shares)) as task:
        for share in shares:
            few = round(share * n)
            draw = numpy_stream(seed, "class-balance", few)
            x, y = orthogonal(n, d, draw), draw.permutation(np.where(np.arange(n) < few, -1, 1))
            trained, _ = train(initial_network(d, width, draw), x, y)
            point = kkt_point(trained, x, y)
            length = universal_perturbation(point.network, x, y, label_direction(x, y), 2 * math.sqrt(d))
            expected, unit, c = unbalanced_length(d, n - few, few), perturbation_length(d, n), few / n
            rows += [
                at_least(f"c={c:g}: cos(θ, Σλ∇)", point.cosine, 1, 0.01),
                equals(f"c={c:g}: |δ| over the closed form", length / expected, 1, 0.03),
                at_most(f"c={c:g}: |δ| over √(d/(c²n))/2, the theorem's order", length * 2 * c / unit, 1, 0.03),
                at_most(f"c={c:g}: |δ| / √(d/n)", length / unit, 1 + n / d, 0.03),
            ]
            picture += [measured(c, length / unit, "KKT points"), predicted(c, expected / unit, "KKT points")]
            picture.append(predicted(c, 1 / (2 * c), "1/(2c), the theorem's order"))
            task.advance(note=f"c={c:g}")
    title = f"Universal perturbation by the share of the smaller class, d = {d}, n = {n}"
    return Simulation(tuple(rows), chart(title, "c", "|δ| / √(d/n)", picture, log_x=True))
