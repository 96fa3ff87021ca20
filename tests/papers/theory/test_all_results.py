"""Every result of the catalog: holds when small, says what it is, and refuses what its theorem does not cover."""

from __future__ import annotations

import inspect
import json
from typing import Annotated, Any, get_origin, get_type_hints

import pytest

from radii.errors import InputError
from radii_papers import theory
from radii_papers.theory.statements import STATEMENTS, statement

BAD = [
    ("no-free-robustness", {"n": 1}, "n must lie in"),
    ("no-free-robustness", {"delta": 1.0}, "Theorem 1 needs 0 < delta < 1"),
    ("no-free-robustness", {"precision": 0.0}, "precision must be positive"),
    ("nearest-neighbor-bound", {"delta": 0.5}, "more than 2 delta apart"),
    ("nearest-neighbor-bound", {"delta": 0.3, "radius": 0.3}, "between 0 and delta"),
    ("nearest-neighbor-bound", {"d": 9, "delta": 0.1}, "at most 400000"),
    ("nearest-neighbor-bound", {"n": 3}, "atoms of mass 1/n"),
    ("r-separation", {"classes": 1}, "classes must be at least 2"),
    ("r-separation", {"r": 0.0}, "r > 0"),
    ("half-spaces", {"epsilon": 0.5}, "0 < epsilon < 1/2"),
    ("half-spaces", {"d": ()}, "Dimensions"),
    ("concentration", {"mass": 0.4}, "P(A) ≥ 1/2"),
    ("concentration", {"ball_epsilon": 3.0}, "diameter 2"),
    ("concentric-spheres", {"outer": 1.0}, "larger than the inner"),
    ("concentric-spheres", {"epsilon": 0.2}, "must not meet"),
    ("concentric-spheres", {"n": 60}, "at most 100000 half-spaces"),
    ("facets", {"largest": 20}, "2..8"),
    ("random-networks", {"activations": ("sine",)}, "relu, tanh and gelu"),
    ("random-networks", {"networks": 2}, "over networks"),
    ("gradient-steps", {"d": 50}, "at least 100"),
    ("gradient-steps", {"activations": ("sine",)}, "relu, tanh and gelu"),
    ("gradient-steps", {"gamma": (1.5,)}, "between 0 and 1"),
    ("gradient-steps", {"gamma": (1e-4,)}, "at least 20 draws"),
    ("gradient-flow", {"loss": 1.0}, "below 1"),
    ("gradient-flow", {"d": (100,)}, "two dimensions"),
    ("max-margin-bias", {"d": (64, 128), "n": 30}, "n ≤ (d + 1)/(3(max|⟨x_i, x_j⟩| + 1))"),
    ("robust-network", {"n": 1}, "n ≥ 2"),
    ("gaussian-model", {"c": 0.7}, "c ≤ 0.656"),
    ("gaussian-model", {"epsilon": (0.3,)}, "epsilon ≤ 1/4"),
    ("gaussian-branches", {"c": 0.63}, "c ≤ 0.614"),
    ("gaussian-branches", {"epsilon": 0.3}, "epsilon ≤ 1/4"),
    ("gaussian-branches", {"d": (100,)}, "d ≥ 10,000"),
    ("gaussian-branches", {"far": (1e4,)}, "larger ones"),
    ("bernoulli-model", {"c": 0.7}, "c ≥ 0.763"),
    ("bernoulli-model", {"ratio": 2.0}, "epsilon ≥ 2 tau"),
    ("euclidean-bound", {"delta": 0.5}, "0 < delta < 1/2"),
    ("euclidean-bound", {"radius": 0.5}, "between 0 and delta"),
    ("euclidean-bound", {"d": (8,)}, "at most 5000"),
    ("useful-points", {"n": 100}, "a power of 2"),
    ("useful-points", {"n": 64, "k": (9,)}, "between 1 and n/16"),
    ("robust-margin", {"d": 11}, "between 1 and 10"),
    ("robust-margin", {"budget": 0.0}, "budget must be positive"),
    ("gradient-stability", {"d": (100,)}, "two dimensions"),
    ("gradient-stability", {"radius": 5.0}, "no longer of first order"),
    ("class-balance", {"n": 60}, "(d + 1)/3"),
    ("class-balance", {"shares": (0.6,)}, "between 1/n"),
    ("beyond-separation", {"inner": 1.0}, "[0, d)"),
    ("beyond-separation", {"loss": 0.7}, "below log 2"),
    ("error-near-half", {"gammas": (0.5,)}, "between 0 and 1/2"),
    ("error-near-half", {"d": 1000}, "d ≥ 1,000,000"),
    ("error-near-half", {"ratio": 1.0}, "well below tau"),
    ("low-dimensional-data", {"k": (100, 2000)}, "between 50 and d/4"),
    ("low-dimensional-data", {"epsilon": 1.2}, "within reach"),
    ("many-sample-tasks", {"noise": (0.5,)}, "within reach"),
    ("network-samples", {"n": (8,)}, "two numbers of training points"),
    ("euclidean-attacks", {"d": (100,)}, "d ≥ 10,000"),
    ("structured-data", {"s": (20_000,)}, "between 5 and d/20"),
    ("network-against-kernel", {"n": (5000,)}, "between d and p"),
    ("generalization-measures", {"noise": (0.0, 1.0)}, "three shares"),
    ("generalization-measures", {"width": 2}, "learn every label"),
    ("neighbor-distances", {"n": 100}, "Curves need n"),
]


