"""The point explorer by its data: every state, count and picture, for every radius of the slider."""

from __future__ import annotations

import base64
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from made_assessment import BALL, made_scores
from radii.data._feature_rules import FeatureRules
from radii.data.dataset import Dataset
from radii.evaluation.scores import Scores
from radii.report import picture_sheets
from radii.report.explorer import Explorer
from radii.report.html import Report, Section, write
from radii.report.points import Neighbors, explorer, states_at
from report.conftest import INJECTED, bracket

NAMES = ("proved", "open", "broken", "misclassified", "not attacked")
KINDS = ["proved", "open", "broken", "wrong"]


def random_scores(seed: int, n: int = 60, *, radii: bool = True, x: np.ndarray | None = None) -> Scores:
    """Points with proved and broken radii all over the slider, many of them on its marks; wrong ones, too."""
    draw = np.random.default_rng(seed)
    made = made_scores(draw.choice(KINDS, n).tolist(), draw.integers(0, 3, n).tolist(), radii=radii)
    broken = np.where(made.points.changed, draw.uniform(0.01, 0.5, n), draw.uniform(0.51, 2, n) if radii else np.inf)
    proved = np.where(made.points.proved, draw.uniform(0.5, 0.51, n), draw.uniform(0, 1, n) * np.minimum(broken, 0.49))
    broken = np.where(made.points.changed, np.ceil(broken * 50) / 50, broken)
    proved = np.where(made.points.proved, proved, np.floor(proved * 50) / 50)
    points = replace(made.points, changed_radius=broken, proved_radius=proved)
    x_adv = made.x_adv
    if x is not None:
        moved = x + np.where(points.changed[:, None, None, None], draw.normal(0, 0.05, x.shape), 0)
        x_adv = torch.from_numpy(moved.clip(0, 1).astype(np.float32))
    return replace(made, points=points, x_adv=x_adv)


def images(n: int, shape: tuple[int, ...] = (1, 4, 4), seed: int = 0) -> Dataset:
    x = np.random.default_rng(seed).random((n, *shape), np.float32)
    return Dataset(x, np.arange(n) % 3, ("a", "b", "c", "d"), "made")


def shown(scores: dict[str, Scores], data: Dataset | None = None, near: Neighbors | None = None) -> Explorer:
    n = len(next(iter(scores.values())).points.label)
    return explorer(scores, data or images(n), np.arange(n), "Points", near)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("radii", [True, False])
def test_the_grid_counts_what_the_curve_of_the_scores_counts(seed: int, radii: bool) -> None:
    own = random_scores(seed, radii=radii)
    made = shown({"mine": own})
    assert float(made.radii[made.at]) == BALL.radius
    for k, text in enumerate(made.radii):
        radius = float(text)
        (point,) = own.curve([radius])
        counts = {state.name: int((made.views[0].states[k] == j).sum()) for j, state in enumerate(made.states)}
        counts = dict.fromkeys(NAMES, 0) | counts
        assert counts["misclassified"] == own.clean.total - own.clean.correct
        assert counts["proved"] == point.bracket.proved.correct
        assert counts["proved"] + counts["open"] + counts["not attacked"] == point.bracket.unbroken.correct
        assert bool(counts["not attacked"]) <= (radius > BALL.radius and not radii)
        assert not (radius > BALL.radius and not radii and counts["open"])
        said = made.views[0].said[k]
        assert ("Not attacked" in said) is (radius > BALL.radius and not radii)
        if radius:
            assert f"{counts['proved']} (" in said


def test_the_page_s_runs_are_the_states() -> None:
    made = shown({"mine": random_scores(1), "other": random_scores(2, radii=False)})
    content = json.loads(json.dumps(made.to_dict()))
    for view, told in zip(made.views, content["views"], strict=True):
        for point, runs in enumerate(told["runs"]):
            starts, numbers = runs[::2], runs[1::2]
            for k in range(len(made.radii)):
                assert numbers[max(j for j, start in enumerate(starts) if start <= k)] == view.states[k, point]


def test_states_of_one_point_only_get_worse_with_the_radius() -> None:
    own = random_scores(3)
    for one, two in zip((0.1, 0.3, 0.5), (0.3, 0.5, 1.2), strict=True):
        assert (states_at(own, one) <= states_at(own, two)).all()  # proved, open, broken; misclassified stays


def test_facts_tell_attack_proof_and_the_other_class() -> None:
    own = made_scores(KINDS, [0, 1, 2, 0])
    own = replace(own, points=replace(own.points, proved_by=("crown", "", "", "")))
    data = images(4)
    near = Neighbors(data, np.array([1, 2, 0, -1]), np.array([0.5, 0.25, 1.0, np.inf]))
    content = shown({"mine": own}, data, near).to_dict()
    facts = {fact["title"]: fact for fact in (*content["views"][0]["facts"], *content["facts"])}
    assert facts["proved by"]["values"] == ["crown", None, None, None]
    assert facts["broken within ε by"]["values"] == [None, None, "pgd", None]
    assert [facts["read as"]["names"][k] for k in facts["read as"]["values"]] == ["a", "b", "c", "b"]
    assert facts["nearest other class"]["values"] == [1, 2, 0, None]
    assert facts["its distance"]["values"] == ["0.5", "0.25", "1", None]
    old = replace(own, points=replace(own.points, proved_by=()), certificate_method="crown + margin")
    facts = {fact["title"]: fact for fact in shown({"mine": old}).to_dict()["views"][0]["facts"]}
    assert facts["proved by"]["values"][0] == "one of crown + margin"  # a run of before does not say which


