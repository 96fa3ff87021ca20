"""The search draws log-uniformly, holds points out, survives divergence and finds the better rate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from radii.data.dataset import Data, Dataset
from radii.errors import InputError
from radii.runs.planning import data_spec, train_step
from radii.runs.rate_search import RateSearch, RateTrial, _trial_steps, draw_rates, search_rates
from radii.runs.steps.train_step import _hold_out
from radii.runs.store import Store


def two_classes(n: int = 200) -> Data:
    random = np.random.default_rng(0)
    y = np.arange(n) % 2
    x = (random.random((n, 4)) * 0.5 + 0.4 * y[:, None]).astype(np.float32)
    whole = Dataset(x, y.astype(np.int64), ("a", "b"), "two")
    return Data(whole, whole.take(slice(0, 50)), "two")


def test_rates_are_log_uniform_and_spread() -> None:
    drawn = np.log10(draw_rates(400, 1e-3, 10, seed=0))
    assert (np.diff(drawn) >= 0).all()
    assert drawn.min() >= -3
    assert drawn.max() <= 1
    assert np.histogram(drawn, bins=4, range=(-3, 1))[0].tolist() == pytest.approx([100] * 4, abs=1)
    assert draw_rates(3, 1e-3, 10, seed=0) == draw_rates(3, 1e-3, 10, seed=0)
    for wrong in ((0, 1e-3, 1), (3, 1.0, 0.1), (3, 0.0, 1.0)):
        with pytest.raises(InputError, match="0 < low < high"):
            draw_rates(*wrong, seed=0)


def test_held_out_points_are_disjoint_balanced_and_never_the_test_split() -> None:
    data = two_classes()
    split = _hold_out(data, 0.2, seed=1)
    assert (len(split.train), len(split.test)) == (160, 40)
    assert np.bincount(split.test.y).tolist() == [20, 20]
    both = {row.tobytes() for row in split.train.x} | {row.tobytes() for row in split.test.x}
    assert both == {row.tobytes() for row in data.train.x}
    with pytest.raises(InputError, match="both sides"):
        _hold_out(data, 0.001, seed=1)


def test_the_search_finds_a_rate_that_learns(tmp_path: Path) -> None:
    store = Store(tmp_path)
    settings = {"epochs": 4, "batch_size": 20, "model": {"width": 8}}
    template = train_step(data_spec(two_classes(), store), "mlp", "natural", settings)
    found = search_rates(template, [1e-6, 0.5, 1e30], validation=0.2, store=store, workers=0)
    assert found.best.lr == 0.5
    assert found.trials[2].validation_accuracy is None  # diverged, told, and no obstacle to the others
    assert (found.best.validation_accuracy or 0) > 0.9
    assert len(store.runs()) == 2
    assert template.run_id not in {step.run_id for step in _trial_steps(template, [0.1], 0.2)}


def test_all_diverged_is_told() -> None:
    with pytest.raises(InputError, match="diverged"):
        _ = RateSearch((RateTrial(1.0, None, None, None),)).best
