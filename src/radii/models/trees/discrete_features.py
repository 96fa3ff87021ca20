"""Whole numbers and categories in the cells of trees, so that the search goes through nothing else.

A threshold of a feature that is a whole number is rounded down, which changes no answer. A group of features with one 1
becomes one feature, whose cells are its categories; a leaf that excludes some of them becomes a leaf for each run of
neighboring categories that are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 2.0**22  # whole numbers up to this have float32 neighbors
Interval = tuple[int, int, int]  # a feature with its first and last cell


@dataclass(frozen=True)
class Leaves:
    """The leaves of all trees and the cells that they ask.

    Attributes:
        tree_leaf: the first leaf of each tree [trees + 1].
        node: of each leaf [leaves].
        con_start: its first constraint [leaves + 1].
        con_feature: the feature of each constraint.
        con_low: its first cell.
        con_high: its last cell.
    """

    tree_leaf: NDArray[np.int64]
    node: NDArray[np.int64]
    con_start: NDArray[np.int64]
    con_feature: NDArray[np.int64]
    con_low: NDArray[np.int64]
    con_high: NDArray[np.int64]

    def rewritten(self, rules: DiscreteCells) -> Leaves:
        """The leaves with the constraints that ``rules`` give: several for one leaf, or none where nothing is left."""
        tree_leaf, node, start = [0], [], [0]
        parts: list[Interval] = []
        columns = np.stack([self.con_feature, self.con_low, self.con_high], 1).tolist()
        for tree in range(len(self.tree_leaf) - 1):
            for leaf in range(self.tree_leaf[tree], self.tree_leaf[tree + 1]):
                own = columns[self.con_start[leaf] : self.con_start[leaf + 1]]
                for version in rules.versions(own):
                    node.append(int(self.node[leaf]))
                    parts += version
                    start.append(len(parts))
            tree_leaf.append(len(node))
        whole = np.array(parts, np.int64).reshape(-1, 3).T.copy()
        return Leaves(np.array(tree_leaf), np.array(node, np.int64), np.array(start), *whole)


class DiscreteCells:
    """How constraints on the cells between ``thresholds`` read where features are whole numbers or categories.

    Args:
        thresholds: of each feature, in rising order.
        whole: features that are whole numbers.
        groups: features of which exactly one is 1; group k becomes the feature ``len(thresholds) + k``.
    """

    def __init__(
        self, thresholds: Sequence[NDArray[np.float32]], whole: Iterable[int], groups: tuple[tuple[int, ...], ...]
    ) -> None:
        self.groups, self.before = groups, thresholds
        self.place = {feature: (g, k) for g, group in enumerate(groups) for k, feature in enumerate(group)}
        self.thresholds = list(thresholds)
        self.whole = {f for f in whole if not len(thresholds[f]) or np.abs(thresholds[f]).max() <= LARGEST}
        for f in self.whole:
            self.thresholds[f] = np.unique(np.floor(thresholds[f]))
        for f in self.place:
            self.thresholds[f] = thresholds[f][:0]

    def versions(self, constraints: Sequence[Sequence[int]]) -> list[list[Interval]]:
        """The constraints of the leaves that replace one with ``constraints`` of feature, first and last cell."""
        plain: list[Interval] = []
        left: dict[int, NDArray[np.bool_]] = {}
        for f, low, high in constraints:
            if f in self.place:
                g, k = self.place[f]
                left[g] = left.get(g, np.ones(len(self.groups[g]), bool)) & self._categories(f, k, low, high)
            elif f in self.whole:
                first, last = self._whole_cells(f, low, high)
                if first > last:
                    return []
                plain.append((f, first, last))
            else:
                plain.append((f, low, high))
        count = len(self.before)
        choices = [[(count + g, *run) for run in _runs(kept)] for g, kept in left.items()]
        return [[*plain, *choice] for choice in product(*choices)]

    def _categories(self, f: int, k: int, low: int, high: int) -> NDArray[np.bool_]:
        """The categories of a group in which feature ``f``, which is 1 in category ``k``, lies in the cells."""
        zero, one = (low <= int(np.searchsorted(self.before[f], value)) <= high for value in (0.0, 1.0))
        allowed = np.full(len(self.groups[self.place[f][0]]), zero)
        allowed[k] = one
        return allowed

    def _whole_cells(self, f: int, low: int, high: int) -> tuple[int, int]:
        cuts, new = self.before[f], self.thresholds[f]
        first = 0 if low == 0 else int(np.searchsorted(new, np.floor(cuts[low - 1]))) + 1
        last = len(new) if high >= len(cuts) else int(np.searchsorted(new, np.floor(cuts[high])))
        return first, last


def _runs(kept: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The first and the last place of each run of ``kept``."""
    edges: Any = np.flatnonzero(np.diff(np.concatenate([[False], kept, [False]]).astype(np.int8)))
    return [(int(a), int(b) - 1) for a, b in edges.reshape(-1, 2)]
