"""Pixels survive the way into the page."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from radii.errors import InputError
from radii.report.galleries import data_uri, perturbation


def decoded(uri: str) -> np.ndarray:
    head, _, body = uri.partition(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(body))))


def test_pixels_survive() -> None:
    gray = np.arange(64, dtype=np.uint8).reshape(1, 8, 8)
    np.testing.assert_array_equal(decoded(data_uri(gray)), gray[0])
    color = torch.rand(3, 5, 4, generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(decoded(data_uri(color)), (color * 255).round().byte().permute(1, 2, 0).numpy())
    np.testing.assert_array_equal(decoded(data_uri(gray[0])), gray[0])


def test_a_perturbation_is_gray_where_nothing_moved() -> None:
    clean = np.full((1, 2, 2), 0.5)
    moved = clean.copy()
    moved[0, 0] = [0.51, 0.49]
    np.testing.assert_array_equal(decoded(perturbation(clean, moved)), [[255, 0], [128, 128]])
    assert (decoded(perturbation(clean, clean)) == 128).all()


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (np.zeros((2, 4, 4)), "1 or 3 channels"),
        (np.zeros(4), "shape"),
        (np.full((1, 2, 2), 1.5), r"\[0, 1\]"),
        (np.full((1, 2, 2), np.nan), r"\[0, 1\]"),
    ],
)
def test_bad_pixels(pixels: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        data_uri(pixels)
