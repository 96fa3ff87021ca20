"""No sentence of the report is stronger than its statistics: counts, floors and weakest classes over made-up points."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_assessment import KINDS, made_assessment, made_scores, made_training
from radii.errors import InputError
from radii.evaluation.scores import Scores
from radii.report.assessment import page
from radii.report.findings import LEAST, class_finding, verdict
from radii.report.html import Bars, Commands, render
from radii.runs.store import Store
from radii.studies.assess import AssessmentRequest
from radii.tables import ChartSpec, Table

COUNTS = st.tuples(*[st.integers(0, 40)] * 4).filter(any)
ADVICE = re.compile(r"\b(rely|trust|safe|promise|treat|should|must|good|bad|robust enough)\b", re.IGNORECASE)


def kinds_of(counts: tuple[int, ...]) -> list[str]:
    return [kind for kind, count in zip(KINDS, counts, strict=True) for _ in range(count)]


@given(COUNTS, st.sampled_from(["1-Lipschitz", "mine.py:net"]), st.booleans())
def test_the_verdict_states_counts_and_never_advises(counts: tuple[int, ...], name: str, tried: bool) -> None:
    proved, still_open, broken, wrong = counts if tried else (0, counts[0] + counts[1], *counts[2:])
    scores = made_scores(kinds_of((proved, still_open, broken, wrong)), certificate="margin" if tried else None)
    said = verdict(made_assessment({name: scores}))
    total, left = sum(counts), proved if tried else still_open
    low, high = (scores.robust.proved if tried else scores.robust.unbroken).interval
    assert f"{left} of {total} test images ({left / total:.0%}, 95% interval {100 * low:.0f} to {high:.0%})" in said
    assert (
        f"{broken + wrong} ({(broken + wrong) / total:.0%}) are misclassified ({wrong}) or were broken ({broken})."
        in said
    )
    opened = f"{still_open} ({still_open / total:.0%}) are open." if still_open else "No point is open."
    assert (opened in said) is tried
    assert "within L2 distance 0.5" in said
    assert not ADVICE.search(said)
    guess = scores.clean.interval[0] <= 1 / 11
    assert ("cannot be told from guessing" in said) is guess


def test_features_are_points_and_references_say_so() -> None:
    scores = made_scores(["proved"] * 9)
    assert "9 of 9 test points" in verdict(made_assessment({"mine": scores}, images=False))
    assert "The standard network, trained here as a reference, is" in verdict(made_assessment({"standard": scores}))


def test_every_model_of_the_user_has_its_counts() -> None:
    one, two = made_scores(["proved", "open"] * 30), made_scores(["open"] * 60, certificate=None)
    said = verdict(made_assessment({"one": one, "two": two, "standard": one}))
    assert said.index("one is proved correct") < said.index("two was only attacked")
    assert "standard" not in said.partition("\n")[2], "the counts are those of the user's models"


@given(
    COUNTS.filter(lambda counts: sum(counts) > 1), st.floats(0.01, 1), st.sampled_from(["clean", "robust", "proved"])
)
def test_a_floor_is_judged_by_the_end_of_the_interval(counts: tuple[int, ...], floor: float, measure: str) -> None:
    scores = made_scores(kinds_of(counts))
    require = f"{measure}>={floor:.3f}" if measure == "clean" else f"{measure}(l2:0.5)>={floor:.3f}"
    said = verdict(made_assessment({"mine": scores}, require=[require]))
    share = {"clean": scores.clean, "robust": scores.robust.unbroken, "proved": scores.robust.proved}[measure]
    low, high = share.interval
    answers = {
        "too few points to judge": share.total < LEAST,
        "is met": share.total >= LEAST and low >= float(f"{floor:.3f}"),
        "is missed": share.total >= LEAST and high < float(f"{floor:.3f}"),
    }
    answers["is not decided"] = not any(answers.values())
    assert [words for words in answers if words in said] == [words for words, true in answers.items() if true]


def test_headings_say_on_how_many_points_and_no_range_of_one_number() -> None:
    titles = [own.title for own in page(made_assessment({"mine": made_scores(["proved"] * 3 + ["broken"])})).sections]
    assert "Robust accuracy of mine is 75% on these 4 points" in titles
    assert "Clean accuracy on these 4 points: mine 100.0%" in titles


@pytest.mark.parametrize(("points", "says"), [(20, "give more --points"), (400, "normalized inputs")])
def test_a_model_that_guesses(points: int, says: str) -> None:
    wrong = made_scores(["wrong"] * points)
    assert says in verdict(made_assessment({"mine": wrong}))
    assert "normalized" not in verdict(made_assessment({"standard": wrong})), "radii trained it"


def test_the_command_of_the_page_has_every_option_that_changes_it(tmp_path: Path) -> None:
    request = AssessmentRequest("digits", "l2:0.5", suite="fast", epochs=1, complete=2.0, points=4)
    plan = request.plan(Store(tmp_path))
    assert " ".join(plan.options) == "--suite fast --epochs 1 --complete 2"
    made = made_assessment({"standard": made_scores(["proved"])}, options=plan.options)
    (commands,) = (block for own in page(made).sections for block in own.blocks if isinstance(block, Commands))
    assert commands.lines[0] == (
        "radii assess made --suite fast --epochs 1 --complete 2 --threat l2:0.5 --points 1 --seed 0 --no-forecast"
    )


def test_without_a_floor_nothing_is_judged() -> None:
    for share in (4, 60, 400):
        said = verdict(made_assessment({"mine": made_scores(["proved"] * share + ["open"])}))
        assert not re.search("is met|is missed|is not decided|too few", said)


def test_a_floor_about_another_threat_is_refused_before_any_work(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for require in ("proved(l2:0.3)>=0.5", "robust(linf:0.5)>=0.5"):
        with pytest.raises(InputError, match="another threat than the assessment"):
            AssessmentRequest("digits", "l2:0.5", require=[require]).plan(store)
    floors = ["clean>=0.9", "proved(l2:0.5)>=0.5"]
    assert AssessmentRequest("digits", "l2:0.5", require=floors).plan(store).floors[0].floor == 0.9


def by_class(*counts: tuple[int, ...]) -> Scores:
    """A class for each of ``counts``, which are in the order of KINDS."""
    kinds = [kind for own in counts for kind in kinds_of(own)]
    return made_scores(kinds, np.repeat(np.arange(len(counts)), [sum(own) for own in counts]).tolist())


NAMES = tuple("abcdefghij")


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_ties_are_broken_by_what_attacks_leave_and_all_that_overlap_are_named(order: tuple[int, ...]) -> None:
    """Three classes without a proof: of two, attacks break everything; the order of the classes does not matter."""
    counts = [(0, 40, 10, 0), (0, 0, 50, 0), (0, 1, 49, 0), (40, 10, 0, 0)]
    said = class_finding(by_class(*(counts[k] for k in order)), [NAMES[k] for k in order])
    assert said == (
        "Classes b (0% proved, 0% unbroken) and c (0% proved, 2% unbroken) are weakest, "
        "class d (80% proved, 100% unbroken) is strongest"
    )


def test_one_class_alone_many_and_all() -> None:
    assert class_finding(by_class((0, 0, 60, 0), (60, 0, 0, 0)), NAMES).startswith(
        "Class a (0% proved, 0% unbroken) is "
    )
    noise = by_class(*[(k, 0, 35 - k, 0) for k in (16, 19, 18, 20)])
    assert class_finding(noise, NAMES).startswith("No class is clearly weakest: from a (46% proved, 46% unbroken) to d")
    many = by_class(*[(k, 0, 40 - k, 0) for k in (4, 5, 6, 7, 8, 40)])
    assert (
        class_finding(many, NAMES)
        == "Class a (10% proved, 10% unbroken) is lowest; 4 more classes may be as weak by chance"
    )
    assert class_finding(by_class((3, 0, 0, 0)), NAMES) == "Class a (100% proved, 100% unbroken)"


@pytest.mark.parametrize(("classes", "points"), [(10, 36), (43, 20)])
def test_equal_classes_are_rarely_told_apart(classes: int, points: int) -> None:
    """Of classes of one share a heading names a weakest one in at most 5% of the samples."""
    rng = np.random.default_rng(0)
    claims = 0
    for _ in range(100):
        won = rng.binomial(points, 0.5, classes)
        claims += len(by_class(*[(k, 0, points - k, 0) for k in won.tolist()]).weakest_classes()) < classes
    assert claims <= 5


def test_the_table_of_classes_has_the_intervals_of_the_heading() -> None:
    scores = by_class((16, 0, 19, 0), (30, 0, 5, 0))
    table = scores.class_table(NAMES)
    for row in table.rows:
        assert row["proved_low"] < row["proved"] < row["proved_high"]
    assert all("[" in cell for line in table.cells for cell in line[2:5])
    assert "do not overlap differ" in table.note
    for own, differ in ((scores, True), (by_class((16, 0, 19, 0), (20, 0, 15, 0)), False)):
        low, high = own.class_table(NAMES).rows
        assert (low["proved_high"] < high["proved_low"]) is differ
        assert len(own.weakest_classes()) == (1 if differ else 2)


def test_every_row_says_its_own_attacks_and_unlike_ones_are_warned_of() -> None:
    like = made_scores(["proved", "open"] * 20)
    unlike = made_scores(["open"] * 40, suite="black-box", radii=False, certificate=None)
    for models, differ in (({"one": like, "two": unlike}, True), ({"one": like, "two": like}, False)):
        made = made_assessment(models)
        (section,) = (own for own in page(made).sections if own.title.startswith("Robust accuracy"))
        (lines,) = (block for block in page(made).headline if isinstance(block, Bars))
        table = lines.numbers
        assert table is not None
        assert all(bool(set(bar.notes) & {"fast + minimum-norm", "black-box"}) is differ for bar in lines.bars)
        said = [row["attacks"] for row in table.rows]
        assert said == [own.attacks for own in models.values()]
        warned = [
            block.text for block in section.blocks if hasattr(block, "text") and "different attacks" in block.text
        ]
        assert bool(warned) is differ
        assert bool(made.warnings) is differ
        assert made.summary()["warnings"] == list(made.warnings)


def texts(part: Any) -> Iterator[str]:
    """Every text of a page, of its tables, and of the titles, notes and rows of its charts."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Table):
        yield from texts([part.title, part.note, part.headings, part.cells])
    elif isinstance(part, ChartSpec):
        yield from texts([part.title, part.note, part.table(), [own.label for own in part.rules]])
    elif isinstance(part, Mapping):
        yield from texts(list(part.values()))
    elif isinstance(part, Sequence):
        for own in part:
            yield from texts(own)
    elif is_dataclass(part):
        yield from texts([getattr(part, own.name) for own in fields(part)])


