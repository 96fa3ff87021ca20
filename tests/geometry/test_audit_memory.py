"""Photo-sized data: the planned memory holds, and 10,000 images of 224 x 224 x 3 fit into 8 GB."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from radii.data.dataset import Dataset
from radii.geometry.audit import AuditSize, _working_bytes, audit, planned_bytes
from radii.geometry.search import engine
from radii.geometry.search.engine import Work


def photos(n: int, d: int, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (n, 3, 1, d // 3), dtype=np.uint8)
    return Dataset(x, np.arange(n) % 2, ("a", "b"), "photos", known_digest=f"{n} {seed}")


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_an_audit_of_long_rows_stays_within_its_plan(norm, monkeypatch) -> None:
    """Blocks of thousands of rows, harmless for small images, would be gigabytes here."""
    monkeypatch.setattr(engine, "BRUTE_FORCE_BELOW", 0)
    train, test = photos(104, 60_000), photos(20, 60_000, seed=1)
    size = AuditSize(104, 20, 60_000)
    tracemalloc.start()
    audit(train, test, norm=norm, deep=True, work=Work(1))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < max(_working_bytes(size, 1).values())


@pytest.mark.parametrize(
    ("train", "test", "dimensions", "gigabytes"),
    [(8_000, 2_000, 3 * 224 * 224, 8), (50_000, 10_000, 3072, 4), (1_000_000, 10_000, 3072, 8)],
)
def test_planned_memory(train: int, test: int, dimensions: int, gigabytes: float) -> None:
    assert planned_bytes(AuditSize(train, test, dimensions), workers=4) < gigabytes * 1e9
