"""Inputs and labels as users have them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from radii.data.arrays import as_inputs, as_labels
from radii.errors import InputError


def test_arrays_lists_and_frames_become_float32() -> None:
    rows = [[0.25, 0.5], [0.75, 1.0]]
    expected = torch.tensor(rows)
    for x in (rows, np.array(rows), np.array(rows, np.float16), pd.DataFrame(rows), [torch.tensor(r) for r in rows]):
        assert torch.equal(as_inputs(x), expected)
        assert as_inputs(x).dtype == torch.float32
    assert torch.equal(as_inputs([[0, 1], [1, 0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    double = expected.double()
    assert as_inputs(double) is double, "a tensor keeps its type"


def test_images_of_bytes_are_divided_and_channels_move() -> None:
    bytes_ = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3), dtype=np.uint8)
    x = as_inputs(bytes_, nhwc=True)
    assert torch.equal(x, torch.from_numpy(np.divide(bytes_, 255, dtype=np.float32)).permute(0, 3, 1, 2))
    assert torch.equal(as_inputs(bytes_[0, :, ::-1], single=True)[0, :, :, :], as_inputs(bytes_[:1, :, ::-1])[0])
    with pytest.raises(InputError, match=r"nhwc means images \[n, h, w, c\], got shape \(2, 3\)"):
        as_inputs(np.zeros((2, 3)), nhwc=True)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([2, 0], [2, 0]),
        (np.array([2.0, 0.0]), [2, 0]),
        (np.array([[0, 0, 1], [1, 0, 0]]), [2, 0]),
        (np.array([[2], [0]], np.uint8), [2, 0]),
        (np.array([True, False]), [1, 0]),
        (pd.Series([2, 0], dtype="int32"), [2, 0]),
        (torch.tensor([2, 0], dtype=torch.int32), [2, 0]),
        (3, [3]),
    ],
)
def test_labels_of_every_kind(y: object, expected: list[int]) -> None:
    labels = as_labels(y)
    assert labels.dtype == torch.int64
    assert labels.tolist() == expected


@pytest.mark.parametrize(
    ("y", "says"),
    [
        ([0.5, 1.0], "got fractions"),
        ([[0, 2], [1, 0]], "one-hot rows"),
        ([[0], [1, 2]], "must all have one shape"),
    ],
)
def test_labels_that_are_none(y: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        as_labels(y)
    with pytest.raises(InputError, match="Inputs must be numbers"):
        as_inputs([["a"]])


def test_datasets_and_loaders_are_no_inputs() -> None:
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(4, 2)))
    with pytest.raises(InputError, match=r"must be arrays of numbers, got DataLoader: x, y = data\.test\.tensors\(\)"):
        as_inputs(loader)
