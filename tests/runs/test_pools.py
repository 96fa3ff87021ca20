"""Pools: an audit's shards on the workers of studies give what one search over everything gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from radii.data.sources import load
from radii.errors import InputError
from radii.geometry.search.neighbors import nearest
from radii.geometry.shards import nearest_in_shards, shards
from radii.runs.executors.pools import pool


@pytest.mark.parametrize("name", ["here", "processes"])
def test_shards_of_an_audit(name: str, tmp_path: Path) -> None:
    train = load("digits").train
    np.save(tmp_path / "x.npy", train.x)
    np.save(tmp_path / "y.npy", train.y)
    (everything,) = shards(tmp_path / "x.npy", tmp_path / "y.npy")
    parts = shards(tmp_path / "x.npy", tmp_path / "y.npy", 500)
    with pool(name, workers=2) as workers:
        found = nearest_in_shards(everything, parts, workers)
    whole = nearest(train.x, train.y, norm="linf")
    np.testing.assert_array_equal(found.distance, whole.distance)


def test_an_unknown_pool() -> None:
    with pytest.raises(InputError, match="No executor is called 'dask'"), pool("dask"):
        pass