@pytest.mark.parametrize("kinds", [[kind] * 12 for kind in KINDS] + [list(KINDS) * 3])
@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize("tested", [[0.3, 0.6], [None, 0.6], [None, None], [None], []])
def test_no_text_of_a_page_is_null(kinds: list[str], measured: bool, tested: list[float | None]) -> None:
    certificate = "margin" if "proved" in kinds else None
    scores = made_scores(kinds, radii=measured, certificate=certificate)
    trainings = {"standard": made_training(tested), "1-Lipschitz": made_training([0.2, 0.4])}
    made = made_assessment({"standard": scores, "1-Lipschitz": scores, "mine": scores}, trainings=trainings)
    for text in texts(page(made)):
        assert not re.search(r"\b(nan|NaN|None|null|inf|undefined)\b", text), text


@pytest.mark.parametrize("tested", [[0.3, 0.6], [None, 0.6], [0.3, None], [None, None], [None]])
def test_a_title_names_no_line_that_its_chart_lacks(tested: list[float | None]) -> None:
    scores = made_scores(list(KINDS) * 3)
    trainings = {"standard": made_training(tested, 0.7), "1-Lipschitz": made_training([0.2, 0.4], 0.4)}
    made = made_assessment({"standard": scores, "1-Lipschitz": scores}, trainings=trainings)
    charts = [block for own in page(made).sections for block in own.blocks if isinstance(block, ChartSpec)]
    (learning,) = (chart for chart in charts if chart.x.name == "epoch")
    ends = {}
    for row in learning.rows:
        if row["split"] == "test":
            assert row["accuracy"] is not None
            ends[row["classifier"]] = row["accuracy"]
    said = re.findall(r"([\d.]+%) \((.+?)\)", learning.title)
    assert {name: share for share, name in said} == {name: f"{end:.1%}" for name, end in ends.items()}
    assert ends == {"standard": 0.7 if tested[-1] is None else 0.6, "1-Lipschitz": 0.4}


