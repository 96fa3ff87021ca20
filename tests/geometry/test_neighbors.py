"""Nearest neighbors against differences written out, for every norm, type and choice of labels."""

from __future__ import annotations

import numpy as np
import pytest

from radii.errors import InputError
from radii.geometry.search import _l2_l1 as l2_l1
from radii.geometry.search import engine
from radii.geometry.search._l2_l1 import center_of, scalar_products, squared_lengths
from radii.geometry.search.engine import Work
from radii.geometry.search.neighbors import Neighbors, nearest


def written_out(x, y, rx, ry, norm, label, k, own):
    """Definition by definition in NumPy: all differences, masked, sorted by distance and index."""
    a, b = x.reshape(len(x), -1).astype(np.float64), rx.reshape(len(rx), -1).astype(np.float64)
    gap = np.abs(a[:, None, :] - b[None, :, :])
    size = {"linf": gap.max(2), "l1": gap.sum(2), "l2": (gap**2).sum(2)}[norm]
    equal = y[:, None] == ry[None, :]
    keep = {"other": ~equal, "same": equal, "any": np.ones_like(equal)}[label]
    if own:
        keep = keep & ~np.eye(len(x), dtype=bool)
    size = np.where(keep, size, np.inf)
    order = np.argsort(size, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(size, order, 1)
    found = (np.sqrt(found) if norm == "l2" else found) / (255 if x.dtype == np.uint8 else 1)
    return found, np.where(np.isfinite(found), order, -1)


def sample(n, d, classes, dtype, seed=0, coarse=False):
    rng = np.random.default_rng(seed)
    top = 4 if coarse else 256  # few levels: many ties and duplicates
    x = rng.integers(0, top, (n, d)).astype(np.uint8)
    if dtype == np.float32:
        x = (x / 255 if coarse else rng.normal(size=(n, d))).astype(np.float32)
    return x, rng.integers(0, classes, n)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("label", ["other", "same", "any"])
@pytest.mark.parametrize("coarse", [False, True])
def test_equals_the_definition(dtype, norm, label, coarse) -> None:
    x, y = sample(90, 3 if coarse else 17, 3, dtype, coarse=coarse)
    rx, ry = sample(130, x.shape[1], 3, dtype, seed=1, coarse=coarse)
    for within, own in ((None, True), ((rx, ry), False)):
        reference = (x, y) if within is None else within
        got = nearest(x, y, within, norm=norm, label=label, k=4)
        distance, index = written_out(x, y, *reference, norm, label, 4, own)
        assert np.array_equal(got.index, index)
        np.testing.assert_allclose(got.distance, distance, rtol=1e-14)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Even small problems go through the compiled kernels."""
    monkeypatch.setattr(engine, "BRUTE_FORCE_BELOW", 0)
    return Work(workers=2)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize(
    ("n", "d", "classes", "coarse"), [(150, 300, 3, False), (120, 3, 2, True), (40, 1, 4, True), (50, 1500, 3, False)]
)
def test_kernels_equal_the_definition(large, dtype, norm, n, d, classes, coarse) -> None:
    x, y = sample(n, d, classes, dtype, coarse=coarse)
    rx, ry = sample(130, d, classes, dtype, seed=1, coarse=coarse)
    for label in ("other", "same", "any"):
        for within, own in ((None, True), ((rx, ry), False)):
            for k in (1, 4):
                got = nearest(x, y, within, norm=norm, label=label, k=k, work=large)
                distance, index = written_out(x, y, *(within or (x, y)), norm, label, k, own)
                assert np.array_equal(got.index, index)
                np.testing.assert_allclose(got.distance, distance, rtol=1e-13)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_several_tiles_and_blocks(large, norm) -> None:
    """More references than a tile and more queries than a block, clustered as images are."""
    rng = np.random.default_rng(3)
    centers = rng.integers(40, 216, (9, 40))
    y = rng.integers(0, 9, 5000)
    x = np.clip(centers[y] + rng.normal(0, 25, (5000, 40)), 0, 255).astype(np.uint8)
    got = nearest(x, y, norm=norm, work=large)
    some = rng.choice(5000, 60, replace=False)
    gap = np.abs(x[some, None].astype(np.int64) - x[None])
    size = {"linf": gap.max(2), "l1": gap.sum(2), "l2": (gap**2).sum(2)}[norm].astype(float)
    size[y[some, None] == y[None]] = np.inf
    assert np.array_equal(got.index[some, 0], size.argmin(1))


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize(("n", "d"), [(300, 50), (60, 2100)])
def test_cancellation_loses_no_neighbor(large, norm, scale, n, d) -> None:
    """Far from the origin and nearly equal: matrix products alone would order these wrongly."""
    rng = np.random.default_rng(4)
    x = (scale * (1 + 1e-4 * rng.normal(size=(n, d)))).astype(np.float32)
    y = rng.integers(0, 2, n)
    got = nearest(x, y, norm=norm, work=large)
    distance, index = written_out(x, y, x, y, norm, "other", 1, True)
    assert np.array_equal(got.index, index)
    np.testing.assert_allclose(got.distance, distance, rtol=1e-13)


def test_threads_and_memory_maps_change_nothing(large, tmp_path) -> None:
    x, y = sample(5000, 24, 3, np.uint8)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    one, two = nearest(x, y, work=Work(1)), nearest(mapped, y, work=Work(2))
    assert np.array_equal(one.index, two.index)
    assert np.array_equal(one.distance, two.distance)
    strided = nearest(np.asfortranarray(x), y, work=Work(2))
    assert np.array_equal(one.index, strided.index)


def test_a_killed_search_continues(large, tmp_path, monkeypatch) -> None:
    """Blocks that were finished are read, not computed; another search is refused."""
    x, y = sample(5000, 24, 3, np.uint8)
    work = Work(1, tmp_path / "work")
    prepare = engine._prepare
    done = []

    def dies_after_two(*arguments):
        found = prepare(*arguments)

        def block(*given):
            if len(done) == 2:
                raise KeyboardInterrupt
            done.append(1)
            return found(*given)

        return block

    monkeypatch.setattr(engine, "_prepare", dies_after_two)
    with pytest.raises(KeyboardInterrupt):
        nearest(x, y, work=work)
    kept = sorted(path.name for path in work.folder.glob("block-*"))
    assert kept == ["block-000000.npy", "block-000001.npy"]
    done.clear()
    again = nearest(x, y, work=work)
    assert len(done) == 1
    monkeypatch.setattr(engine, "_prepare", None)  # a finished search prepares nothing
    assert np.array_equal(again.distance, nearest(x, y, work=work).distance)
    with pytest.raises(InputError, match="holds another search"):
        nearest(x, y, norm="l2", work=work)
    monkeypatch.setattr(engine, "_prepare", prepare)
    assert np.array_equal(again.index, nearest(x, y).index)


def test_workers_are_counted(large) -> None:
    with pytest.raises(InputError, match="at least 1, got 0"):
        nearest(np.zeros((3, 4), np.uint8), np.arange(3), work=Work(0))


def test_whole_grey_levels_are_exact() -> None:
    x = np.array([[[10, 200]], [[64, 200]]], np.uint8)
    assert nearest(x, np.array([0, 1])).distance.tolist() == [[54 / 255], [54 / 255]]


def test_a_missing_class_is_infinitely_far() -> None:
    x = np.zeros((3, 2), np.uint8)
    alone = nearest(x, np.zeros(3, np.int64))
    assert np.isinf(alone.distance).all()
    assert (alone.index == -1).all()
    same = nearest(x, np.array([0, 1, 2]), label="same", k=2)
    assert np.isinf(same.distance).all()
    assert isinstance(same, Neighbors)


def test_a_duplicate_is_a_neighbor_but_oneself_is_not() -> None:
    x = np.array([[1, 1], [1, 1], [9, 9]], np.uint8)
    found = nearest(x, np.array([0, 0, 0]), label="same")
    assert found.index[:, 0].tolist() == [1, 0, 0]
    assert found.distance[:, 0].tolist() == [0, 0, 8 / 255]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": "l3"}, "No norm is called 'l3'"),
        ({"label": "others"}, "No choice of neighbors is called 'others'. Did you mean 'other'"),
        ({"k": 0}, "at least 1, got 0"),
        ({"within": (np.zeros((2, 5), np.uint8), np.arange(2))}, "same number of coordinates, got 4 and 5"),
        ({"within": (np.zeros((2, 4), np.float32), np.arange(2))}, "Divide the uint8 set by 255"),
        ({"x": np.zeros((3, 4), np.int32)}, "uint8 pixels or floating point features, got int32"),
        ({"x": np.zeros((0, 4), np.uint8)}, r"at least one row of inputs"),
        ({"x": np.zeros((3, 0), np.uint8)}, "at least one coordinate"),
        ({"y": np.zeros(3)}, "whole numbers, got float64"),
        ({"y": np.arange(2)}, "one label for every row"),
        ({"x": np.full((3, 4), np.nan, np.float32)}, "finite numbers, got NaN"),
    ],
)
def test_bad_input_is_one_sentence(change, message) -> None:
    given = {"x": np.zeros((3, 4), np.uint8), "y": np.arange(3)} | change
    with pytest.raises(InputError, match=message):
        nearest(given.pop("x"), given.pop("y"), given.pop("within", None), **given)


def test_products_of_pixels_are_exact_at_every_length() -> None:
    """1,024 products of the extreme levels reach 2^24, the last whole number that float32 adds without error."""
    rows = np.stack([np.zeros(5000), np.full(5000, 255), np.arange(5000) % 256]).astype(np.uint8)
    centered = rows.astype(np.int64) - 128
    center = center_of(rows)
    assert np.array_equal(scalar_products(rows, rows, center), centered @ centered.T)
    assert np.array_equal(squared_lengths(rows, center), (centered**2).sum(1))


def test_long_rows_are_searched_by_products(large, monkeypatch) -> None:
    monkeypatch.setattr(l2_l1, "prepare_l2", None)
    x, y = sample(80, 1100, 3, np.uint8)
    monkeypatch.setattr(l2_l1, "CHUNK", 7)
    got = nearest(x, y, norm="l2", k=3, work=large)
    assert np.array_equal(got.index, written_out(x, y, x, y, "l2", "other", 3, True)[1])
