"""Exact Linf radii of tree ensembles: how many are known, CPU seconds a point, beside Veritas and a HiGHS MILP.

Models are trained here: 100 trees of depth 6 on 30 made features, and on the 64 features of digits, 10 classes, 100
trees of depth 4. A radius is known if the proved and the broken one meet (to 1e-5). Veritas and the MILP are asked
about the same points of the XGBoost model; both know one norm and exact arithmetic. Brute force is asked about small
random ensembles.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, milp
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier

from harness import Figure, figure, main
from radii.models.feature_reach import Reach
from radii.models.trees.ensemble import TreeEnsemble
from radii.models.trees.estimators import of_estimator
from radii.models.trees.search import Nearest, TreeSearch

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from oracles.all_cells import nearest_other_class, random_ensemble

SECONDS, CLOSE = 10.0, 1e-5
Rows = NDArray[np.float32]


def made() -> tuple[Rows, NDArray[np.int64]]:
    """6,000 rows of 30 features in [0, 1], 15 of which matter; every second one trains."""
    x, y = make_classification(6000, 30, n_informative=15, random_state=0)
    return ((x - x.min(0)) / (x.max(0) - x.min(0))).astype(np.float32), y


def boosted(library: str, trees: int, depth: int) -> Any:
    """An unfitted classifier of ``library``; None where it is not installed."""
    try:
        if library == "xgboost":
            from xgboost import XGBClassifier

            return XGBClassifier(n_estimators=trees, max_depth=depth, n_jobs=1)
        if library == "lightgbm":
            from lightgbm import LGBMClassifier

            return LGBMClassifier(n_estimators=trees, max_depth=depth, num_leaves=2**depth, n_jobs=1, verbose=-1)
    except ImportError:
        return None
    return RandomForestClassifier(trees, max_depth=depth, random_state=0, n_jobs=1)


def searched(model: Any, rows: Rows, norm: Any = "linf") -> tuple[list[Nearest], list[float], NDArray[np.int64]]:
    """The brackets of ``rows``, the CPU seconds of each, and the predictions."""
    ensemble = of_estimator(model)
    search = TreeSearch(ensemble, lambda asked: np.asarray(model.predict_proba(asked).argmax(1)))
    center = rows.astype(np.float64)
    reach = Reach(center, np.zeros_like(center), np.ones_like(center), np.ones(rows.shape[1]), norm)
    labels, answers, seconds = search.predict(rows), [], []
    search.nearest(reach, 0, int(labels[0]), 1000)  # compiled once
    for row, label in enumerate(labels):
        start = time.process_time()
        answers.append(search.nearest(reach, row, int(label)))
        seconds.append(time.process_time() - start)
    return answers, seconds, labels


def known(answers: list[Nearest], seconds: list[float]) -> float:
    """The share of radii that are known in the time."""
    closed = [one.broken - one.proved <= CLOSE for one in answers]
    return float(np.mean([is_closed and spent <= SECONDS for is_closed, spent in zip(closed, seconds, strict=True)]))


def wrong_beside_brute_force(count: int) -> int:
    """How many of ``count`` random ensembles have a bracket without the truth, in all three norms by turns."""
    rng, wrong = np.random.default_rng(0), 0
    for number in range(count):
        ensemble = random_ensemble(rng)
        x = rng.random((1, ensemble.features)).astype(np.float32)
        center = x.astype(np.float64)
        norm: Any = ("linf", "l1", "l2")[number % 3]
        reach = Reach(center, np.zeros_like(center), np.ones_like(center), np.ones(ensemble.features), norm)
        label = int(ensemble.scores(x).argmax(1)[0])
        search = TreeSearch(ensemble, lambda rows, own=ensemble: own.scores(rows).argmax(1))
        found, truth = search.nearest(reach, 0, label), nearest_other_class(ensemble, reach, label)
        wrong += not found.proved - 1e-9 <= truth <= found.broken + 1e-9
    return wrong


def veritas_seconds(model: Any, rows: Rows, labels: NDArray[np.int64], answers: list[Nearest]) -> tuple[float, int]:
    """Mean CPU seconds of Veritas for a point (10 s at most), and at how many points its answers contradict ours.

    Its lower bound is a proof. Its upper one is none where a step ran out of time, so the inputs that it found are
    asked of the model instead.
    """
    import veritas

    trees, spent, contradictions = veritas.get_addtree(model), [], 0
    for row, label, ours in zip(rows, labels, answers, strict=True):
        start = time.process_time()
        source, target = (trees, None) if label == 1 else (None, trees)
        one = veritas.VeritasRobustnessSearch(
            row, 1.0, source, target, num_steps=25, max_time=SECONDS, silent=True, mem_capacity=2**31
        )
        _, low, _ = one.search()
        spent.append(time.process_time() - start)
        found = np.array(one.generated_examples, dtype=np.float32).reshape(-1, len(row))
        other = model.predict_proba(np.concatenate([row[None], found])).argmax(1)[1:] != label
        nearest = np.abs(found - row).max(1)[other].min(initial=np.inf)
        contradictions += low > ours.broken + 1e-4 or nearest < ours.proved - 1e-4
    return float(np.mean(spent)), contradictions


def milp_radius(ensemble: TreeEnsemble, x: Rows, label: int, seconds: float) -> float:
    """The smallest Linf change by a mixed-integer program (Kantchelian et al. 2016), NaN where time is over."""
    inner = np.flatnonzero(ensemble.feature >= 0)
    questions = sorted({(int(ensemble.feature[n]), float(ensemble.threshold[n])) for n in inner})
    number = {question: place for place, question in enumerate(questions)}  # p = 1: the value is at most the threshold
    search = TreeSearch(ensemble, lambda rows: ensemble.scores(rows).argmax(1))
    leaves, binary = len(search.node), len(questions)
    count = binary + leaves + 1  # questions, leaves, the radius
    rows, low, high = [], [], []

    def row(entries: dict[int, float], least: float, most: float) -> None:
        rows.append(entries)
        low.append(least)
        high.append(most)

    for (f, a), (g, b) in pairwise(questions):
        if f == g:
            row({number[f, a]: 1, number[g, b]: -1}, -np.inf, 0)
    for t in range(len(ensemble.root)):
        row({binary + leaf: 1 for leaf in range(search.tree_leaf[t], search.tree_leaf[t + 1])}, 1, 1)
    for leaf in range(leaves):
        for c in range(search.con_start[leaf], search.con_start[leaf + 1]):
            cuts, f = search.thresholds[search.con_feature[c]], int(search.con_feature[c])
            if search.con_low[c] > 0:  # above a threshold
                row({binary + leaf: 1, number[f, float(cuts[search.con_low[c] - 1])]: 1}, -np.inf, 1)
            if search.con_high[c] < len(cuts):
                row({binary + leaf: 1, number[f, float(cuts[search.con_high[c]])]: -1}, -np.inf, 0)
    for (f, cut), place in number.items():
        gap = float(x[f]) - cut
        if gap > 0:
            row({count - 1: 1, place: -gap}, 0, np.inf)
        else:
            row({count - 1: 1, place: -gap}, -gap, np.inf)
    margin = ensemble.value[search.node, label] - ensemble.value[search.node, 1 - label]
    row(
        {binary + leaf: float(margin[leaf]) for leaf in range(leaves)},
        -np.inf,
        ensemble.base[1 - label] - ensemble.base[label],
    )
    from scipy.sparse import coo_array

    places = [(i, j, v) for i, entries in enumerate(rows) for j, v in entries.items()]
    i, j, v = (np.array(part) for part in zip(*places, strict=True))
    matrix = coo_array((v, (i, j)), shape=(len(rows), count)).tocsr()
    cost, whole = np.append(np.zeros(count - 1), 1.0), np.append(np.ones(binary), np.zeros(leaves + 1))
    answer = milp(
        cost, integrality=whole, bounds=(0, 1), constraints=LinearConstraint(matrix, low, high),
        options={"time_limit": seconds},
    )  # fmt: skip
    return float(answer.fun) if answer.status == 0 else float("nan")


def ensembles(quick: bool) -> list[Figure]:
    """Points whose Linf radius is exact, for each library."""
    x, y = made()
    digits, classes = load_digits(return_X_y=True)
    digits = (digits / 16).astype(np.float32)
    figures, points = [], 10 if quick else 100
    for library in ("xgboost", "lightgbm", "forest"):
        for name, data, target, trees, depth, goal in (
            ("30 features, 100 trees of depth 6", x, y, 100, 6, 0.95),
            ("digits, 100 trees of depth 4", digits, classes, 100 if library == "forest" else 10, 4, 0.80),
        ):
            model = boosted(library, trees, depth)
            if model is None:
                print(f"{library} is not installed", file=sys.stderr)
                continue
            model.fit(data[::2], target[::2])
            rows = data[1::2][:points]
            answers, seconds, _ = searched(model, rows)
            figures += [
                figure(f"{library}, {name}: radius exact in 10 s", known(answers, seconds), goal, at_most=False),
                figure(f"{library}, {name}: CPU seconds a point, mean", float(np.mean(seconds))),
                figure(f"{library}, {name}: CPU seconds a point, most", float(np.max(seconds))),
            ]
    return figures


def peers(quick: bool) -> list[Figure]:
    """Veritas and HiGHS on points of the XGBoost model of 30 features."""
    model = boosted("xgboost", 100, 6)
    if model is None:
        return []
    x, y = made()
    model.fit(x[::2], y[::2])
    rows = x[1::2][: 2 if quick else 10]
    answers, seconds, labels = searched(model, rows)
    own, figures = float(np.mean(seconds)), []
    try:
        spent, contradictions = veritas_seconds(model, rows, labels, answers)
        figures += [
            figure("CPU seconds over those of Veritas, same points, XGBoost", own / spent, 1.0),
            figure("points where Veritas and radii contradict each other", contradictions, 0),
        ]
    except ImportError:
        print("dtai-veritas is not installed", file=sys.stderr)
    few, limit = (1, 15.0) if quick else (2, 60.0)
    start = time.process_time()
    truth = [milp_radius(of_estimator(model), rows[i], int(labels[i]), limit) for i in range(few)]
    spent = (time.process_time() - start) / few
    gaps = [abs(one - ours.broken) for one, ours in zip(truth, answers, strict=False) if np.isfinite(one)]
    return [
        *figures,
        figure("CPU seconds over those of the HiGHS MILP (at its limit if it does not end)", own / spent, 1.0),
        figure("points that the MILP solved in its time", len(gaps)),
        *([figure("largest difference of its radius", max(gaps), 1e-4)] if gaps else []),
    ]


def brute_force(quick: bool) -> list[Figure]:
    """Small random ensembles."""
    count = 300 if quick else 10_000
    return [figure(f"wrong of {count:,} random ensembles, by brute force", wrong_beside_brute_force(count), 0)]


if __name__ == "__main__":
    main({"ensembles": ensembles, "peers": peers, "brute force": brute_force})