def test_headings_follow_each_other_without_a_gap() -> None:
    scores = made_scores(list(KINDS) * 3)
    trainings = {"standard": made_training([0.3, 0.6]), "1-Lipschitz": made_training([0.2, 0.4])}
    made = made_assessment({"standard": scores, "1-Lipschitz": scores, "mine": scores}, trainings=trainings)
    levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", render(page(made)))]
    assert levels[0] == 1
    assert all(two <= one + 1 for one, two in pairwise(levels))
    assert levels.count(1) == 1


def test_the_top_says_when_with_what_and_which_model_is_a_reference() -> None:
    scores = made_scores(["proved", "broken"] * 60, suite="standard")
    made = made_assessment({"1-Lipschitz": scores, "mine": scores})
    shown = page(made)
    assert shown.facts["measured"] == "2026-01-02"
    assert shown.facts["attacks"] == "standard + minimum-norm"
    assert made.data.test.digest.startswith(shown.facts["test data"].removeprefix("sha256 "))
    (lines,) = (block for block in shown.headline if isinstance(block, Bars))
    assert [(bar.name, bool(bar.tag)) for bar in lines.bars] == [("mine", False), ("1-Lipschitz", True)]
    for bar in lines.bars:
        assert sum(width for _, _, width in bar.parts) == pytest.approx(100)
        assert {tone: width for tone, _, width in bar.parts} == {"proved": 50, "broken": 50}


def test_of_many_classes_the_weakest_have_bars() -> None:
    scores = made_scores(["proved", "broken", "proved"] * 30, [k % 30 for k in range(90)])
    shown = page(made_assessment({"mine": scores}, classes=30))
    (bars,) = (block for own in shown.sections for block in own.blocks if isinstance(block, Bars))
    assert len(bars.bars) == 20
    assert bars.numbers is not None
    assert len(bars.numbers.rows) == 30
    assert "The 20 weakest classes; 10 more are in the numbers." in bars.note
    weakest = [own.name for own in bars.bars if own.robust.proved.correct < own.clean.total]
    assert len(weakest) >= 10
