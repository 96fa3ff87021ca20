"""Results of studies that no shipped file has: as the papers report them, where they print figures."""

from __future__ import annotations

from itertools import product

from made_records import certified, evaluated, split
from radii.studies.study import Measured
from radii_papers.measurements import LineFigures, NearbyAccuracyResult, NeighborGroup, OneDimensionResult
from radii_papers.published import lookup
from radii_papers.studies._yang_methods import METHODS

RADII = (36 / 255, 72 / 255, 108 / 255, 0.5, 1.0)
LIPSCHITZ = "tab:cifar-resimagenet-lipschitz"
PAIRS = ("Natural", "AT", "RST(lambda=2)", "TRADES(beta=3)", "TRADES(beta=6)")


def _both_splits(place: dict[str, str], row: dict[str, float]) -> list[Measured]:
    """The two cells of a network from a row of the printed table."""
    train = evaluated(row["adversarial"] + row["adversarial gap"] / 100, row["test"] + row["gap"] / 100)
    test = evaluated(row["adversarial"], row["test"], lipschitz=row["lipschitz"])
    name = "-".join(place.values())
    return [
        Measured({**place, "split": "train"}, train, f"evaluate-{name}-train"),
        Measured({**place, "split": "test"}, test, f"evaluate-{name}-test"),
    ]


def _row(table: str, gaps: str, **where: str) -> dict[str, float]:
    metrics = {"test": "test_acc_pct", "adversarial": "adv_test_acc_pct", "lipschitz": "test_lipschitz"}
    row = {key: lookup("002", table, metric=metric, **where).share for key, metric in metrics.items()}
    gap = {"gap": "gap_points", "adversarial gap": "adv_gap_points"}
    return row | {key: lookup("002", gaps, metric=metric, **where).number for key, metric in gap.items()}


def yang_mnist() -> list[Measured]:
    """The table of MNIST."""
    table = "tab:mnist (p.14)"
    return [
        cell
        for network in ("CNN1", "CNN2")
        for method in METHODS
        for cell in _both_splits(
            {"network": network, "training": method}, _row(table, table, model=network, method=method)
        )
    ]


def yang_cifar() -> list[Measured]:
    """The tables of CIFAR-10."""
    return [
        cell
        for method in METHODS
        for cell in _both_splits(
            {"training": method, "dropout": "False"},
            _row(LIPSCHITZ, "tab:generalization-gap", dataset="CIFAR-10", method=method),
        )
    ]


def dropout() -> list[Measured]:
    """The table of dropout."""
    table = "tab:dropout"
    return [
        cell
        for method in PAIRS
        for word in ("False", "True")
        for cell in _both_splits(
            {"training": method, "dropout": word},
            _row(table, table, dataset="CIFAR-10", method=f"{method} dropout={word}"),
        )
    ]


def staircase() -> list[Measured]:
    smooth = LineFigures(accuracy=1.0, astuteness=1.0, steepness_times_r=1.0, curve=())
    stairs = smooth.model_copy(update={"astuteness": 0.4})
    result = OneDimensionResult(x=(), y=(), r=0.5, smooth=smooth, staircase=stairs)
    return [Measured({"points": 8}, result, "one-dimension-8")]


def trade_off() -> list[Measured]:
    """Table 3."""
    cells = []
    for t, method in ((0.0, "SelfNormalizingCE t=0"), (0.1, "SelfNormalizingCE t=1/10")):
        clean = lookup("000", "Table 3", method=method, metric="test_acc_pct").share
        proved = lookup("000", "Table 3", method=method, metric="test_cra_36_255_pct").share
        own = split(clean, [proved * (1 - 0.2 * k) for k in range(5)])
        cells.append(Measured({"t": t}, certified(RADII, own, own), f"certify-{t}"))
    return cells


def overfitting() -> list[Measured]:
    """Fig. 4: training points are fitted up to radius 1."""
    train, test = split(1.0, (1.0, 1.0, 0.99, 0.9)), split(0.6, (0.6, 0.5, 0.3, 0.1))
    result = certified((0.0, 0.125, 0.5, 1.0), test, train)
    return [Measured({"data": name, "model": "1-Lipschitz"}, result, f"certify-{name}") for name in ("a", "b")]


def compute_scaling() -> list[Measured]:
    """Fig. 5: curves that flatten."""
    cells = []
    for steps, value in ((100, 0.3), (200, 0.38), (400, 0.42), (800, 0.435)):
        for seed in range(2):
            own = split(value + 0.1, [value + 0.002 * seed - 0.05 * k for k in range(5)])
            place = {"model": "1-Lipschitz", "steps": steps, "seed": seed}
            cells.append(Measured(place, certified(RADII, own, own), f"certify-{steps}-{seed}"))
    return cells


def extra_data() -> list[Measured]:
    """Fig. 6: more points, more certified accuracy."""
    cells = []
    for data, made in (("mnist", "deformed"), ("cifar10", "drawn")):
        for extra, points, value in (("none", 1, 0.4), (made, 2, 0.39), ("held back", 2, 0.45)):
            for seed in range(2):
                own = split(0.9, [value + 0.002 * seed] * 5)
                place = {"data": data, "extra": extra, "points": points, "seed": seed, "model": "1-Lipschitz"}
                cells.append(Measured(place, certified(RADII, own, own), f"certify-{data}-{extra}-{seed}"))
    return cells


def _group(distance: float, clean: float, proved: float) -> NeighborGroup:
    ends = {"nearest": distance, "mean": distance, "farthest": distance}
    return NeighborGroup(points=2000, clean=clean, certified=proved, **ends)


def nearby_points() -> list[Measured]:
    """Section 12: near points are easier."""
    cells = []
    for data, metric in product(("mnist", "cifar10"), ("angle", "l2")):
        slope = 0.01 if (data, metric) == ("cifar10", "l2") else -0.05
        groups = [_group(0.5 + 0.1 * k, 0.8 - 0.02 * k, 0.6 + slope * k) for k in range(5)]
        place = {"data": data, "n": 12_500, "metric": metric}
        result = NearbyAccuracyResult(radius=0.1, groups=tuple(groups))
        cells.append(Measured(place, result, f"nearby-accuracy-{data}-{metric}"))
    return cells


MADE = {
    "yang-mnist": yang_mnist,
    "yang-cifar": yang_cifar,
    "dropout": dropout,
    "staircase": staircase,
    "trade-off": trade_off,
    "overfitting": overfitting,
    "compute-scaling": compute_scaling,
    "extra-data": extra_data,
    "nearby-points": nearby_points,
}
