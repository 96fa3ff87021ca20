"""An audit read back from its run is the audit that was computed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from radii.data.dataset import Data, Dataset
from radii.geometry.audit import Audit, audit
from radii.geometry.interclass import interclass_distance
from radii.runs.component_specs import DataSpec
from radii.runs.record_files import write_record
from radii.runs.steps import AuditStep
from radii.runs.steps.audit_step import DETAILS, load_audit
from radii.runs.store import Run, Store


def small(train: int, test: int, labels: tuple[int, ...]) -> Data:
    """Random grey levels, a few of them twice; the labels are other numbers than their places."""
    random = np.random.default_rng(train)

    def part(count: int) -> Dataset:
        x = random.integers(0, 256, (count, 1, 3, 3)).astype(np.uint8)
        x[1] = x[0]
        y = np.resize(np.array(labels), count).astype(np.int64)
        return Dataset(x, y, tuple("abcdefgh"), "small")

    return Data(part(train), part(test), "small")


def saved(result: Audit, folder: Path) -> Audit:
    write_record(folder / DETAILS, result)
    return load_audit(Run(folder))


def assert_same(one: Audit, two: Audit) -> None:
    """Equal in every field, arrays too, down to tuples and whole numbers."""
    np.testing.assert_equal(asdict(one), asdict(two))
    assert repr(asdict(one)) == repr(asdict(two))


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("data", [small(200, 50, (7, 0, 5)), small(30, 10, (2, 1))], ids=["200", "30"])
def test_an_audit_is_read_as_it_was_written(data: Data, deep: bool, norm: str, tmp_path: Path) -> None:
    result = audit(data, norm=norm, epsilon=0.1, deep=deep)
    assert_same(saved(result, tmp_path), result)
    np.testing.assert_equal(saved(result, tmp_path).summary(), result.summary())


def test_an_audit_of_one_split_is_read_as_it_was_written(tmp_path: Path) -> None:
    data = small(120, 10, (3, 1, 2))
    result = audit(data.train, deep=True)
    assert_same(saved(result, tmp_path), result)


def test_the_interclass_distance_of_a_run_is_that_of_its_data(tmp_path: Path) -> None:
    spec = DataSpec.of("digits")
    test = spec.load().test
    run = Store(tmp_path).ensure(AuditStep(data=spec, norm="linf", epsilon=8 / 255, deep=True))
    shape = load_audit(run).shape
    assert shape is not None
    assert shape.interclass == interclass_distance(test.x, test.y)
    figures = run.read(AuditStep.Result).shape
    assert figures is not None
    assert figures.interclass_distance == shape.interclass.mean == pytest.approx(2.1475, abs=5e-5)
