"""Whether `radii gate` keeps its error rates, and how many points it needs, over 10,000 simulated builds each.

A build is a model whose share of successes on 10,000 test points is known. Floors are tested
at the floor (false alarms), a margin below it (misses), and over shares spread as releases are:
some points above or below the floor. Comparisons are tested without a change, with a churn of
6% of the points, and with a drop of the margin. About one CPU minute.
"""

from __future__ import annotations

import numpy as np

from harness import Figure, figure, main
from radii.evaluation._sequential_tests import DropTest, FloorTest
from radii.randomness import numpy_stream

POPULATION, BUILDS, CHUNK = 10_000, 10_000, 250
ALPHA = BETA = MARGIN = 0.05
FLOORS = (0.3, 0.45, 0.9)


def stops(test: FloorTest, counts: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """For each build with that many successes: whether it failed, and after how many points."""
    fails, passes = test.least_successes()
    failed, points = [], []
    rng = numpy_stream(0, "gate", name)
    for start in range(0, len(counts), CHUNK):
        own = counts[start : start + CHUNK]
        builds = np.arange(test.population)[None, :] < own[:, None]
        seen = rng.permuted(builds, axis=1).cumsum(1)
        low, high = seen <= fails[1:], seen >= passes[1:]
        stop = (low | high).argmax(1)
        failed.append(low[np.arange(len(own)), stop])
        points.append(stop + 1)
    return np.concatenate(failed), np.concatenate(points)


def floors(quick: bool) -> list[Figure]:
    """Error rates and points of floor tests."""
    builds, figures = BUILDS // 10 if quick else BUILDS, []
    for floor in FLOORS:
        test = FloorTest(POPULATION, floor, MARGIN, ALPHA, BETA)
        failed, at_floor = stops(test, np.full(builds, test.enough), f"{floor} floor")
        missed, below = stops(test, np.full(builds, test.too_few), f"{floor} below")
        middle = stops(test, np.full(builds, (test.enough + test.too_few) // 2), f"{floor} middle")[1]
        slack = 0.0 if not quick else 0.02
        figures += [
            figure(f"floor {floor}: false alarms at the floor", failed.mean(), ALPHA + slack),
            figure(f"floor {floor}: misses a margin below", 1 - missed.mean(), BETA + slack),
            figure(
                f"floor {floor}: full run over points, at the floor", POPULATION / at_floor.mean(), 5, at_most=False
            ),
            figure(f"floor {floor}: full run over points, a margin below", POPULATION / below.mean(), 5, at_most=False),
            figure(f"floor {floor}: full run over points, worst case", POPULATION / middle.mean(), 5, at_most=False),
        ]
    rng = numpy_stream(0, "gate", "releases")
    test = FloorTest(POPULATION, 0.45, MARGIN, ALPHA, BETA)
    counts = np.rint(POPULATION * rng.normal(0.5, 0.05, builds)).astype(int)
    failed, points = stops(test, counts, "releases")
    good, bad = counts >= test.enough, counts <= test.too_few
    return [
        *figures,
        figure("releases around 0.5, floor 0.45: false alarms among good ones", failed[good].mean(), ALPHA),
        figure("releases around 0.5, floor 0.45: misses among bad ones", (~failed)[bad].mean(), BETA),
        figure("releases around 0.5, floor 0.45: full run over points", POPULATION / points.mean(), 5, at_most=False),
    ]


def drops(quick: bool) -> list[Figure]:
    """Error rates of comparisons with a former result of 1,000 points."""
    builds, common, figures = (1000 if quick else BUILDS), 1000, []
    test = DropTest(MARGIN, ALPHA, BETA)
    for name, losing, winning in (("no change", 0.03, 0.03), ("a drop of the margin", 0.07, 0.02)):
        rng = numpy_stream(0, "gate", name)
        said = []
        for _ in range(builds):
            step = rng.choice(3, common, p=(losing, winning, 1 - losing - winning))
            counts = np.stack([(step == kind).cumsum() for kind in range(3)], 1)
            answers = (test.decide(*(int(v) for v in counts[n])) for n in range(0, common, 8))
            said.append(next((answer for answer in answers if answer != "open"), "open"))
        share = {answer: said.count(answer) / builds for answer in ("dropped", "kept", "open")}
        wrong = "dropped" if name == "no change" else "kept"
        figures.append(figure(f"{name}: called {wrong}", share[wrong], ALPHA + (0.02 if quick else 0)))
        right = "kept" if name == "no change" else "dropped"
        figures.append(figure(f"{name}: called {right}", share[right], None))
    return figures


if __name__ == "__main__":
    main({"floors": floors, "drops": drops})
