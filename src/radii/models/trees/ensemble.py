"""TreeEnsemble: trees whose leaves add scores, in the one form that the search and the predictions read.

A node sends an input to the left if its value is at most ``compared``, the largest number that the library sends
there. For float32 inputs that is at most ``threshold``: "<", "<=" and numbers of float64 are one form, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError

Integers = NDArray[np.int32]
UNIT32, UNIT64 = 2.0**-24, 2.0**-53
NONE = -1  # the feature of a leaf
SEARCH = 1e-9  # the relative error of the bounds of the search, at most


@dataclass(frozen=True)
class TreeEnsemble:
    """score_c(x) = base_c + the sum over trees of value_c at the leaf that x reaches; the largest score is the class.

    Attributes:
        feature: what each node asks [nodes]; -1: it is a leaf.
        compared: the largest number that goes to the left, in float64, in which some libraries compare [nodes].
        left: the node for values up to the threshold [nodes].
        right: the node for larger ones [nodes].
        root: the first node of each tree [trees].
        value: what a leaf adds to each score [nodes, classes].
        base: the scores before any tree [classes].
        features: how many features an input has.
        unit: the roundoff of the library's sums.
        slack: by how much the largest score must exceed the others, so that what is returned keeps their order.
    """

    feature: Integers
    compared: NDArray[np.float64]
    left: Integers
    right: Integers
    root: NDArray[np.int64]
    value: NDArray[np.float64]
    base: NDArray[np.float64]
    features: int
    unit: float
    slack: float = 0.0

    def __post_init__(self) -> None:
        inner = self.feature >= 0
        if not np.isfinite(self.value[~inner]).all() or not np.isfinite(self.base).all():
            raise InputError("The trees cannot be read: some of their values are not finite numbers.")
        if inner.any() and int(self.feature.max()) >= self.features:
            raise InputError(f"The trees ask feature {int(self.feature.max())} of {self.features}.")
        self._check_children(inner)

    def _check_children(self, inner: NDArray[np.bool_]) -> None:
        """Refuse nodes that lead to none, and trees that meet themselves: they would be walked forever."""
        children = np.concatenate([self.left[inner], self.right[inner]])
        if children.size and (int(children.min()) < 0 or int(children.max()) >= len(self.feature)):
            raise InputError(f"The trees lead to node {int(children.max())} of {len(self.feature)}.")
        if len(np.unique(children)) < children.size or np.isin(self.root, children).any():
            raise InputError("The trees are none: some node has two parents, or they form a circle.")

    @property
    def classes(self) -> int:
        """How many scores there are."""
        return len(self.base)

    @cached_property
    def threshold(self) -> NDArray[np.float32]:
        """The largest float32 number that goes to the left [nodes]."""
        return at_most(self.compared)

    @cached_property
    def error(self) -> float:
        """A bound of how far the library's difference of two scores is from the exact one, with ``slack``.

        The rounding of the search, which moves costs between trees, is counted too.
        """
        sizes = np.array([np.abs(self.value[self._below(root)]).max(0) for root in self.root]).sum(0)
        largest = float((sizes + np.abs(self.base)).max(initial=0.0))
        return self.slack + (2.02 * (len(self.root) + 4) * self.unit + SEARCH) * largest

    def _below(self, root: int) -> NDArray[np.int64]:
        """The leaves below ``root``."""
        stack, leaves = [int(root)], []
        while stack:
            node = stack.pop()
            if self.feature[node] < 0:
                leaves.append(node)
            else:
                stack += [int(self.left[node]), int(self.right[node])]
        return np.array(leaves)

    def scores(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        """The scores of rows ``x`` [n, d] in float64: [n, classes]."""
        from radii.models.trees._kernels import reached_leaves

        rows = np.ascontiguousarray(x, dtype=np.float32)
        reached = reached_leaves(self.feature, self.threshold, self.left, self.right, self.root, rows)
        return np.asarray(self.base + self.value[reached].sum(1))


def at_most(thresholds: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 numbers that are at most ``thresholds``: of a library that sends x <= t to the left."""
    near = thresholds.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf))
    return np.where(near.astype(np.float64) > thresholds, below, near).astype(np.float32)


def less_than(thresholds: NDArray[np.float32]) -> NDArray[np.float32]:
    """The largest float32 numbers that are less than ``thresholds``: of a library that sends x < t to the left."""
    return np.nextafter(thresholds.astype(np.float32), np.float32(-np.inf))


@dataclass(frozen=True)
class OneTree:
    """A tree by its nodes, as in :class:`TreeEnsemble`; children are numbered within the tree."""

    feature: NDArray[np.int64]
    compared: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: NDArray[np.float64]


def joined(trees: list[OneTree], base: NDArray[np.float64], features: int, unit: float, slack: float) -> TreeEnsemble:
    """An ensemble of ``trees``; see :class:`TreeEnsemble` for the other arguments."""
    if not trees:
        raise InputError("The ensemble has no trees.")
    first = np.cumsum([0, *(len(tree.feature) for tree in trees)])
    return TreeEnsemble(
        np.concatenate([tree.feature for tree in trees]).astype(np.int32),
        np.concatenate([tree.compared for tree in trees]).astype(np.float64),
        np.concatenate([tree.left + start for tree, start in zip(trees, first, strict=False)]).astype(np.int32),
        np.concatenate([tree.right + start for tree, start in zip(trees, first, strict=False)]).astype(np.int32),
        first[:-1].astype(np.int64),
        np.concatenate([tree.value for tree in trees]).astype(np.float64),
        np.asarray(base, dtype=np.float64),
        features,
        unit,
        slack,
    )
