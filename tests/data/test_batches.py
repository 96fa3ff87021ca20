"""Batches: every draw hangs on (seed, epoch, step), and augmentation is what loops would do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from radii.data.augmentation import Augmentation, _erase_square, _moved, _random_crop
from radii.data.batches import Batches
from radii.data.dataset import Dataset
from radii.errors import InputError
from radii.randomness import stream

ALL = Augmentation(crop=2, flip=True, erase=3)


@pytest.fixture
def dataset() -> Dataset:
    x = np.random.default_rng(0).integers(0, 256, (50, 3, 8, 9), dtype=np.uint8)
    return Dataset(x, np.arange(50) % 5, tuple("abcde"))


def test_an_epoch_is_the_shuffled_dataset(dataset: Dataset) -> None:
    batches = Batches(dataset, 10, seed=3)
    x, y = (torch.cat(parts) for parts in zip(*batches.epoch(0), strict=True))
    order = torch.randperm(50, generator=stream(3, "shuffle", 0))
    everything, labels = dataset.tensors()
    assert torch.equal(x, everything[order])
    assert torch.equal(y, labels[order])
    assert x.dtype == torch.float32
    assert y.dtype == torch.int64
    assert not torch.equal(batches.order(1), order)


@pytest.mark.parametrize("together", [False, True])
def test_a_resumed_epoch_has_the_same_bits(dataset: Dataset, together: bool) -> None:
    augment = Augmentation(crop=2, flip=True, erase=3, affine=0.1, together=together)
    whole = list(Batches(dataset, 8, seed=1, augment=augment).epoch(4))
    rest = list(Batches(dataset, 8, seed=1, augment=augment).epoch(4, start_step=3))
    assert len(whole) == 6
    assert len(rest) == 3
    for (x, y), (x_again, y_again) in zip(whole[3:], rest, strict=True):
        assert torch.equal(x, x_again)
        assert torch.equal(y, y_again)


def test_epochs_steps_and_seeds_draw_differently(dataset: Dataset) -> None:
    """All images are one, so that only the augmentation differs."""
    dataset = Dataset(dataset.x[:1].repeat(50, 0), dataset.y, dataset.classes)

    def first(seed: int, epoch: int, step: int) -> torch.Tensor:
        x, _ = next(Batches(dataset, 10, seed, ALL).epoch(epoch, step))
        return x

    drawn = [first(0, 0, 0), first(1, 0, 0), first(0, 1, 0), first(0, 0, 1)]
    assert all(not torch.equal(a, b) for i, a in enumerate(drawn) for b in drawn[:i])


def test_affine_changes_move_turn_and_stretch() -> None:
    x = torch.rand(3, 2, 6, 8)
    assert torch.allclose(_moved(x, torch.zeros(1, 2, 3)), x, atol=1e-6)
    a_pixel = torch.tensor([[[0.0, 0.0, 2 / 8], [0.0, 0.0, 0.0]]])
    assert torch.allclose(_moved(x, a_pixel), torch.nn.functional.pad(x[..., 1:], (0, 1)), atol=1e-5)
    square, turn = torch.rand(1, 1, 5, 5), torch.tensor([[[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0]]])  # by 90 degrees
    assert torch.allclose(_moved(square, turn), square.rot90(-1, (2, 3)), atol=1e-5) or torch.allclose(
        _moved(square, turn), square.rot90(1, (2, 3)), atol=1e-5
    )
    data = Dataset(np.random.default_rng(0).random((40, 1, 9, 9), np.float32), np.arange(40) % 2, ("a", "b"))
    (changed, _), (same, _) = (next(Batches(data, 40, 0, Augmentation(affine=a)).epoch(0)) for a in (0.1, 0.0))
    assert (changed != same).flatten(1).any(1).all()
    assert float((changed.mean((1, 2, 3)) - same.mean((1, 2, 3))).abs().max()) < 0.15
    assert Augmentation(affine=0.0).canonical() == {"crop": 0, "flip": False, "erase": 0, "together": False}


def test_crops_are_windows_of_the_mirror_padded_image() -> None:
    x = torch.rand(6, 2, 5, 7)
    offset = torch.stack([torch.arange(6) % 5, torch.tensor([4, 0, 2, 1, 3, 4])])
    out = _random_crop(x, 2, offset)
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)), mode="reflect")
    for i in range(6):
        top, left = int(offset[0, i]), int(offset[1, i])
        assert (out[i].numpy() == padded[i, :, top : top + 5, left : left + 7]).all()
    assert torch.equal(_random_crop(x, 2, torch.full((2, 6), 2)), x)
    moved = torch.tensor([[1], [3]])
    assert torch.equal(_random_crop(x, 2, moved), _random_crop(x, 2, moved.expand(2, 6)))


def test_erased_squares_have_one_size_and_the_mean_color(dataset: Dataset) -> None:
    batches = Batches(dataset, 50, augment=Augmentation(erase=3))
    np.testing.assert_allclose(batches.mean, (dataset.x / 255).mean((0, 2, 3)), rtol=1e-6)
    x, _ = next(batches.epoch(0))
    erased = (x == batches.mean[None, :, None, None]).all(1)
    assert (erased.sum((1, 2)) == 9).all()
    places = {tuple(map(int, square.nonzero()[0])) for square in erased}
    assert len(places) > 15
    assert max(top for top, _ in places) == 5
    assert max(left for _, left in places) == 6
    plain = dataset.tensors()[0][batches.order(0)]
    assert torch.equal(torch.where(erased[:, None], 0, x), torch.where(erased[:, None], 0, plain))
    one = _erase_square(torch.zeros(1, 1, 4, 4), torch.tensor([[1], [2]]), 2, torch.ones(1))
    assert one[0, 0].nonzero().tolist() == [[1, 2], [1, 3], [2, 2], [2, 3]]


def test_flips_are_fair(dataset: Dataset) -> None:
    big = Dataset(np.repeat(dataset.x, 40, 0), np.repeat(dataset.y, 40), dataset.classes)
    batches = Batches(big, 2000, augment=Augmentation(flip=True))
    x, _ = next(batches.epoch(0))
    plain = big.tensors()[0][batches.order(0)]
    flipped = (x == plain.flip(3)).all((1, 2, 3))
    assert ((x == plain).all((1, 2, 3)) ^ flipped).all()
    assert 0.45 < flipped.float().mean() < 0.55  # 4.5 standard deviations


def test_together_draws_once_per_batch() -> None:
    same = Dataset(np.repeat(np.arange(64, dtype=np.uint8).reshape(1, 1, 8, 8), 12, 0), np.arange(12) % 2, ("a", "b"))
    x, _ = next(Batches(same, 12, augment=Augmentation(crop=3, flip=True, erase=2, together=True)).epoch(0))
    assert (x == x[0]).all()
    x, _ = next(Batches(same, 12, augment=Augmentation(crop=3, flip=True, erase=2)).epoch(0))
    assert not (x == x[0]).all()


def test_the_last_incomplete_batch_is_left_out_and_small_data_is_one_batch(dataset: Dataset) -> None:
    assert len(Batches(dataset, 8)) == 6
    assert [len(y) for _, y in Batches(dataset, 8).epoch(0)] == [8] * 6
    assert [len(y) for _, y in Batches(dataset, 256).epoch(0)] == [50]


def test_features_and_float_images_pass_unscaled() -> None:
    x = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
    got, _ = next(Batches(Dataset(x, np.arange(10) % 2, ("a", "b")), 10).epoch(0))
    assert torch.equal(got, torch.from_numpy(x)[torch.randperm(10, generator=stream(0, "shuffle", 0))])


def test_the_dataset_is_not_changed(dataset: Dataset) -> None:
    before = dataset.x.copy()
    for x, _ in Batches(dataset, 10, augment=ALL).epoch(0):
        x.zero_()
    assert (dataset.x == before).all()
    real = Dataset((before / 255).astype(np.float32), dataset.y, dataset.classes)
    for x, _ in Batches(real, 50).epoch(0):
        x.zero_()
    assert (real.x == (before / 255).astype(np.float32)).all()


@pytest.mark.parametrize(
    ("augment", "message"),
    [
        (Augmentation(crop=8), "less than the image's side 8, got 8"),
        (Augmentation(erase=9), "must fit into the image's side 8, got 9"),
        (Augmentation(crop=-1), "at least 0 pixels, got -1"),
    ],
)
def test_impossible_augmentation_is_refused(dataset: Dataset, augment: Augmentation, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Batches(dataset, 8, augment=augment)


def test_other_bad_arguments_are_refused(dataset: Dataset) -> None:
    with pytest.raises(InputError, match="batch size must be at least 1, got 0"):
        Batches(dataset, 0)
    features = Dataset(np.zeros((4, 3), np.float32), np.arange(4) % 2, ("a", "b"))
    with pytest.raises(InputError, match=r"needs \[c, h, w\] images"):
        Batches(features, 2, augment=Augmentation(flip=True))
