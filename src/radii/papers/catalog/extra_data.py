"""Extra data: how certified accuracy grows with points beyond the training set, real and made ones.

Prach & Lampert 2025, Fig. 6: images of a diffusion model go on with the scaling law, with
diminishing returns. We have no diffusion model. On MNIST the extra points are
elastic deformations of the training images. On CIFAR-10 they are draws of a small
generator of our own: for each class a Gaussian over the first 128 principal components,
fitted to the same training images. Beside them stand as many real images, which were
held back. Every batch has own and extra points in proportion to their numbers; all
trainings have the same number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radii.budget import BUDGETS, Budget
from radii.papers.catalog.prach_networks import LIPSCHITZ, RADII, UNWATCHED, isometric_training, lipschitz_training
from radii.papers.catalog.readings import grouped, mean_at, mean_of
from radii.rounding import format_radius
from radii.runs.inputs import DataSpec
from radii.runs.steps import Certify
from radii.studies.study import Cell, Findings, Measured, Place, Study
from radii.tables import ChartSpec, Field, Row, table

NONE, REAL, DEFORMED, DRAWN = "none", "held back", "deformed", "drawn"
RADIUS = {"digits": 36 / 255, "mnist": 1.0, "cifar10": 36 / 255}
LOSS = {"digits": (1.0, 0.5), "mnist": (1.5, 0.5), "cifar10": (0.75, 0.4)}  # offset and temperature


@dataclass(frozen=True)
class ExtraSource:
    """Own training points of a dataset, how often as many extra points there are, and the steps of a training."""

    own: int
    times: tuple[int, ...]
    made: str
    steps: int


@dataclass(frozen=True)
class Amount:
    """What a budget trains."""

    sources: dict[str, ExtraSource]
    seeds: int
    points: int


AMOUNTS: dict[Budget, Amount] = {
    "smoke": Amount(
        {"digits": ExtraSource(300, (1, 3), DEFORMED, 20)},
        1,
        200,
    ),
    "cpu": Amount(
        {
            "mnist": ExtraSource(3750, (1, 3, 7, 15), DEFORMED, 400),
            "cifar10": ExtraSource(6250, (1, 3, 7), DRAWN, 1100),
        },
        2,
        10_000,
    ),
    "night": Amount(
        {
            "mnist": ExtraSource(7500, (1, 3, 7, 15), DEFORMED, 2000),
            "cifar10": ExtraSource(25_000, (1, 3), DRAWN, 4000),
        },
        3,
        10_000,
    ),
    "paper": Amount({"cifar10": ExtraSource(50_000, (1, 3, 7, 15), DRAWN, 585_000)}, 3, 10_000),
}


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Every source and amount of extra points, and the training without."""
    amount = AMOUNTS[budget]
    return tuple(
        _cell(name, source, kind, times, seed, budget)
        for seed in range(amount.seeds)
        for name, source in amount.sources.items()
        for kind, times in _kinds(name, source)
    )


def _kinds(name: str, source: ExtraSource) -> list[tuple[str, int]]:
    """Kinds and amounts of extra points; real ones as far as the dataset has them."""
    whole = {"digits": 1437, "mnist": 60_000, "cifar10": 50_000}[name]
    real = [times for times in source.times if (times + 1) * source.own <= whole]
    return [(NONE, 0), *((source.made, times) for times in source.times), *((REAL, times) for times in real)]


def _cell(name: str, source: ExtraSource, kind: str, times: int, seed: int, budget: Budget) -> Cell:
    own = DataSpec.of(f"{name}+subset:{source.own}")
    extra = {
        NONE: None,
        REAL: f"{name}+rest:{source.own}" + f"+subset:{times * source.own}",
        DEFORMED: f"{name}+subset:{source.own}+deform:{times}",
        DRAWN: f"{name}+subset:{source.own}+draw:{times * source.own}",
    }[kind]
    offset, temperature = LOSS[name]
    if budget == "paper":
        trained = lipschitz_training(own, {"model": {"layer": "cpl"}, "optimizer": {"lr": 1.0}, **UNWATCHED}, seed)
    else:
        trained = isometric_training(own, source.steps, offset=offset, temperature=temperature, seed=seed)
    if extra is not None:
        trained = trained.model_copy(update={"extra": DataSpec.of(extra)})
    points = AMOUNTS[budget].points
    measure = Certify(model=trained, data=own, radii=RADII, points=points, train_points=max(1, points // 5))
    place: Place = {"data": name, "extra": kind, "points": (times + 1) * source.own, "seed": seed, "model": LIPSCHITZ}
    return Cell(place, measure)


def _analyze(measured: Sequence[Measured]) -> Findings:
    """Certified accuracy over the number of points, a curve for each kind of extra points."""
    rows: list[Row] = []
    marks: list[Row] = []
    for (data, extra, points), cells in grouped(measured, "data", "extra", "points").items():
        radius = RADIUS[data]
        row = {
            "data": data,
            "extra": extra,
            "points": points,
            "radius": format_radius(radius),
            "seeds": len(cells),
            "certified": mean_at(cells, radius),
            "train_certified": mean_at(cells, radius, "train"),
            "clean": mean_of(cells, "test", "clean", "value"),
        }
        rows.append(row)
        kinds = {cell.place["extra"] for cell in measured if cell.place["data"] == data} - {NONE}
        marks += [  # every curve starts at the training without extra points
            {"points": points, "accuracy": row["certified"], "curve": f"{data}, {kind}"}
            for kind in ((extra,) if extra != NONE else sorted(kinds) or (NONE,))
        ]
    columns = (
        Field("data", "dataset"),
        Field("extra", "extra points"),
        Field("points", "points in all", log=True),
        Field("seeds", "seeds"),
        Field("radius", "L2 radius"),
        Field("certified", "certified, test", percent=True),
        Field("train_certified", "certified, own training points", percent=True),
        Field("clean", "clean, test", percent=True),
    )
    chart = ChartSpec(
        "curves",
        marks,
        Field("points", "training points, own and extra", log=True),
        Field("accuracy", "certified accuracy", percent=True),
        "curve",
        "Real points help most; made points only as far as their maker knows the classes",
        "Test points, means over seeds; equal steps. Curves start at the training without extra points.",
    )
    return Findings(table(rows, columns), (chart,) if marks else ())


STUDY = Study(
    "extra-data",
    "Certified accuracy with extra data",
    "Prach & Lampert 2025, Fig. 6",
    _cells,
    _analyze,
    BUDGETS,
)
