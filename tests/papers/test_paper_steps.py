"""Steps that train nothing: they say what the functions behind them say, and survive JSON."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import radii_papers.theory
from radii.data import sources
from radii.errors import InputError
from radii.geometry.volume import log_volume
from radii.runs.component_specs import DataSpec
from radii.runs.step import STEPS, from_json
from radii.runs.store import Store
from radii_papers.formulas import NAMES, formula
from radii_papers.measurements import (
    InterclassResult,
    NeighborDistancesResult,
    SpectrumResult,
    TheoryResult,
    VolumeResult,
)
from radii_papers.steps import (
    Formula,
    MeasureInterclassDistance,
    MeasureNeighborDistances,
    MeasureSpectrum,
    MeasureVolume,
    Theory,
)


def test_a_theorem_as_a_step(tmp_path: Path) -> None:
    step = Theory.of("facets", {"largest": 3}, seed=5)
    assert step.arguments == {"largest": 3, "random_polytopes": 6}
    result = Store(tmp_path).ensure(step).read(TheoryResult).to_json()
    direct = radii_papers.theory.facets(largest=3, seed=5).to_dict()
    assert result["rows"] == direct["rows"]
    assert "chart" not in result
    assert from_json(step.to_json()) == step
    assert Theory.of("facets").run_id != step.run_id
    assert Theory.of("half-spaces").arguments["d"] == [10, 100, 784, 3072]  # JSON has no tuples
    with pytest.raises(InputError, match="half-spaces"):
        Theory.of("half-space")


def test_formulas_against_closed_forms() -> None:
    figures = {name: formula(name)(3) for name in NAMES if name != "lipschitz-networks"}
    assert figures["uniform"]["variance"] == pytest.approx(1 / 12, abs=3e-4)
    assert figures["smoothing"]["votes of 1000 for a certificate"] == 903
    assert figures["margin-radius"] == {"flipped at .999 radius": 0.0, "flipped at 1.001 radius": 1.0}
    assert figures["gradient-penalty"]["squared over exact"] == pytest.approx(1, abs=0.01)
    assert figures["lipschitz-estimator"]["ascending over exact"] == pytest.approx(1, abs=0.01)
    with pytest.raises(InputError, match="margin-radius"):
        formula("margin-radios")


def test_measures_of_the_digits(tmp_path: Path) -> None:
    store, data = Store(tmp_path), DataSpec.of("digits")
    loaded = sources.load("digits")
    volume = store.ensure(MeasureVolume(data=data, epsilon=0.3)).read(VolumeResult)
    assert volume.mean == pytest.approx(float(log_volume(loaded.test.x, 0.3).mean()))
    assert volume.low <= volume.mean <= volume.high
    shares = store.ensure(MeasureSpectrum(data=data, bands=((1, 16), (17, 64), (1, 64)))).read(SpectrumResult).shares
    assert shares["1-16"] + shares["17-64"] == pytest.approx(shares["1-64"]) == 1
    flat = loaded.train.x.reshape(len(loaded.train), -1) / 255 if loaded.train.x.dtype == np.uint8 else loaded.train.x
    variance = np.linalg.eigvalsh(np.cov(flat.reshape(len(flat), -1).astype(float).T))[::-1]
    assert shares["1-16"] == pytest.approx(variance[:16].sum() / variance.sum(), abs=1e-5)
    assert store.ensure(MeasureInterclassDistance(data=data)).read(InterclassResult).mean > 0
    found = store.ensure(MeasureNeighborDistances(data=data, queries=100)).read(NeighborDistancesResult)
    means = [row.mean for row in found.curve]
    assert means == sorted(means, reverse=True)
    assert found.dimension.low <= found.dimension.value <= found.dimension.high


def test_steps_of_the_papers_are_known_and_have_their_own_kinds() -> None:
    assert all(STEPS.entry(kind).kind == kind for kind in STEPS)
    assert Formula(name="uniform").run_id.startswith("formula-")
