"""The nearest input of another class of a tree ensemble: what is proved about its distance, and the nearest known one.

Thresholds cut each feature into cells; the scores are constant in a row of cells. Whether some row within a distance
has another class is decided by branch and bound (:func:`radii.models.trees._kernels.search`), for each rival class;
the distance is found by bisection over the distances of cells. Work is counted in leaves looked at, not in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.models.feature_reach import Floats, Reach
from radii.models.trees._kernels import FOUND, OPEN, leaves_of, restricted, search
from radii.models.trees.discrete_features import DiscreteCells, Leaves
from radii.models.trees.ensemble import TreeEnsemble
from radii.threat import Norm

WORK = 60_000_000  # leaves looked at for one input: some seconds
FIRST = 256  # part of the farthest distance that is tried first
NEAR, CLOSE = 0.1, 1e-9  # bisection ends when it is so near to a known row; then a radius so little below it is tried
_search: Callable[..., Any] = search  # compiled: its type says nothing of its arguments
Predict = Callable[[NDArray[np.float32]], NDArray[np.int64]]


@dataclass(frozen=True)
class Nearest:
    """proved <= the distance of the nearest input of another class <= broken; ``place`` is one at ``broken``."""

    proved: float
    broken: float
    place: NDArray[np.float32]


@dataclass(frozen=True)
class _Problem:
    """One input with the cells around it.

    Attributes:
        low: the least cell that is allowed, for each feature [d].
        high: the greatest one.
        center: the cells of the input.
        bound: for each feature, a lower bound of the move into each of its cells, in units of the scale.
        place: for each feature, the float32 number of each cell that is nearest to the input.
        groups: features of which one is 1; the cells of each, its categories, come behind those of all features.
        leaves: of all trees, with the cells that they ask.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    center: NDArray[np.int64]
    bound: list[Floats]
    place: list[NDArray[np.float32]]
    groups: tuple[tuple[int, ...], ...]
    leaves: Leaves
    scale: Floats
    norm: Norm

    @property
    def power(self) -> float:
        """The exponent of a move in the sum that is the distance."""
        return 2.0 if self.norm == "l2" else 1.0

    @property
    def farthest(self) -> float:
        """The distance of the farthest row of cells."""
        ends = zip(self.bound, self.low, self.high, strict=True)
        return self.length(np.array([max(own[low], own[high]) for own, low, high in ends]))

    def length(self, moves: Floats) -> float:
        """The norm of ``moves`` [d], which are at least 0."""
        if self.norm == "linf":
            return float(moves.max(initial=0.0))
        return float((moves**self.power).sum() ** (1 / self.power))

    def row(self, cells: NDArray[np.int64]) -> NDArray[np.float32]:
        """The input in ``cells`` that is nearest."""
        count = len(self.place)
        row = np.array([self.place[f][i] for f, i in enumerate(cells[:count])], np.float32)
        for group, category in zip(self.groups, cells[count:], strict=True):
            row[list(group)] = np.arange(len(group)) == category
        return row

    def within(self, radius: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The cells that one feature alone can reach within ``radius``."""
        low, high = self.center.copy(), self.center.copy()
        for f, own in enumerate(self.bound):
            inside = np.flatnonzero(own[self.low[f] : self.high[f] + 1] <= radius) + self.low[f]
            low[f], high[f] = inside[0], inside[-1]
        return low, high


class TreeSearch:
    """The search in one ensemble; what does not depend on the input is computed once.

    Args:
        predict: the classes of float32 rows [n, d], as the library computes them: it decides between scores that
            rounding leaves open, and confirms every input that is found.
    """

    def __init__(self, ensemble: TreeEnsemble, predict: Predict) -> None:
        self.ensemble, self.predict = ensemble, predict
        self._answers: dict[bytes, Nearest] = {}
        own = ensemble
        inner = own.feature >= 0
        self.thresholds = [np.unique(own.threshold[inner & (own.feature == f)]) for f in range(own.features)]
        cut = np.zeros(len(own.feature), np.int64)
        for f, values in enumerate(self.thresholds):
            asks = inner & (own.feature == f)
            cut[asks] = np.searchsorted(values, own.threshold[asks])
        most = max(8, int(inner.sum()) + 1)
        parts = [leaves_of(own.feature, cut, own.left, own.right, int(root), most) for root in own.root]
        starts = np.cumsum([0, *(part[1][-1] for part in parts)])
        con_start = np.concatenate([part[1][:-1] + start for part, start in zip(parts, starts, strict=False)])
        self.leaves = Leaves(
            np.cumsum([0, *(len(part[0]) for part in parts)]),
            np.concatenate([part[0] for part in parts]),
            np.append(con_start, starts[-1]),
            *(np.concatenate([part[place] for part in parts]) for place in (2, 3, 4)),
        )
        self._cells: dict[Any, tuple[DiscreteCells, Leaves]] = {}

    def nearest(self, reach: Reach, row: int, label: int, work: int = WORK) -> Nearest:
        """The bracket around the distance at which row ``row`` of ``reach`` first has another class than ``label``.

        A certificate and an attack ask the same question; the answer is kept.
        """
        own = (reach.center[row], reach.low[row], reach.high[row], reach.scale)
        asked = f"{reach.norm} {label} {work} {reach.groups} {reach.whole}"
        key = b"".join(part.tobytes() for part in own) + asked.encode()
        if key not in self._answers:
            self._answers[key] = self._searched(reach, row, label, work)
        return self._answers[key]

    def _searched(self, reach: Reach, row: int, label: int, work: int) -> Nearest:
        x = reach.center[row].astype(np.float32)
        problem = self._problem(reach, row, x)
        rivals = [c for c in range(self.ensemble.classes) if c != label]
        search = _Bisection(self, problem, x, label, rivals, work)
        if reach.norm != "linf":  # the nearest row in Linf is found soon, and bounds the distance in other norms
            search.start_at(self.nearest(replace(reach, norm="linf"), row, label, work // 4))
        return search.run()

    def _cells_for(self, reach: Reach, row: int) -> tuple[DiscreteCells, Leaves]:
        """The cells and leaves for the whole numbers and categories of one row."""
        groups = tuple(group for group, may in zip(reach.groups, reach.swaps[row], strict=True) if may)
        whole = tuple(f for f in reach.whole if reach.center[row, f].is_integer())
        if (groups, whole) not in self._cells:
            cells = DiscreteCells(self.thresholds, whole, groups)
            self._cells[groups, whole] = cells, (self.leaves.rewritten(cells) if groups or whole else self.leaves)
        return self._cells[groups, whole]

    def _problem(self, reach: Reach, row: int, x: NDArray[np.float32]) -> _Problem:
        low, high, center, bounds, places = [], [], [], [], []
        cells, leaves = self._cells_for(reach, row)
        for f, cuts in enumerate(cells.thresholds):
            here = int(np.searchsorted(cuts, x[f]))  # cell i holds cuts[i - 1] < x <= cuts[i]
            is_whole = f in cells.whole
            after = cuts + np.float32(1) if is_whole else np.nextafter(cuts, np.float32(np.inf))
            place = np.full(len(cuts) + 1, x[f])
            place[:here], place[here + 1 :] = cuts[:here], after[here:]
            # float64 inputs are rounded before they are compared, so a cell may begin one float32 number earlier
            nearer = (cuts, after) if is_whole else (after, cuts)
            bound = np.zeros(len(cuts) + 1)
            start = float(reach.center[row, f])
            bound[:here] = np.maximum(start - nearer[0][:here].astype(np.float64), 0.0)
            bound[here + 1 :] = np.maximum(nearer[1][here:].astype(np.float64) - start, 0.0)
            allowed = np.flatnonzero((place >= reach.low[row, f]) & (place <= reach.high[row, f]))
            low.append(min(int(allowed[0]), here) if len(allowed) else here)
            high.append(max(int(allowed[-1]), here) if len(allowed) else here)
            center.append(here)
            bounds.append(bound / reach.scale[f])
            places.append(place)
        for group in cells.groups:
            here = int(np.argmax(x[list(group)]))
            swap = np.full(len(group), float(reach.swap_length[reach.groups.index(group)]))
            swap[here] = 0.0
            low, high, center = [*low, 0], [*high, len(group) - 1], [*center, here]
            bounds.append(swap)
        ends = np.array(low), np.array(high), np.array(center)
        return _Problem(*ends, bounds, places, cells.groups, leaves, reach.scale, reach.norm)

    def decide(self, problem: _Problem, radius: float, label: int, rival: int, work: int) -> _Decision:
        """Whether class ``rival`` can reach ``label`` within ``radius`` of the input of ``problem``."""
        own = self.ensemble
        low, high = problem.within(radius)
        leaves = problem.leaves
        value = own.value[leaves.node, label] - own.value[leaves.node, rival]
        parts = restricted(
            leaves.tree_leaf, leaves.con_start, leaves.con_feature, leaves.con_low, leaves.con_high, value, low, high,
            problem.center,
        )  # fmt: skip
        constant, *arrays, nearest, names = parts
        constant += float(own.base[label] - own.base[rival])
        cell_start = arrays[-1]
        price, allowance = np.zeros(len(nearest)), np.inf
        if problem.norm != "linf":
            for number, f in enumerate(names):
                some = slice(cell_start[number], cell_start[number + 1])
                price[some] = problem.bound[f][nearest[some]] ** problem.power
            allowance = radius**problem.power * (1 + 1e-12)
        verdict, rows, spent = _search(constant, *arrays, price, allowance, own.error, work)
        cells = []
        for row in rows:
            whole = problem.center.copy()
            for number, f in enumerate(names):
                whole[f] = nearest[cell_start[number] + row[number]]
            cells.append(whole)
        return _Decision(verdict, cells, spent)


@dataclass(frozen=True)
class _Decision:
    verdict: int
    cells: list[NDArray[np.int64]]
    spent: int


@dataclass
class _Bisection:
    """The search of one input, with the best row that is known."""

    trees: TreeSearch
    problem: _Problem
    x: NDArray[np.float32]
    label: int
    rivals: list[int]
    left: int
    broken: float = np.inf
    ahead: float = np.inf  # a lower bound of the distance of the nearest known row's cells
    best: NDArray[np.float32] = field(init=False)

    def __post_init__(self) -> None:
        self.best = self.x

    def start_at(self, known: Nearest) -> None:
        """Begin below a row of another class, if there is one."""
        if np.isfinite(known.broken):
            moved = np.abs(known.place.astype(np.float64) - self.x.astype(np.float64)) / self.problem.scale
            self.broken = self.ahead = self.problem.length(moved)
            self.best = known.place

    def run(self) -> Nearest:
        """Radii grow until a row is found, then they are halved; the last one is just below the nearest row."""
        if int(self.trees.predict(self.x[None])[0]) != self.label:
            return Nearest(0.0, 0.0, self.x)
        proved, wall, farthest = 0.0, self.ahead, self.problem.farthest
        trial = farthest / FIRST if wall == np.inf else wall / 2
        while self.left > 0:
            if self._refuted(trial):
                proved = trial
            else:
                wall = min(trial, self.ahead)
            if proved >= min(farthest, wall * (1 - 2 * CLOSE)):
                break
            if wall == np.inf:
                trial = min(2 * trial, farthest)
            elif wall - proved > NEAR * wall or wall < self.ahead:
                trial = (proved + wall) / 2
            else:
                trial = wall * (1 - CLOSE)
        return Nearest(min(proved, self.broken), self.broken, self.best)

    def _refuted(self, radius: float) -> bool:
        """Whether it is proved that no row within ``radius`` has another class."""
        proved = True
        for rival in list(self.rivals):
            share = max(self.left // 3, 1_000_000)
            decision = self.trees.decide(self.problem, radius, self.label, rival, min(share, self.left))
            self.left -= decision.spent + 1000
            if decision.cells and self._known(decision.cells):
                self.rivals.remove(rival)  # the one that broke it is asked first
                self.rivals.insert(0, rival)
                return False
            if decision.verdict == OPEN or (decision.verdict == FOUND and decision.cells):
                proved = False
                break
        return proved

    def _known(self, cells: list[NDArray[np.int64]]) -> bool:
        """Whether the library gives one of the rows of ``cells`` another class; the nearest of them is kept."""
        rows = np.stack([self.problem.row(row) for row in cells])
        other = self.trees.predict(rows) != self.label
        for place, row in zip(rows[other], np.array(cells)[other], strict=True):
            moved = np.abs(place.astype(np.float64) - self.x.astype(np.float64)) / self.problem.scale
            away = self.problem.length(moved)
            if away < self.broken:
                self.broken, self.best = away, place
            bounds = np.array([self.problem.bound[f][i] for f, i in enumerate(row)])
            self.ahead = min(self.ahead, self.problem.length(bounds))
        return bool(other.any())
