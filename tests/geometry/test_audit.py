"""The audit end to end on small data: figures, words and plain JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

from radii.data.dataset import Data, Dataset
from radii.errors import InputError
from radii.geometry.audit import audit

DIGITS = load_digits()
CLASSES = tuple("0123456789")


def digits(rows: slice) -> Dataset:
    images = (DIGITS.images[rows, None] * 255 / 16).round().astype(np.uint8)
    return Dataset(images, DIGITS.target[rows].astype(np.int64), CLASSES, "digits")


def test_digits_whole() -> None:
    found = audit(Data(digits(slice(0, 1500)), digits(slice(1500, None)), "digits"))
    assert found.dimensions == 64
    summary = json.loads(json.dumps(found.summary(), allow_nan=False))
    assert summary["train"]["points"] == 1500
    assert summary["test"]["points"] == 297
    assert summary["train"]["minimum"] == found.train.minimum > 16 / 255
    assert "a classifier can be right and robust on all of them" in found.verdict[0]
    assert 0.9 < summary["nearest_neighbor_rule"]["accuracy"] <= 1
    assert summary["log2_volume"] < 64 * np.log2(16 / 255)


def test_arrays_and_other_norms() -> None:
    x = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]])
    found = audit(x, np.array([0, 1, 1]), norm="l2", epsilon=2.6)
    assert found.train.minimum == 5.0
    assert found.test is None
    assert found.volume is None
    assert "no classifier is robust on all points; 0.00%" in found.verdict[0]
    assert len(found.equal) == 1
    assert found.contradictory == ()


def test_contradictions_are_label_noise() -> None:
    x = np.array([[1, 2], [1, 2], [9, 9]], np.uint8)
    found = audit(x, np.array([0, 1, 1]))
    assert found.summary()["contradictory"] == [{"indices": (0, 1), "labels": (0, 1)}]
    assert "2 training points equal points of another class" in found.verdict[0]
    assert found.verdict[-1] == "1 training input occurs with different labels: label noise."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 2), np.uint8),), "Arrays need labels"),
        ((digits(slice(0, 20)), np.arange(20)), "comes a test Dataset, got ndarray"),
        ((np.zeros((2, 2), np.uint8), np.zeros(2)), "whole numbers"),
    ],
)
def test_bad_input(arguments, message) -> None:
    with pytest.raises(InputError, match=message):
        audit(*arguments)


def test_epsilon_must_be_positive() -> None:
    with pytest.raises(InputError, match="epsilon must be positive"):
        audit(np.zeros((2, 2), np.uint8), np.arange(2), epsilon=0.0)


def test_distances_that_are_all_equal_are_called_ties() -> None:
    draw = np.random.default_rng(0)
    x = (draw.random((60, 1, 4, 4)) < 0.5).astype(np.float32)
    binary = Dataset(x, np.arange(60) % 2, ("a", "b"), "binary")
    found = audit(Data(binary.take(slice(0, 40)), binary.take(slice(40, None)), "binary"), norm="linf", epsilon=0.1)
    said = " ".join(found.verdict)
    assert "exactly 1 from the nearest point of another class" in said
    assert "you would need" not in said
    assert "exactly" not in " ".join(audit(Data(digits(slice(0, 200)), digits(slice(200, 250)), "digits")).verdict)
