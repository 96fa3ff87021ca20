"""Comparisons and leaderboards: pairs of points add up, like stays with like, and comments have six lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radii.errors import InputError
from radii.evaluation.comparison import successes
from radii.report.board_page import page as board_page
from radii.report.comparison_page import comment, page, pairs, verdict
from radii.report.html import Bars, Issues, render
from radii.runs.comparison import compare_runs as compare
from radii.runs.planning import data_spec, train_step
from radii.runs.standings import board
from radii.runs.steps import Evaluate
from radii.runs.store import Run, Store
from radii.threat import Ball

EFFORTS: dict[str, dict[str, Any]] = {
    "pgd": {"suite": "pgd"},
    "fast": {"suite": "fast"},
    "no proofs": {"suite": "pgd", "certify": False},
    "wide": {"suite": "pgd", "ball": Ball.parse("l2:0.2")},
    "few": {"suite": "pgd", "points": 12},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(Path(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def runs(store: Store) -> dict[tuple[int, str], Run]:
    """Two networks, each with every effort."""
    data = data_spec("digits", store)
    nets = [train_step(data, "mlp", "natural", {"epochs": 1 + 4 * k, "model": {"width": 8}}, seed=k) for k in (0, 1)]
    usual = {"data": data, "ball": Ball.parse("l2:0.1"), "points": 20}
    return {
        (k, name): store.ensure(Evaluate(**usual | {"model": net} | effort))
        for k, net in enumerate(nets)
        for name, effort in EFFORTS.items()
    }


def test_the_pairs_of_points_are_those_of_the_test(runs: dict[tuple[int, str], Run]) -> None:
    found = compare([runs[0, "pgd"], runs[1, "pgd"]])
    ((name, differences),) = found.differences.items()
    made = pairs(found)
    assert [view.name for view in made.views] == [f"{name}: {share}" for share in ("unbroken", "proved", "clean")]
    for k, share in enumerate(("unbroken", "proved", "clean")):
        count, own = made.counts(k), differences[share]
        assert (count["lost"], count["won"]) == (own.lost, own.won)
        first, second = (successes(scores)[share] for scores in found.scores.values())
        assert count["both"] == int(np.sum(first & second))
        assert sum(count.values()) == len(found.rows) == 20
    text = render(page(found))
    assert '"first: misclassified input"' in text
    assert found.runs[name] in text


def test_points_are_the_common_ones(runs: dict[tuple[int, str], Run]) -> None:
    found = compare([runs[0, "pgd"], runs[1, "few"]])
    assert len(found.rows) == len(pairs(found).rows) == 12
    step = Evaluate(**{name: getattr(found, name) for name in ("data", "ball")}, model=_model(runs), points=12)
    assert found.rows.tolist() == step.rows(found.data.load()).tolist()


def _model(runs: dict[tuple[int, str], Run]) -> Any:
    from radii.runs.step import from_json

    return from_json(runs[0, "pgd"].spec).model  # type: ignore[attr-defined]


@pytest.mark.parametrize(("other", "missing"), [("pgd", ""), ("fast", "unbroken"), ("no proofs", "proved")])
def test_unlike_shares_are_neither_paired_nor_tested(
    runs: dict[tuple[int, str], Run], other: str, missing: str
) -> None:
    found = compare([runs[0, "pgd"], runs[1, other]])
    shown = page(found)
    assert not any(missing and view.name.endswith(missing) for view in pairs(found).views)
    told = [issue.title for block in shown.headline if isinstance(block, Issues) for issue in block.issues]
    assert any("not compared" in title for title in told) is bool(missing)
    lines = comment(found).splitlines()
    assert len(lines) == 6
    assert [missing in line for line in lines if missing and "not compared: the efforts differ" in line] == (
        [True] if missing else []
    )
    ((_, differences),) = found.differences.items()
    assert ("not compared" in verdict(differences)) is bool(missing)


def test_other_threats_are_refused(runs: dict[tuple[int, str], Run]) -> None:
    with pytest.raises(InputError, match="differ in the threat"):
        compare([runs[0, "pgd"], runs[1, "wide"]])


def test_a_board_never_mixes_unlike_efforts(store: Store, runs: dict[tuple[int, str], Run]) -> None:
    found = board(store.runs())
    assert not found.unread
    listed = [own.run for standings in found.contests.values() for own in standings]
    assert sorted(listed) == sorted(run.id for run in runs.values())
    assert len(found.contests) == len(EFFORTS)
    for contest, standings in found.contests.items():
        (effort,) = {name for (_, name), run in runs.items() if run.id in [own.run for own in standings]}
        assert (contest.points, contest.ball.radius) == (
            12 if effort == "few" else 20,
            0.2 if effort == "wide" else 0.1,
        )
        shares = [own.robust.proved.value for own in standings]
        assert shares == sorted(shares, reverse=True)
    shown = board_page(found, "here")
    boxes = [[block for block in own.blocks if isinstance(block, Bars)] for own in shown.sections]
    assert [len(own) for own in boxes] == [4, 1]  # two threats
    assert "Only models of one box can be compared" in shown.sections[0].lead
    assert json.loads(json.dumps(found.to_dict()))["contests"][0]["standings"][0]["robust"]


def test_a_run_that_cannot_be_read_is_named(store: Store, runs: dict[tuple[int, str], Run], tmp_path: Path) -> None:
    folder = tmp_path / runs[0, "pgd"].id
    folder.mkdir()
    (folder / "spec.json").write_text("{}")
    found = board([Run(folder), runs[1, "pgd"]])
    assert list(found.unread) == [folder.name]
    assert folder.name in render(board_page(found, "here"))


def test_the_commands(
    radii: Callable[..., Any], store: Store, runs: dict[tuple[int, str], Run], tmp_path: Path
) -> None:
    ids = [runs[0, "pgd"].id, runs[1, "pgd"].id]
    done = radii("compare", *ids, "--store", store.root, "--html", tmp_path / "c.html", "--markdown", "-")
    assert (done.code, done.out.count("\n")) == (0, 6)
    assert done.out.startswith("### radii: `mlp by natural, seed 1` against `mlp by natural`\n")
    assert "Every common point" in (tmp_path / "c.html").read_text()
    assert radii("compare", *ids, "--store", store.root, "--json", "-", "--markdown", "-").code == 2
    done = radii("board", store.root, "--out", tmp_path / "b.html", "--json", "-")
    assert len(json.loads(done.out)["contests"]) == len(EFFORTS)
    assert (tmp_path / "b.html").read_text().count("95% interval") >= len(EFFORTS)
    assert radii("board", tmp_path, "--out", tmp_path / "n.html").code == 2
    assert not (tmp_path / "n.html").exists()


def test_names_of_models_stay_words_in_a_comment(runs: dict[tuple[int, str], Run]) -> None:
    found = compare([runs[0, "pgd"], runs[1, "pgd"]])
    hostile = "a`b\n## c"
    renamed = {name: dict(getattr(found, name)) for name in ("scores", "attacks", "differences", "runs")}
    (old,) = found.differences
    from dataclasses import replace

    text = comment(
        replace(
            found,
            **{
                field: {hostile if key == old else key: own for key, own in part.items()}
                for field, part in renamed.items()
            },
        )
    )
    assert text.splitlines()[0].startswith("### radii: `a'b ## c` against")
    assert len(text.splitlines()) == 6
