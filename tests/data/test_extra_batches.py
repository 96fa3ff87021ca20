"""Joined batches: the share of extra points, and resuming anywhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from radii.data.batches import JoinedBatches
from radii.data.dataset import Dataset
from radii.errors import InputError


def numbered(count: int, first: int = 0, width: int = 3) -> Dataset:
    """Points whose first feature is their number."""
    x = np.zeros((count, width), np.float32)
    x[:, 0] = np.arange(first, first + count)
    return Dataset(x, np.arange(count, dtype=np.int64) % 2, ("a", "b"))


def test_every_batch_has_the_share_and_every_point_comes() -> None:
    batches = JoinedBatches(numbered(60), numbered(50, 1000), 20, share=0.25)
    seen = torch.cat([x[:, 0] for epoch in range(3) for x, _ in batches.epoch(epoch)])
    assert all(int((x[:, 0] >= 1000).sum()) == 5 and len(x) == 20 for x, _ in batches.epoch(0))
    own, extra = seen[seen < 1000], seen[seen >= 1000]
    assert len(own) == 3 * 60
    assert set(own.tolist()) == set(range(60))
    counts = torch.unique(extra, return_counts=True)[1]
    assert len(counts) == 50
    assert counts.max() - counts.min() <= 1  # at their own pace: all were seen before any comes again


def test_without_a_share_all_points_are_alike() -> None:
    batches = JoinedBatches(numbered(100), numbered(300), 16)
    assert batches.share == 0.75
    x, y = next(iter(batches.epoch(0)))
    assert len(x) == len(y) == 16


def test_a_resumed_epoch_has_the_same_bits() -> None:
    batches = JoinedBatches(numbered(70), numbered(33, 1000), 10, share=0.3)
    whole = [x for x, _ in batches.epoch(4)]
    again = [x for x, _ in batches.epoch(4, 6)]
    assert len(again) == len(whole) - 6
    assert all(torch.equal(a, b) for a, b in zip(whole[6:], again, strict=True))


def test_what_does_not_fit_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"Extra points must be like those"):
        JoinedBatches(numbered(10), numbered(10, width=4), 4)
    with pytest.raises(InputError, match="must have own and extra points"):
        JoinedBatches(numbered(100), numbered(100), 4, share=0.01)
