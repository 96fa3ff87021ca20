"""Records with arrays come back equal to the bit, whatever their types, orders and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from radii.errors import InputError
from radii.runs.record_files import read_record, write_record


@dataclass(frozen=True)
class Points:
    radius: NDArray[np.float64]
    single: NDArray[np.float32]
    label: NDArray[np.int64]
    proved: NDArray[np.bool_]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Whole:
    points: Points
    rows: NDArray[np.int64]
    threshold: float
    passes: dict[str, int]
    nothing: float | None = None


def whole(n: int) -> Whole:
    """Numbers that no shorter type holds; every array but one is a view with gaps or backwards."""
    rng = np.random.default_rng(n)
    radius = rng.random((n, 2))[:, 0] / 3
    radius[::3] = np.inf
    single = rng.random((2, n)).astype(np.float32).T[:, 1]
    points = Points(radius, single, rng.integers(2**40, 2**60, n)[::-1], rng.random(n) < 0.5, ("",) * n)
    return Whole(points, np.arange(2 * n)[::2], 1 / 3, {"pgd": 2**40}, np.inf)


@pytest.mark.parametrize("n", [1, 7])
def test_a_record_is_read_back_equal(n: int, tmp_path: Path) -> None:
    record, path = whole(n), tmp_path / "record.safetensors"
    write_record(path, record)
    again = read_record(path, Whole)
    for one, other in ((record, again), (record.points, again.points)):
        assert vars(one).keys() == vars(other).keys()
        for name, value in vars(one).items():
            if isinstance(value, np.ndarray):
                assert vars(other)[name].dtype == value.dtype, name
                assert np.array_equal(vars(other)[name], value), name
            elif name != "points":
                assert vars(other)[name] == value, name


def test_a_file_of_another_record_gets_a_sentence(tmp_path: Path) -> None:
    write_record(tmp_path / "record.safetensors", whole(3).points)
    with pytest.raises(InputError, match="does not hold what this version of radii writes"):
        read_record(tmp_path / "record.safetensors", Whole)
