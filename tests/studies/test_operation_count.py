"""The cost of a step by counted operations: a closed form for known layers, and what an objective multiplies it by."""

from __future__ import annotations

import pytest
from torch import nn

from radii.papers.catalog.attacked_variants import AttackPoints
from radii.runs.inputs import DataSpec
from radii.runs.planning import train_step
from radii.runs.steps import Evaluate, Train
from radii.studies.operation_count import KERNEL, THROUGHPUT, Operations, count_multiply_adds, gpu_seconds, operations
from radii.threat import Ball

BALL = Ball("linf", 0.1)


def training(method: str = "natural", **arguments: object) -> Train:
    settings = {"steps": 10, "batch_size": 20, "model": {"widen": 0.125}, "method": arguments}
    return train_step(DataSpec.of("digits"), "lenet5", method, settings)


def test_a_convolution_and_a_matrix_are_counted_by_hand() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 6 * 6, 10))
    assert count_multiply_adds(model, (1, 8, 8)) == 4 * 9 * 36 + 144 * 10


def test_weights_that_are_computed_count_once_a_batch() -> None:
    """An AOL layer multiplies its matrix by itself for every batch, not for every image."""
    model = {"width": 256, "depth": 2, "layer": "aol"}
    small, large = (
        operations(train_step(DataSpec.of("digits"), "lipschitz-mlp", "natural", {"model": model, **length}))
        for length in ({"steps": 64, "batch_size": 16}, {"steps": 1, "batch_size": 1024})
    )
    assert small is not None
    assert large is not None
    images = 1024 * (64 * 256 + 256 * 256 + 256 * 10)
    assert large.multiply_adds < 3 * 2 * images < small.multiply_adds


def test_an_inner_search_multiplies_the_work() -> None:
    plain, attacked = operations(training()), operations(training("adversarial", threat="linf:0.1", steps=7))
    assert plain is not None
    assert attacked is not None
    assert attacked.multiply_adds == pytest.approx(8 * plain.multiply_adds)
    assert attacked.kernels == pytest.approx(8 * plain.kernels)


def test_an_evaluation_counts_its_points() -> None:
    few, all_points = (
        operations(Evaluate(model=training(), data=DataSpec.of("digits"), ball=BALL, suite="pgd", points=points))
        for points in (10, 100_000)
    )
    assert few is not None
    assert all_points is not None
    assert all_points.multiply_adds / few.multiply_adds == pytest.approx(len(DataSpec.of("digits").load().test) / 10)


def test_the_slower_of_both_limits_counts() -> None:
    assert Operations(THROUGHPUT, 1).gpu_seconds == pytest.approx(1.0)
    assert Operations(1, 3 / KERNEL).gpu_seconds == pytest.approx(3.0)


def test_users_code_is_not_run_to_count_it() -> None:
    own = training()
    own = own.model_copy(update={"model": own.model.model_copy(update={"name": "package.module:network"})})
    assert operations(own) is None
    assert gpu_seconds([own]) == 0


def test_cells_of_a_grid_have_a_count() -> None:
    cells = AttackPoints(BALL, test=10, suite=5).cells(training("adversarial"), {"method": "PGD"})
    assert all(operations(cell.step) is not None for cell in cells)
