"""Shards merged by an executor are the whole search; memory-mapped rows at scale."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from radii.errors import InputError
from radii.geometry.search import engine
from radii.geometry.search.best import Best
from radii.geometry.search.engine import Work
from radii.geometry.search.neighbors import nearest
from radii.geometry.shards import Shard, nearest_in_shards, search_shard, shards


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 6, (700, 5)).astype(np.uint8), rng.integers(0, 3, 700)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    return tmp_path / "x.npy", tmp_path / "y.npy", x, y


@pytest.mark.parametrize("label", ["other", "same", "any"])
def test_shards_are_the_whole(files, label) -> None:
    path_x, path_y, x, y = files
    parts = shards(path_x, path_y, rows=150)
    assert [part.stop - part.start for part in parts] == [150, 150, 150, 150, 100]
    with ThreadPoolExecutor(2) as executor:
        got = nearest_in_shards(Shard(str(path_x), str(path_y), 0, 700), parts, executor, label=label, k=3)
    whole = nearest(x, y, label=label, k=3)
    assert np.array_equal(got.index, whole.index)
    assert np.array_equal(got.distance, whole.distance)


def test_processes_serve_too(files) -> None:
    path_x, path_y, x, y = files
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        got = nearest_in_shards(Shard(str(path_x), str(path_y), 100, 200), shards(path_x, path_y, 400), executor)
    assert np.array_equal(got.index, nearest(x, y).index[100:200])


def test_merging_is_associative_and_commutative() -> None:
    rng = np.random.default_rng(1)
    a, b, c = (Best(np.sort(rng.integers(0, 5, (20, 3)).astype(float)), np.sort(rng.permuted(
        np.tile(np.arange(i, 30, 3), (20, 1)), axis=1)[:, :3])) for i in range(3))  # fmt: skip
    one, two = a.merged(b).merged(c), c.merged(b.merged(a))
    assert np.array_equal(one.score, two.score)
    assert np.array_equal(one.index, two.index)
    assert Best.empty(20, 3).merged(a.merged(a.shifted(100))).index.max() < 130


def test_bad_shards(files, tmp_path) -> None:
    path_x, path_y, *_ = files
    with pytest.raises(InputError, match="is not a file"):
        shards(tmp_path / "none.npy", path_y)
    with pytest.raises(InputError, match="at least one row"):
        shards(path_x, path_y, 0)
    with ThreadPoolExecutor(1) as executor, pytest.raises(InputError, match="At least one shard"):
        nearest_in_shards(Shard(str(path_x), str(path_y), 0, 5), (), executor)
    with pytest.raises(InputError, match="No norm"):
        search_shard(*(Shard(str(path_x), str(path_y), 0, 5),) * 2, "l9", "other", 1, 1)  # type: ignore[arg-type]


@pytest.mark.heavy
def test_a_million_rows_on_disk(real_data, tmp_path, capsys) -> None:
    """2,000 queries against 1,000,000 x 3,072 mapped rows: CIFAR-10 shifted, mirrored and brightened twenty ways."""
    from radii.data.sources import load

    data = load("cifar10")
    rng = np.random.default_rng(0)
    rows = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.uint8, (1_000_000, 3072))
    labels = np.tile(np.asarray(data.train.y), 20)
    for copy in range(20):
        shift = rng.integers(-3, 4, 2) * (copy > 0)
        for start in range(0, 50_000, 5000):
            images = np.roll(np.asarray(data.train.x[start : start + 5000]), tuple(shift), (2, 3))
            images = images[..., ::-1] if copy % 2 else images
            light = int(rng.integers(-12, 13)) * (copy > 0)
            bright = np.clip(images.astype(np.int16) + light, 0, 255).astype(np.uint8)
            rows[50_000 * copy + start : 50_000 * copy + start + 5000] = bright.reshape(5000, -1)
    rows.flush()
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    queries, asked = np.asarray(data.test.x[:2000]).reshape(2000, -1), np.asarray(data.test.y[:2000])
    started = time.process_time()
    found = nearest(queries, asked, (mapped, labels), work=Work(2))
    spent = time.process_time() - started
    base = nearest(queries, asked, (data.train.x, data.train.y))
    assert (found.distance <= base.distance).all()
    for q in range(0, 2000, 500):
        away = np.abs(mapped[found.index[q, 0]].astype(int) - queries[q]).max() / 255
        assert away == found.distance[q, 0]
    with capsys.disabled():
        print(f"\n1M rows: {spent:.1f} CPU s, {spent / 2:.2f} ns a pair, 1M x 1M in {spent / 7.2:.1f} CPU hours")
    assert spent / 2e9 < 30e-9
    assert engine.BLOCK >= 1000
