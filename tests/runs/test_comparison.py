"""Like is compared with like: every pair of efforts, and what a comparison says of it."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from radii.runs.comparison import compare_runs as compare
from radii.runs.planning import data_spec, train_step
from radii.runs.steps import Evaluate
from radii.runs.store import Run, Store
from radii.threat import Ball

EFFORTS = {
    "pgd": {"suite": "pgd"},
    "fast": {"suite": "fast"},
    "no radii": {"suite": "pgd", "minimum_norm": False},
    "no proofs": {"suite": "pgd", "certify": False},
    "transfer": {"suite": "pgd", "surrogate": True},
    "complete": {"suite": "pgd", "complete": 0.01},
}
ATTACKS = {
    "pgd": "pgd + minimum-norm",
    "fast": "fast + minimum-norm",
    "no radii": "pgd",
    "no proofs": "pgd + minimum-norm",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, str], Run]:
    """Two networks, each evaluated with every effort."""
    store = Store(Path(tmp_path_factory.mktemp("runs")))
    data = data_spec("digits", store)
    nets = [train_step(data, "mlp", "natural", {"epochs": 1, "model": {"width": 8}}, seed=k) for k in (0, 1)]
    made = {}
    for (number, net), (name, effort) in product(enumerate(nets), EFFORTS.items()):
        own = dict(effort)
        surrogate = {"surrogate": nets[0]} if own.pop("surrogate", False) else {}
        made[number, name] = store.ensure(
            Evaluate(model=net, data=data, ball=Ball.parse("l2:0.1"), points=20, **own, **surrogate)  # type: ignore[arg-type]
        )
    return made


@pytest.mark.parametrize(("one", "two"), list(product(EFFORTS, EFFORTS)))
def test_unlike_shares_have_no_difference_and_a_warning(runs: dict[tuple[int, str], Run], one: str, two: str) -> None:
    found = compare([runs[0, one], runs[1, two]])
    (differences,) = found.differences.values()
    assert "clean" in differences
    same_attacks = one == two or {one, two} == {"pgd", "no proofs"}
    same_proofs = one == two or not {one, two} & {"no proofs", "complete"}
    assert ("unbroken" in differences) is same_attacks
    assert ("proved" in differences) is same_proofs
    warned = " ".join(found.warnings)
    assert ("different attacks" in warned) is not same_attacks
    assert "different methods" in warned or len(set(found.certificates.values())) == 1
    shares = {row["share"] for row in found.difference_table().rows}
    assert shares == set(differences) == set(next(iter(found.to_dict()["differences"].values())))
    said = [row["attacks"] for row in found.table().rows]
    assert said == list(found.attacks.values()) == list(found.to_dict()["attacks"].values())
    for name, words in zip((one, two), said, strict=True):
        assert name not in ATTACKS or words == ATTACKS[name]


def test_differences_are_percentage_points(runs: dict[tuple[int, str], Run]) -> None:
    found = compare([runs[0, "pgd"], runs[1, "pgd"]])
    table = found.difference_table()
    column = table.headings.index("difference")
    for row, cells in zip(table.rows, table.cells, strict=True):
        assert cells[column].startswith(f"{100 * row['difference']:.1f} pp [")
        assert "%" not in cells[column]
