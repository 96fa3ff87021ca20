"""A comparison on paper: shares, paired differences, and every point on which the models differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from radii.change import threat_words
from radii.evaluation.comparison import successes
from radii.evaluation.curves import curve_chart
from radii.evaluation.paired import PairedDifference, unlike_attacks, unlike_certificates
from radii.report.explorer import Explorer, State, View
from radii.report.html import Bar, Bars, Commands, Issue, Issues, Report, Section
from radii.report.points import facts, looks, sort_keys
from radii.report.result_files import code
from radii.runs.comparison import RunComparison
from radii.tables import ChartSpec, format_radius, listed

WORDS = {"clean": "classified correctly", "proved": "proved", "unbroken": "unbroken"}
PAIRS = (
    State("both", "both models succeed", "proved"),
    State("lost", "only the first model succeeds", "broken"),
    State("won", "only the second model succeeds", "won"),
    State("neither", "no model succeeds", "wrong"),
)
BOTH, LOST, WON, NEITHER = range(len(PAIRS))
CHANCE = 0.05


def page(found: RunComparison) -> Report:
    """The page: a line for each model, what is not alike, differences, pairs of points, curves."""
    others = list(found.differences)
    subject = f"{others[0]} against {found.first}" if len(others) == 1 else f"{len(found.scores)} models"
    ball = f"{threat_words(found.ball)}, ε = {format_radius(found.ball.radius)}"
    points = f"{len(found.rows):,} common points of the {found.split} split"
    words = ["radii compare", *found.runs.values()]
    return Report(
        title=f"{subject} on {found.dataset}",
        subtitle=f"threat {ball} · {points}",
        verdict=" ".join(f"{name}: {verdict(own)}" for name, own in found.differences.items()),
        headline=(_models(found), *_doubts(found)),
        sections=(
            Section("Paired differences", (found.difference_table(),), short="Differences"),
            Section("Every common point", (pairs(found),), PAIRED, "Points"),
            Section("Over the radius", tuple(_curves(found)), short="Radius"),
            Section("How to reproduce", (Commands((" ".join(words),), dict(found.runs)),), short="Reproduce"),
        ),
        facts={"data": f"sha256 {(found.data.test if found.split == 'test' else found.data.train)[:12]}"},
    )


PAIRED = (
    "Each square is a point that both models were tested on. Lost: only the first model succeeds. Won: only the other "
    "one does. Click a point to see both attacked inputs."
)


def verdict(differences: Mapping[str, PairedDifference]) -> str:
    """Which shares differ by more than chance explains, and which are not compared."""
    sure = {share: own for share, own in differences.items() if own.p_value < CHANCE}
    said = [
        f"{'more' if own.value > 0 else 'fewer'} points are {WORDS[share]} ({100 * own.value:+.1f} pp)"
        for share, own in sure.items()
    ]
    missing = [share for share in WORDS if share not in differences]
    if missing:
        said.append(f"{listed(missing)} not compared, as the efforts differ")
    if not sure:
        said.insert(0, "no difference is larger than chance explains")
    return "; ".join(said) + "."


def comment(found: RunComparison) -> str:
    """A comment for a pull request in Markdown: six lines for each model that is compared with the first."""
    return "\n".join(line for name in found.differences for line in _comment(found, name)) + "\n"


def _comment(found: RunComparison, name: str) -> Iterator[str]:
    """The heading, the setting, a line for each share, and what chance explains."""
    one, other = found.scores[found.first], found.scores[name]
    yield f"### radii: `{code(name)}` against `{code(found.first)}`"
    met = list(dict.fromkeys((found.attacks[found.first], found.attacks[name])))
    yield (
        f"`{code(found.dataset)}` ({found.split}), `{found.ball}`, {len(found.rows):,} common points, attacks: "
        f"{code(listed(met))}."
    )
    for share, before in successes(one).items():
        ends = f"{before.mean():.1%} → {successes(other)[share].mean():.1%}"
        own = found.differences[name].get(share)
        if own is None:
            yield f"- **{share}**: {ends}, not compared: the efforts differ"
            continue
        pp = f"{100 * own.value:+.1f} pp [{100 * own.low:.1f}, {100 * own.high:.1f}]"
        yield f"- **{share}**: {ends}, {pp}, lost {own.lost}, won {own.won}, p = {own.p_value:.2g}"
    yield f"- **result**: {verdict(found.differences[name])}"


def _models(found: RunComparison) -> Bars:
    bars = tuple(
        Bar(
            name,
            own.clean,
            own.robust,
            tag="compared with" if name == found.first else "",
            notes=(found.attacks[name], found.runs[name]),
            tried=own.certificate_method is not None,
        )
        for name, own in found.scores.items()
    )
    return Bars(f"Share of the {len(found.rows):,} common points", bars, numbers=found.table())


def _doubts(found: RunComparison) -> Iterator[Issues]:
    """What is not alike in the runs."""
    compared = all("proved" in own for own in found.differences.values())
    issues = [
        *(Issue("high", "Unbroken shares are not compared", text) for text in unlike_attacks(found.attacks)),
        *(
            Issue("medium", "Read the difference of proved shares with care", text)
            if compared
            else Issue("high", "Proved shares are not compared", text)
            for text in unlike_certificates(found.certificates)
        ),
    ]
    if issues:
        yield Issues(tuple(issues), "What is not alike")


def pairs(found: RunComparison) -> Explorer:
    """Which points both models, one or neither succeed on, for each share that was measured alike."""
    data = found.data.load()
    split = data.test if found.split == "test" else data.train
    captions = {name: "second: " if k else "first: " for k, name in enumerate(found.scores)}
    look = looks(found.scores, split, found.rows, captions=captions)
    place = {name: k for k, name in enumerate(found.scores)}
    views, first = [], found.scores[found.first]
    for name, differences in found.differences.items():
        other = found.scores[name]
        told = [*facts(first, split.classes, "first"), *facts(other, split.classes, "second")]
        by = {"first": sort_keys(first), "second": sort_keys(other)}
        keys = {f"{whose}: {key}": values for whose, own in by.items() for key, values in own.items()}
        for share in sorted(differences, key=tuple(WORDS).index, reverse=True):
            states = _paired(successes(first)[share], successes(other)[share])
            count = {state.name: int((states == k).sum()) for k, state in enumerate(PAIRS)}
            said = f"{WORDS[share].capitalize()}: {', '.join(f'{own} {word}' for word, own in count.items())}. "
            said += f"First: {found.first}; second: {name}."
            shown = [*look.attacked[0], *look.attacked[place[name]]]
            moved = look.moved[place[name]]
            views.append(View(f"{name}: {share}", states[None], [said], keys, told, shown, moved))
    return Explorer(
        f"{len(found.rows):,} common points",
        PAIRS,
        views,
        found.rows.tolist(),
        first.points.label.tolist(),
        split.classes,
        [format_radius(found.ball.radius)],
        0,
        note=look.note,
        sheets=look.sheets,
        pictures=look.pictures,
        features=look.features,
    )


def _paired(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.select([one & other, one, other], [BOTH, LOST, WON], NEITHER)


def _curves(found: RunComparison) -> Iterator[ChartSpec]:
    """The first model with each of the others: more lines in one chart cannot be told apart."""
    for name in found.differences:
        both = {found.first: found.scores[found.first], name: found.scores[name]}
        yield curve_chart(both, f"{found.first} and {name} on {found.dataset}", "model")
