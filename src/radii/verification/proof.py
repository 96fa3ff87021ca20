"""A proof of ``unsat`` as a file: the network, the property, and the tree of splits with slopes and multipliers.

The file is a compressed numpy archive with a digest. Its checker is
:mod:`radii.verification.checker.proof_checker`, which uses nothing of this package's bounds.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radii.errors import checked
from radii.files import write_whole
from radii.verification._goal import Goal

Array = NDArray[Any]


@dataclass
class InputTree:
    """Boxes by number: where each was cut and which two it became. A box that was not cut is a leaf."""

    place: list[int] = field(default_factory=lambda: [-1])
    at: list[float] = field(default_factory=lambda: [0.0])
    left: list[int] = field(default_factory=lambda: [-1])
    right: list[int] = field(default_factory=lambda: [-1])

    def cut(self, numbers: Tensor, places: Tensor, at: Tensor) -> Tensor:
        """Cut boxes [B]; the numbers of the left halves and then of the right halves [2 B]."""
        start, count = len(self.place), len(numbers)
        for row, (number, place, middle) in enumerate(zip(numbers.tolist(), places.tolist(), at.tolist(), strict=True)):
            self.place[number], self.at[number] = place, middle
            self.left[number], self.right[number] = start + row, start + count + row
        for values, empty in ((self.place, -1), (self.left, -1), (self.right, -1)):
            values += [empty] * (2 * count)
        self.at += [0.0] * (2 * count)
        return torch.arange(start, start + 2 * count)

    def arrays(self) -> dict[str, Array]:
        """The tree in preorder, left halves first."""
        order, todo = [], [0]
        while todo:
            number = todo.pop()
            order.append(number)
            if self.place[number] >= 0:
                todo += [self.right[number], self.left[number]]
        return {
            "cut": np.array([self.place[number] for number in order], dtype=np.int64),
            "at": np.array([self.at[number] for number in order], dtype=np.float64),
        }


@dataclass(frozen=True)
class SignLeaf:
    """A proved case under signs of ReLUs: splits (ReLU's order, coordinate, sign, multiplier), slopes, weights."""

    case: int
    splits: tuple[tuple[int, int, int, float], ...]
    alphas: tuple[Array, ...]  # by the ReLU's order
    weights: Array


def _sign_arrays(leaves: Sequence[SignLeaf]) -> dict[str, Array]:
    splits = [split for leaf in leaves for split in leaf.splits]
    rows = max(len(leaf.weights) for leaf in leaves)
    return {
        "leaf_case": np.array([leaf.case for leaf in leaves], dtype=np.int64),
        "splits": np.array([split[:3] for split in splits], dtype=np.int64).reshape(-1, 3),
        "betas": np.array([split[3] for split in splits], dtype=np.float32),
        "ends": np.cumsum([len(leaf.splits) for leaf in leaves]),
        "weights": np.stack([np.pad(leaf.weights, (0, rows - len(leaf.weights))) for leaf in leaves]),
        **{
            f"alpha{order}": np.stack([leaf.alphas[order] for leaf in leaves]) for order in range(len(leaves[0].alphas))
        },
    }


@dataclass
class ProofRecord:
    """What a search writes down while it proves one goal."""

    boxes: InputTree = field(default_factory=InputTree)
    leaves: list[SignLeaf] = field(default_factory=list)

    def arrays(self, goal: Goal) -> dict[str, Array]:
        """The goal and its tree."""
        return _goal_arrays(goal) | (_sign_arrays(self.leaves) if self.leaves else self.boxes.arrays())


def _goal_arrays(goal: Goal) -> dict[str, Array]:
    names = ("lower", "upper", "matrix", "limit", "case")
    return {name: getattr(goal, name).numpy() for name in names} | {"cases": np.array([goal.cases])}


def write_proof(path: Path, network: bytes, query: str, parts: Sequence[tuple[Goal, ProofRecord]]) -> None:
    """Check a proof and write it.

    Args:
        network: the bytes of the ONNX file.
    """
    from radii.verification.checker.proof_checker import check, digest

    arrays: dict[str, Array] = {
        "network": np.frombuffer(network, dtype=np.uint8),
        "property": np.frombuffer(query.encode(), dtype=np.uint8),
        "goals": np.array([len(parts)]),
    }
    for number, (goal, record) in enumerate(parts):
        arrays |= {f"{number}/{name}": value for name, value in record.arrays(goal).items()}
    check(arrays)
    stored = {**arrays, "digest": np.frombuffer(digest(arrays), dtype=np.uint8)}
    content = io.BytesIO()
    np.savez_compressed(content, **stored)  # type: ignore[arg-type]
    write_whole(path, content.getvalue())


@checked
def check_proof(path: Path, advance: Any = lambda _: None) -> tuple[int, dict[str, Array]]:
    """Check a proof file: every leaf is proved, and its goals are those of the property inside.

    Args:
        path: the proof file.
        advance: a function that receives the number of leaves checked; default: nothing.

    Returns:
        The number of leaves, and the arrays of the file.

    Raises:
        ProofError: a number was changed, a leaf is not proved, or the goals are not those of the property inside.
    """
    from radii.verification.checker.proof_checker import check, read_proof

    arrays = read_proof(path)
    return check(arrays, advance), arrays
