"""Curves of robust accuracy: nothing is drawn where nothing was tried, and chart and table agree at the radius."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

import radii
from made_assessment import BALL, made_assessment, made_scores
from radii.evaluation.curves import curve_chart, radius_grid
from radii.evaluation.scores import Scores
from radii.report.assessment import page
from radii.report.charts import draw
from radii.tables import ChartSpec
from radii.threat import Ball

KINDS = ["proved"] * 12 + ["open"] * 7 + ["broken"] * 5 + ["wrong"] * 3
EFFORTS = {
    "everything": {},
    "attacks in the ball only": {"radii": False},
    "proofs for the radius": {"proved_radius": BALL.radius},
    "both": {"radii": False, "proved_radius": BALL.radius},
    "no proofs": {"kinds": ["open"] * 19 + KINDS[19:], "certificate": None},
    "attacks in the ball alone": {"kinds": ["open"] * 19 + KINDS[19:], "certificate": None, "radii": False},
}


def scores_of(name: str) -> Scores:
    return made_scores(**({"kinds": KINDS} | EFFORTS[name]))  # type: ignore[arg-type]


@pytest.mark.parametrize(("one", "two"), list(product(EFFORTS, EFFORTS)))
def test_lines_end_where_nothing_was_tried(one: str, two: str) -> None:
    scores = {f"first, {one}": scores_of(one), f"second, {two}": scores_of(two)}
    chart = curve_chart(scores, "two models", "model")
    for name, own in scores.items():
        effort = name.partition(", ")[2]
        lines = {
            bound: {row["radius"]: row for row in chart.rows if row["bound"] == bound and row["model"] == name}
            for bound in ("proved", "unbroken")
        }
        tried, beyond = own.certificate_method is not None, "attacks in the ball" not in effort and effort != "both"
        assert (max(lines["unbroken"]) > BALL.radius) is beyond
        assert bool(lines["proved"]) is tried
        for_radius = effort in ("proofs for the radius", "both")
        assert (max(lines["proved"], default=0) > BALL.radius) is (tried and not for_radius)
        for bound, line in lines.items():  # at the radius itself chart and table say the same
            share = getattr(own.robust, bound)
            if tried or bound == "unbroken":
                said = line[BALL.radius]
                assert (said["accuracy"], said["low"], said["high"]) == (share.value, *share.interval)
        assert (name in _sentence(chart.note, "No proofs of")) is not tried
        assert (name in _sentence(chart.note, "were made for ε")) is for_radius
        assert (name in _sentence(chart.note, "were made at ε only")) is not beyond


def _sentence(note: str, words: str) -> str:
    return next((own for own in note.split(". ") if words in own), "")


@pytest.mark.parametrize("names", [(one,) for one in EFFORTS] + [("no proofs", "everything")])
def test_proved_is_blue_and_unbroken_orange_whatever_comes_first(names: tuple[str, ...]) -> None:
    chart = curve_chart({name: scores_of(name) for name in names}, "models", "model")
    color = draw(chart).to_dict()["layer"][1]["encoding"]["color"]["scale"]["domain"]
    assert color.index("unbroken") == 1
    assert "proved" not in color or color.index("proved") == 0


@pytest.mark.parametrize("radius", [0.5, 8 / 255, 36 / 255, 1 / 3, 1e-3, 7.0, 0.0])
@pytest.mark.parametrize("spread", [0.1, 1.0, 300.0])
def test_the_radius_is_on_a_round_grid(radius: float, spread: float) -> None:
    own = scores_of("everything")
    points = own.points
    far = np.where(np.isfinite(points.changed_radius), np.maximum(points.changed_radius, points.proved_radius), np.inf)
    arrays = dict(vars(points)) | {"changed_radius": spread * far, "proved_radius": spread * points.proved_radius}
    ball = Ball("l2", radius)
    made = Scores(ball, own.suite, 0, type(points)(**arrays), own.passes, own.x_adv, own.certificate_method)
    grid = radius_grid([made])
    assert radius in grid
    assert grid[0] == 0
    assert grid == sorted(set(grid))
    assert len(grid) <= 130
    for own_radius in grid:
        assert own_radius == radius or len(f"{own_radius:.10g}".replace(".", "").strip("0")) <= 3


def test_a_real_evaluation_agrees_with_its_table_at_the_radius() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    x = torch.rand(60, 2)
    y = (x.sum(1) > 1).long()
    for measure in (True, False):
        scores = radii.evaluate(model, x, y, "linf:0.03", suite="fast", radii=measure)
        at = {row["bound"]: row["accuracy"] for row in scores.plot().rows if row["radius"] == 0.03}
        assert at == {"proved": scores.robust.proved.value, "unbroken": scores.robust.unbroken.value}
        assert (max(row["radius"] for row in scores.plot().rows if row["bound"] == "unbroken") > 0.03) is measure


def test_report_and_compare_draw_the_same_runs_alike() -> None:
    scores = {"one": scores_of("everything"), "two": scores_of("attacks in the ball only")}
    sections = page(made_assessment(scores)).sections
    (shown,) = (
        block
        for own in sections
        for block in own.blocks
        if isinstance(block, ChartSpec) and any("bound" in row for row in block.rows)
    )
    compared = curve_chart(scores, "2 models", "model")
    assert [dict(row) | {"model": row["classifier"]} for row in shown.rows] == [
        dict(row) | {"classifier": row["model"]} for row in compared.rows
    ]
    assert shown.rules == compared.rules
    assert shown.note == compared.note