def pixels(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.split(",", 1)[1])))).astype(float)


def tile(sheet: picture_sheets.Sheet, number: int) -> np.ndarray:
    across, down = number % sheet.columns, number // sheet.columns
    whole = pixels(sheet.source)
    return whole[down * sheet.height : (down + 1) * sheet.height, across * sheet.width : (across + 1) * sheet.width]


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 6, 5)])
def test_pictures_are_the_inputs_and_what_attacks_made_of_them(shape: tuple[int, ...]) -> None:
    data = images(60, shape)
    x = data.tensors(np.arange(60))[0].numpy()
    own = random_scores(4, x=x)
    made = shown({"mine": own}, data)
    (clean,), (change, attacked) = made.pictures, made.views[0].pictures
    moved = made.sheets[change.sheet]
    assert [number >= 0 for number in change.tiles] == own.points.changed.tolist()
    for point in range(60):
        exact = np.rint(255 * np.moveaxis(x[point], 0, -1))
        assert (tile(made.sheets["inputs"], clean.tiles[point]) == exact).all()
        if own.points.changed[point]:
            number = attacked.tiles[point]
            levels = (tile(moved, number) - picture_sheets.MIDDLE) / picture_sheets.REACH
            added = exact / 255 + levels * moved.scales[number]
            truth = np.moveaxis(own.x_adv[point].numpy(), 0, -1)
            assert np.abs(added - truth).max() <= moved.scales[number] / (2 * picture_sheets.LEVELS[0]) + 0.01


def test_a_table_shows_names_and_values_before_and_after() -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(0, 100, (60, 50)).astype(np.float32)
    names = tuple(f"column <{k}>" for k in range(50))
    data = Dataset(x, np.arange(60) % 3, ("a", "b", "c", "d"), "table", rules=FeatureRules(names))
    own = random_scores(5)
    after = x.copy()
    after[:, 7] += np.where(own.points.changed, 5, 0)
    made = shown({"mine": replace(own, x_adv=torch.from_numpy(after))}, data)
    content = made.to_dict()
    assert made.note == "The 40 features that attacks move most are shown."
    assert len(content["features"]["names"]) == 40
    place = content["features"]["names"].index("column <7>")
    for point, (before, moved) in enumerate(
        zip(content["features"]["rows"], content["views"][0]["moved"], strict=True)
    ):
        assert (moved is not None) is bool(own.points.changed[point])
        if moved is not None:
            assert moved[place] - before[place] == pytest.approx(5, abs=0.02)


def test_a_thousand_points_of_three_models_stay_below_five_megabytes(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    smooth = draw.random((1000, 3, 8, 8), np.float32).repeat(4, 2).repeat(4, 3)
    x = (0.8 * smooth + 0.2 * draw.random((1000, 3, 32, 32), np.float32)).astype(np.float32)
    data = Dataset(x, np.arange(1000) % 3, ("a", "b", "c", "d"), "made")
    scores = {f"model {k}": random_scores(k, 1000, x=x) for k in range(3)}
    near = Neighbors(data, np.arange(1000)[::-1].copy(), np.ones(1000))
    made = shown(scores, data, near)
    path = write(Report("Points", (Section("Curve", (bracket(),)), Section("All", (made,)))), tmp_path / "page.html")
    assert path.stat().st_size < 5e6
    assert "compressed" in made.note


@pytest.mark.parametrize(("n", "shape"), [(3, (1, 300, 200)), (4000, (1, 28, 28)), (1, (3, 1, 500))])
def test_large_pictures_and_many_points_are_shown_smaller(n: int, shape: tuple[int, ...]) -> None:
    made = picture_sheets.drawn(np.random.default_rng(0).random((n, *shape)), None, [np.zeros((0, *shape))])
    assert made.shrunk > 1
    assert made.inputs.width <= picture_sheets.SIDE
    assert made.inputs.height <= picture_sheets.SIDE
    assert pixels(made.inputs.source).size <= 4 * picture_sheets.PIXELS


def test_names_of_strangers_are_cleaned_and_inert(tmp_path: Path) -> None:
    data = replace(images(8), classes=(INJECTED, "</script>", "b\x1b[2J\u202e", "d"))
    scores = {f"{INJECTED}\u202e": made_scores(KINDS * 2, [0, 1, 2, 0] * 2)}
    text = write(Report("Points", (Section("All", (shown(scores, data),)),)), tmp_path / "page.html").read_text()
    assert not re.search(r"<img src=x|\x1b|\u202e", text)
    assert "\\u003cimg src=x" in text
