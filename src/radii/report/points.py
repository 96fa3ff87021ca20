"""The points of evaluations for the explorer: what each is at each radius, in words and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from radii.change import radius_words
from radii.data.dataset import Dataset
from radii.evaluation.accuracy import Accuracy
from radii.evaluation.curves import radius_grid
from radii.evaluation.scores import Scores
from radii.report.explorer import Explorer, Fact, Shown, State, View
from radii.report.picture_sheets import Sheet, Sheets, drawn
from radii.tables import Toward, format_radius, round_toward

STATES = (
    State("proved", "no change within the radius alters the answer", "proved"),
    State("open", "neither proved nor broken", "open"),
    State("broken", "an attack found an error within the radius", "broken"),
    State("misclassified", "wrong without any change", "wrong"),
    State("not attacked", "beyond the radius at which attacks were made, and not proved", "unknown"),
)
PROVED, OPEN, BROKEN, WRONG, UNKNOWN = range(len(STATES))
MOST_FEATURES = 40  # of a table, for each point


@dataclass(frozen=True)
class Neighbors:
    """The nearest training point of another class of each point: its row and its distance."""

    points: Dataset
    rows: NDArray[np.int64]
    distance: NDArray[np.float64]


def states_at(scores: Scores, radius: float) -> NDArray[np.int64]:
    """What each point is at ``radius``: as the curve of the scores counts it.

    Beyond the threat's radius a point that is neither proved nor broken was attacked only if errors outside the ball
    were looked for.
    """
    points = scores.points
    if radius == scores.ball.radius > 0:
        proved, broken = points.proved & points.correct, points.broken
    else:
        broken = points.broken_radius <= radius
        proved = ~broken & ((points.proved_radius >= radius) & (points.proved_radius > 0) | (radius == 0))
    rest = UNKNOWN if radius > scores.ball.radius and not scores.attacked_beyond else OPEN
    return np.select([~points.correct, broken, proved], [WRONG, BROKEN, PROVED], rest)


def _said_at(scores: Scores, radius: float, states: NDArray[np.int64]) -> str:
    """The shares at ``radius`` with their intervals, and what was not tried there."""
    total = len(states)
    count = {state: int((states == state).sum()) for state in range(len(STATES))}
    ball = scores.ball
    within = f"Within {radius_words(ball)} {format_radius(radius)}" if radius else "Without any change"
    if radius == 0:
        return f"{within}: {_share(total - count[WRONG], total)} of {total} are classified correctly."
    parts = [f"{_share(count[PROVED], total)} of {total} are proved"] if scores.certificate_method else []
    if not count[UNKNOWN]:
        parts.append(f"attacks left {_share(count[PROVED] + count[OPEN], total)}")
    text = f"{within}: {', '.join(parts)}." if parts else f"{within}:"
    if radius > ball.radius:
        epsilon = f"ε = {format_radius(ball.radius)}"
        if not scores.attacked_beyond:
            text += f" Not attacked: attacks were made within {epsilon} only."
        else:
            text += f" Beyond {epsilon} only the minimum-norm attack was tried."
        if scores.certificate_method and not scores.proved_beyond:
            text += f" Proofs were made for {epsilon} only."
    elif radius < ball.radius and not scores.attacked_beyond:
        text += " Attacks were made at ε only: at smaller radii they may break more points than are shown."
    return text


def _share(count: int, total: int) -> str:
    low, high = Accuracy(count, total).interval
    return f"{count} ({count / total:.0%}, 95% interval {100 * low:.0f} to {high:.0%})"


def slider(scores: Sequence[Scores]) -> list[float]:
    """The radii of the charts; where nothing was tried beyond the threat's radius, some farther ones that say so."""
    grid, epsilon = radius_grid(scores), scores[0].ball.radius
    if grid[-1] <= epsilon and len(grid) > 1:
        step = grid[1] - grid[0]
        grid += [float(f"{epsilon + k * step:.10g}") for k in range(1, max(2, len(grid) // 2))]
    return grid


def explorer(
    scores: Mapping[str, Scores],
    split: Dataset,
    rows: NDArray[np.int64],
    title: str,
    near: Neighbors | None = None,
) -> Explorer:
    """The points of several evaluations of the same rows.

    Args:
        scores: by the name of the model.
        split: the data.
        rows: of the split.
        near: the nearest points of another class; None leaves them out.
    """
    ball, radii = next(iter(scores.values())).ball, slider(list(scores.values()))
    models = list(scores.values())
    look = looks(scores, split, rows, near)
    views = []
    for (name, own), pictures, moved in zip(scores.items(), look.attacked, look.moved, strict=True):
        states = np.stack([states_at(own, radius) for radius in radii])
        said = [_said_at(own, radius, state) for radius, state in zip(radii, states, strict=True)]
        views.append(View(name, states, said, sort_keys(own), facts(own, split.classes), pictures, moved))
    return Explorer(
        title,
        *_occurring(views),
        rows.tolist(),
        models[0].points.label.tolist(),
        split.classes,
        [format_radius(radius) for radius in radii],
        radii.index(ball.radius),
        f"ε = {format_radius(ball.radius)}",
        radius_words(ball),
        look.note,
        [] if near is None else _of_neighbors(near),
        {} if near is None else {"distance to another class": near.distance.tolist()},
        look.sheets,
        look.pictures,
        look.features,
    )


def _occurring(views: Sequence[View]) -> tuple[list[State], list[View]]:
    """The states that some point has somewhere, and the views with their numbers."""
    used = [state for state in range(len(STATES)) if any((view.states == state).any() for view in views)]
    number = np.zeros(len(STATES), np.int64)
    number[used] = np.arange(len(used))
    return [STATES[state] for state in used], [replace(view, states=number[view.states]) for view in views]


def sort_keys(scores: Scores) -> dict[str, list[float]]:
    """By which the points of a model can be sorted."""
    points = scores.points
    keys = {"distance of the nearest known error": points.broken_radius.tolist()}
    if scores.certificate_method:
        keys["proved radius"] = np.where(points.correct, points.proved_radius, 0.0).tolist()
    return keys


def facts(scores: Scores, classes: Sequence[str], whose: str = "") -> list[Fact]:
    """What an evaluation knows of each point.

    Args:
        whose: before every title, where several models are shown together.
    """
    points, n = scores.points, len(scores.points.label)
    begin = f"{whose}: " if whose else ""
    method = scores.certificate_method or ""
    alone = f"one of {method}" if " + " in method else method  # runs of before do not say which
    methods = points.proved_by or tuple(alone if radius > 0 else "" for radius in points.proved_radius)
    inside = points.changed
    return [
        Fact(f"{begin}read as", points.prediction.tolist(), classes),
        Fact(
            f"{begin}proved up to",
            [_number(radius, "down") if radius > 0 else None for radius in points.proved_radius],
        ),
        Fact(f"{begin}proved by", [name or None for name in methods]),
        Fact(
            f"{begin}nearest known error at",
            [_number(radius, "up") if np.isfinite(radius) else "none found" for radius in points.changed_radius],
        ),
        Fact(f"{begin}broken within ε by", [points.broken_by[k] or None if inside[k] else None for k in range(n)]),
        Fact(
            f"{begin}after the attack read as",
            [int(points.adversarial_prediction[k]) if inside[k] else None for k in range(n)],
            classes,
        ),
    ]


def _of_neighbors(near: Neighbors) -> list[Fact]:
    other = [int(near.points.y[row]) if row >= 0 else None for row in near.rows]
    away = [_number(own, "nearest") if np.isfinite(own) else None for own in near.distance]
    return [Fact("nearest other class", other, near.points.classes), Fact("its distance", away)]


@dataclass(frozen=True)
class Looks:
    """What points look like: sheets of pictures, or the features of a table.

    Attributes:
        pictures: of every point, whatever the model.
        attacked: of each model, the difference and the input that is misclassified.
        features: of a table, their names and the values [n, d].
        moved: of each model, the features of a table after the attack [n, d], NaN where nothing broke; None of images.
    """

    attacked: Sequence[Sequence[Shown]]
    moved: Sequence[NDArray[np.float64] | None]
    sheets: Mapping[str, Sheet] = field(default_factory=dict)
    pictures: Sequence[Shown] = ()
    features: tuple[Sequence[str], NDArray[np.float64]] | None = None
    note: str = ""


def looks(
    scores: Mapping[str, Scores],
    split: Dataset,
    rows: NDArray[np.int64],
    near: Neighbors | None = None,
    captions: Mapping[str, str] | None = None,
) -> Looks:
    """The pictures of images with one or three channels, the features of tables, nothing of other inputs.

    Args:
        captions: what begins the captions of each model's pictures; nothing by default.
    """
    x = split.tensors(rows)[0].numpy()
    if not split.is_image:
        return _features(list(scores.values()), split, x)
    if split.shape[0] not in (1, 3):
        return Looks([()] * len(scores), [None] * len(scores))
    broken = [np.flatnonzero(own.points.changed) for own in scores.values()]
    moved = [own.x_adv.numpy()[which] - x[which] for own, which in zip(scores.values(), broken, strict=True)]
    used, tiles = (np.zeros(0, np.int64), None) if near is None else np.unique(near.rows.clip(0), return_inverse=True)
    drawing = drawn(x, near.points.tensors(used)[0].numpy() if near is not None else None, moved)
    sheets = {"inputs": drawing.inputs}
    pictures = [Shown("input", "inputs", range(len(rows)))]
    if near is not None and drawing.neighbors is not None and tiles is not None:
        sheets["others"] = drawing.neighbors
        pictures.append(Shown("nearest of another class", "others", np.where(near.rows < 0, -1, tiles).tolist()))
    sheets |= {f"moved {k}": own for k, own in enumerate(drawing.differences) if own is not None}
    attacked = [
        _attacked(f"moved {k}", which, len(rows), (captions or {}).get(name, "")) if f"moved {k}" in sheets else []
        for k, (name, which) in enumerate(zip(scores, broken, strict=True))
    ]
    return Looks(attacked, [None] * len(scores), sheets, pictures, None, _losses(drawing))


def _attacked(sheet: str, broken: NDArray[np.int64], total: int, whose: str) -> list[Shown]:
    """The difference of the points that were broken, and the sum of their input and it."""
    tiles = np.full(total, -1)
    tiles[broken] = np.arange(len(broken))
    return [
        Shown(f"{whose}difference, contrast enhanced", sheet, tiles.tolist()),
        Shown(f"{whose}misclassified input", sheet, tiles.tolist(), "inputs", range(total)),
    ]


def _losses(drawing: Sheets) -> str:
    """How the pictures differ from the data."""
    said = "Differences are shown in a few levels of gray."
    if drawing.shrunk > 1:
        said += f" Pictures are means over {drawing.shrunk} × {drawing.shrunk} pixels."
    return said if drawing.exact else said + " Pictures are compressed with small losses."


def _features(scores: Sequence[Scores], split: Dataset, x: NDArray[np.float32]) -> Looks:
    """The features of a table before and after the attack; of many, those that attacks move most."""
    flat = x.reshape(len(x), -1).astype(np.float64)
    after = [own.x_adv.numpy().reshape(len(x), -1).astype(np.float64) for own in scores]
    names = split.rules.names if split.rules is not None and split.rules.names else ()
    names = names or tuple(f"feature {k}" for k in range(flat.shape[1]))
    changed = [own.points.changed[:, None] for own in scores]
    moves = np.sum([(np.abs(own - flat) * which).sum(0) for own, which in zip(after, changed, strict=True)], 0)
    shown = np.sort(np.argsort(-moves, kind="stable")[:MOST_FEATURES])
    note = "" if len(shown) == flat.shape[1] else f"The {len(shown)} features that attacks move most are shown."
    moved = [np.where(which, values[:, shown], np.nan) for which, values in zip(changed, after, strict=True)]
    return Looks([()] * len(scores), moved, features=([names[k] for k in shown], flat[:, shown]), note=note)


def _number(value: float, toward: Toward) -> str:
    """Three significant digits."""
    return f"{round_toward(float(value), 3, toward):g}"