@pytest.mark.parametrize("name", STATEMENTS)
def test_holds_and_is_plain_data(name: str, small: dict[str, dict[str, Any]]) -> None:
    result = statement(name).simulation()(**small[name])
    failing = [row for row in result.rows if not row.holds]
    assert not failing
    assert result.holds
    assert result.verdict == "holds"
    assert (result.name, result.source, result.statement) == (
        name, STATEMENTS[name].source, STATEMENTS[name].says)  # fmt: skip
    assert small[name].items() <= dict(result.parameters).items()
    assert any(row.predicted is not None for row in result.rows)
    assert result.marks
    assert all(mark["y"] == mark["y"] for mark in result.marks)
    text = json.dumps(result.to_dict(), allow_nan=False)
    assert json.loads(text)["verdict"] == "holds"


@pytest.mark.parametrize(("name", "parameters", "assumption"), BAD)
def test_parameters_outside_the_assumptions_are_refused(name: str, parameters: dict[str, Any], assumption: str) -> None:
    with pytest.raises(InputError) as refusal:
        statement(name).simulation()(**parameters)
    assert assumption in str(refusal.value)


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_parameter_is_typed_and_explained(name: str) -> None:
    simulate = statement(name).simulation()
    assert "Args:" in str(simulate.__doc__)
    hints = get_type_hints(simulate, include_extras=True)
    for parameter in inspect.signature(simulate).parameters.values():
        assert parameter.default is not inspect.Parameter.empty
        assert f"    {parameter.name}: " in str(simulate.__doc__)
        assert parameter.name == "seed" or get_origin(hints[parameter.name]) is Annotated


def test_the_same_seed_gives_the_same_numbers() -> None:
    one, same, other = (theory.half_spaces(d=(10,), samples=500, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.rows != other.rows


def test_functions_are_reached_by_name() -> None:
    assert theory.facets is STATEMENTS["facets"].simulation()
    assert "facets" in dir(theory)
    with pytest.raises(AttributeError):
        theory.free_lunch  # noqa: B018
    with pytest.raises(InputError, match="Did you mean 'facets'"):
        statement("facet")


@pytest.mark.heavy
@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("seed", [0, 1])
def test_defaults_hold(name: str, seed: int) -> None:
    result = statement(name).simulation()(seed=seed)
    assert not [row for row in result.rows if not row.holds]
