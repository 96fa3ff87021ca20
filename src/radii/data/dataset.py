"""Dataset: labelled inputs that do not change, and Data: a train and a test split of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from radii.data._feature_rules import FeatureRules
from radii.errors import InputError
from radii.randomness import numpy_stream
from radii.tables import Table, Tabular, table

if TYPE_CHECKING:
    from torch import Tensor

Index = slice | Sequence[int] | NDArray[np.integer] | None


@dataclass(frozen=True)
class Dataset:
    """Labelled inputs that do not change.

    uint8 images stay uint8, and memory-mapped files stay on disk, until
    :meth:`tensors` is called.

    Args:
        x: [n, c, h, w] images, uint8 or float32 in [0, 1], or [n, d] float32 features.
        y: labels [n], int64 in 0..len(classes)-1.
        classes: the names of the classes.
        name: the name in messages and tables.
        known_digest: the digest, where the inputs were read and checked before (by
            the cache or a variant); then they are not read again.
        rules: which features may change, how far and in which units; None where nothing is said.

    Raises:
        InputError: inputs and labels that do not fit together, or bad values.
    """

    x: NDArray[np.generic]
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    name: str = "data"
    known_digest: str | None = field(default=None, repr=False)
    rules: FeatureRules | None = None

    def __post_init__(self) -> None:
        _check_labelled(self.x, self.y, self.classes, self.name, values=self.known_digest is None)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.x.shape[1:])

    @property
    def is_image(self) -> bool:
        """Whether inputs are [c, h, w] images rather than [d] features."""
        return self.x.ndim == 4

    @cached_property
    def box(self) -> tuple[float, float] | None:
        """(0, 1) for images and for features within [0, 1]; None for other features."""
        if self.is_image:
            return (0.0, 1.0)
        return (0.0, 1.0) if float(self.x.min()) >= 0 and float(self.x.max()) <= 1 else None

    @cached_property
    def digest(self) -> str:
        """sha256 over shape, type, inputs, labels and class names: equal content, equal digest."""
        if self.known_digest is not None:
            return self.known_digest
        state = hashlib.sha256()
        state.update(repr((self.x.shape, self.x.dtype.str, self.classes)).encode())
        for start in range(0, len(self), 4096):
            state.update(np.ascontiguousarray(self.x[start : start + 4096]).data)
        state.update(np.ascontiguousarray(self.y).data)
        if self.rules is not None and self.rules.restricts:
            state.update(self.rules.to_json().encode())
        return state.hexdigest()

    def tensors(self, index: Index = None) -> tuple[Tensor, Tensor]:
        """Inputs as float32 in [0, 1] and labels as int64, for the rows of ``index`` or all."""
        import torch

        rows = slice(None) if index is None else index
        return torch.from_numpy(as_float(np.array(self.x[rows]))), torch.from_numpy(np.array(self.y[rows]))

    def take(self, index: Index, name: str | None = None) -> Dataset:
        """The rows of ``index`` in that order, as a dataset called ``name`` (default: the old name)."""
        rows = slice(None) if index is None else index
        return replace(self, x=self.x[rows], y=self.y[rows], name=name or self.name, known_digest=None)

    def subset(self, n: int, seed: int = 0) -> Dataset:
        """``n`` class-balanced points; subsets are nested: subset(100) is contained in subset(200).

        Each class is shuffled once and one point of every class is taken in turn, so
        all subsets are prefixes of one permutation. Scaling curves are therefore paired.

        Args:
            n: the number of points, 1 to len(self).
            seed: the seed of the shuffles; default 0.

        Raises:
            InputError: ``n`` is not within 1..len(self).
        """
        if not 0 < n <= len(self):
            raise InputError(f"A subset of {self.name} must have 1 to {len(self)} points, got {n} instead.")
        return self.take(balanced_order(self.y, seed)[:n], f"{self.name}+subset:{n}")


@dataclass(frozen=True, repr=False)
class Data(Tabular):
    """A dataset's train and test split, with equal shapes and classes.

    Args:
        train: the points to learn from.
        test: the points to evaluate on.
        name: the name of the dataset with its variants.

    Raises:
        InputError: the splits have different shapes or classes.
    """

    train: Dataset
    test: Dataset
    name: str

    def __post_init__(self) -> None:
        if self.train.shape != self.test.shape:
            raise InputError(
                f"Train and test inputs of {self.name} must have one shape, "
                f"got {self.train.shape} and {self.test.shape} instead."
            )
        if self.train.classes != self.test.classes:
            raise InputError(f"Train and test split of {self.name} must have the same classes.")

    def __repr__(self) -> str:
        points = f"{len(self.train):,} + {len(self.test):,} points of {' × '.join(map(str, self.shape))}"
        return f"Data({self.name}: {points}, {len(self.classes)} classes)"

    def table(self) -> Table:
        """How many points each class has in each split."""
        counts = [np.bincount(split.y, minlength=len(self.classes)) for split in (self.train, self.test)]
        rows = [
            {"class": name, "train": int(counts[0][k]), "test": int(counts[1][k])}
            for k, name in enumerate(self.classes)
        ]
        return table(rows, ["class", "train", "test"], repr(self))

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names."""
        return self.train.classes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self.train.shape


