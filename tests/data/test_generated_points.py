"""Training points made of others: what is left out, deformed copies, draws of the small generator."""

from __future__ import annotations

import numpy as np
import pytest

from radii.data import sources
from radii.data import variants as generated_points
from radii.data.dataset import Data
from radii.errors import InputError


@pytest.fixture(scope="module")
def digits() -> Data:
    return sources.load("digits")


def test_a_subset_and_its_rest_are_the_whole(digits: Data) -> None:
    kept, left = sources.load("digits+subset:1000").train, sources.load("digits+rest:1000").train
    assert (len(kept), len(left)) == (1000, len(digits.train) - 1000)
    together = np.concatenate([kept.x, left.x]).reshape(len(digits.train), -1)
    order = np.lexsort(together.T)
    whole = digits.train.x.reshape(len(digits.train), -1)
    assert np.array_equal(together[order], whole[np.lexsort(whole.T)])
    assert np.array_equal(sources.load("digits+rest:1000").test.x, digits.test.x)


def test_deformed_copies_are_near_their_images_and_differ(digits: Data) -> None:
    few = digits.train.take(slice(0, 200))
    made = generated_points.deform(few, 2)
    assert np.array_equal(made.y, np.tile(few.y, 2))
    assert made.x.dtype == few.x.dtype
    flat, own = made.x.reshape(2, 200, -1).astype(float), few.x.reshape(200, -1).astype(float)
    near = np.linalg.norm(flat[0] - own, axis=1)
    assert (near > 0).all()
    assert not np.array_equal(flat[0], flat[1])
    # a copy is nearer to its own image than to the mean of the other images
    assert np.mean(near) < 0.75 * np.mean(np.linalg.norm(own.mean(0) - own, axis=1))
    assert np.array_equal(generated_points.deform(few, 2).x, made.x)


def test_a_field_of_zeros_would_change_nothing(monkeypatch: pytest.MonkeyPatch, digits: Data) -> None:
    monkeypatch.setattr(generated_points, "STRENGTH", 0.0)
    few = digits.train.take(slice(0, 50))
    assert np.allclose(generated_points.deform(few, 1).x, few.x, atol=1e-6)


def test_draws_have_the_means_and_variances_of_their_classes(digits: Data) -> None:
    made = generated_points.draw(digits.train, 5000)
    assert np.bincount(made.y).tolist() == [500] * 10
    for label in (0, 7):
        own, drawn = (part.x[part.y == label].reshape(-1, 64).astype(float) for part in (digits.train, made))
        scale = 255 if made.x.dtype == np.uint8 else 1
        assert np.abs(own.mean(0) - drawn.mean(0)).max() < 0.2 * scale
    assert made.x.min() >= 0


@pytest.mark.parametrize("name", ["digits+rest:100000", "digits+rest:0", "digits+deform:0", "digits+draw:0"])
def test_impossible_numbers_are_one_sentence(name: str) -> None:
    with pytest.raises(InputError, match="got"):
        sources.load(name)
