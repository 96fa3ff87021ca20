"""Dataset: immutable labelled inputs; subsets that are balanced and nested."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radii.data.dataset import Data, Dataset, balanced_order
from radii.errors import InputError


def make(n: int = 12, **changes: object) -> Dataset:
    x = np.arange(n * 4, dtype=np.uint8).reshape(n, 1, 2, 2)
    fields = {"x": x, "y": np.arange(n) % 3, "classes": ("a", "b", "c"), **changes}
    return Dataset(**fields)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 4), min_size=6, max_size=60), st.integers(0, 3))
def test_subsets_are_nested_and_as_balanced_as_the_data_allows(labels: list[int], seed: int) -> None:
    y = np.array([*labels, 0, 1, 2, 3, 4])
    order = balanced_order(y, seed)
    assert sorted(order) == list(range(len(y)))
    available = np.bincount(y, minlength=5)
    for n in range(1, len(y) + 1):
        counts = np.bincount(y[order[:n]], minlength=5)
        open_classes = counts < available
        if open_classes.any():  # a class that could give more has as many as any, up to one
            assert counts[open_classes].min() >= counts.max() - 1


def test_subset_is_a_prefix_and_names_itself() -> None:
    data = make(12)
    small, large = data.subset(3), data.subset(6)
    assert (large.x[:3] == small.x).all()
    assert sorted(small.y) == [0, 1, 2]
    assert small.name.endswith("+subset:3")
    assert (data.subset(3, seed=1).x != small.x).any()


def test_digest_is_of_content() -> None:
    data = make()
    assert data.digest == make(name="other").digest
    assert data.digest != make(classes=("a", "b", "d")).digest
    changed = data.x.copy()
    changed[3, 0, 1, 1] ^= 1
    assert data.digest != make(x=changed).digest
    assert data.digest != data.take([0, 1, 2]).digest


def test_a_known_digest_means_checked_content() -> None:
    class Untouchable(np.ndarray):
        def min(self, *_: object, **__: object) -> float:  # type: ignore[override]
            raise AssertionError("the inputs were read")

    x = np.zeros((4, 1, 2, 2), np.float32).view(Untouchable)
    y = np.array([0, 1, 0, 1])
    assert Dataset(x, y, ("a", "b"), known_digest="d").digest == "d"
    with pytest.raises(AssertionError, match="were read"):
        Dataset(x, y, ("a", "b"))


def test_tensors_are_float_in_unit_range() -> None:
    x, y = make().tensors([0, 11])
    assert x.shape == (2, 1, 2, 2)
    assert float(x[1].max()) == np.float32(47) / np.float32(255)
    assert y.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.zeros((12, 4, 4), np.uint8)}, "must be .n, c, h, w. images"),
        ({"x": np.zeros((0, 1, 2, 2), np.uint8), "y": np.zeros(0, np.int64)}, "is empty"),
        ({"x": np.zeros((11, 1, 2, 2), np.uint8)}, "11 inputs and 12 labels"),
        ({"y": np.zeros(12, np.float32)}, "vector of int64, got float32"),
        ({"classes": ("only",)}, "at least two classes"),
        ({"y": np.full(12, 7)}, "must lie in 0..2, got 7..7"),
        ({"y": np.full(12, -1)}, "must lie in 0..2, got -1..-1"),
        ({"x": np.zeros((12, 1, 2, 2), np.float64)}, "uint8 or float32, got float64"),
        ({"x": np.full((12, 1, 2, 2), np.nan, np.float32)}, "NaN or infinity"),
        ({"x": np.full((12, 3), np.inf, np.float32)}, "NaN or infinity"),
        ({"x": np.full((12, 1, 2, 2), 2.0, np.float32)}, "must lie in .0, 1., got .2, 2."),
    ],
)
def test_what_is_not_a_labelled_dataset_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(**changes)


def test_splits_must_agree() -> None:
    with pytest.raises(InputError, match="one shape"):
        Data(make(), make(x=np.zeros((12, 3, 2, 2), np.uint8)), "d")
    with pytest.raises(InputError, match="same classes"):
        Data(make(), make(classes=("x", "y", "z")), "d")
    with pytest.raises(InputError, match="1 to 12 points, got 13"):
        make().subset(13)