def as_float(x: NDArray[np.generic]) -> NDArray[np.float32]:
    """Inputs as float32: grey levels 0..255 of uint8 images divided by 255, other inputs as they are.

    One float32 division gives the float nearest to each level / 255. The
    result shares memory with ``x`` if that is float32 already.
    """
    return np.divide(x, 255, dtype=np.float32) if x.dtype == np.uint8 else np.asarray(x, np.float32)


def balanced_order(y: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """A permutation, drawn from ``seed``, of the labels ``y`` whose every prefix is as class-balanced as possible."""
    rank = np.empty(len(y), np.int64)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        rank[numpy_stream(seed, "subset", int(label)).permutation(members)] = np.arange(len(members))
    return np.lexsort((y, rank))


def _check_labelled(
    x: NDArray[np.generic], y: NDArray[np.int64], classes: Sequence[str], name: str, values: bool = True
) -> None:
    """Raise an InputError, in one sentence, for anything that is not a labelled dataset.

    Args:
        y: labels [n].
        values: also look at all float inputs for NaN and, in images, for values outside [0, 1].
    """
    if x.ndim not in (2, 4):
        raise InputError(f"Inputs of {name} must be [n, c, h, w] images or [n, d] features, got shape {x.shape}.")
    if len(x) == 0:
        raise InputError(f"{name} is empty: at least one labelled point is needed.")
    if len(x) != len(y):
        raise InputError(f"{name} must have one label for every input, got {len(x)} inputs and {len(y)} labels.")
    if y.ndim != 1 or y.dtype != np.int64:
        raise InputError(f"Labels of {name} must be a vector of int64, got {y.dtype} of shape {y.shape} instead.")
    if len(classes) < 2:
        raise InputError(f"{name} must have at least two classes, got {len(classes)} instead.")
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= len(classes):
        raise InputError(f"Labels of {name} must lie in 0..{len(classes) - 1}, got {low}..{high} instead.")
    if x.dtype == np.uint8:
        return
    if x.dtype != np.float32:
        raise InputError(f"Inputs of {name} must be uint8 or float32, got {x.dtype} instead.")
    if not values:
        return
    smallest, largest = float(x.min()), float(x.max())  # NaN propagates through both
    if not np.isfinite([smallest, largest]).all():
        raise InputError(f"Inputs of {name} must be finite numbers, got NaN or infinity in some of them.")
    if x.ndim == 4 and (smallest < 0 or largest > 1):
        raise InputError(
            f"Images of {name} must lie in [0, 1], got [{smallest:.3g}, {largest:.3g}]. "
            "Store raw pixels and put normalization inside the model: radii.Classifier(net, mean=…, std=…)."
        )


Preprocessing = Literal["none", "center", "standardize"]


def statistics(data: Dataset, mode: Preprocessing) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of the training split, in units of [0, 1].

    Args:
        mode: ``center`` gives the mean only, which changes no distance (Prach &
            Lampert 2025); ``standardize`` both; ``none`` neither.

    Returns:
        Mean and standard deviation per channel of images, or per coordinate of
        features; empty where the mode gives none. Constant coordinates have 1.
    """
    if mode == "none":
        return (), ()
    axes = (0, 2, 3) if data.is_image else (0,)
    count, total, square = 0, np.zeros(data.shape[0]), np.zeros(data.shape[0])
    for start in range(0, len(data), 4096):
        x = data.x[start : start + 4096].astype(np.float64)
        if data.x.dtype == np.uint8:
            x /= 255
        count += x.size // data.shape[0]
        total += x.sum(axes)
        square += (x * x).sum(axes)
    mean = total / count
    if mode == "center":
        return tuple(mean.tolist()), ()
    std = np.sqrt(np.maximum(square / count - mean * mean, 0))
    return tuple(mean.tolist()), tuple(np.where(std > 1e-8, std, 1.0).tolist())
