"""Extra data: how certified accuracy grows with points beyond the training set, real and made ones.

Prach & Lampert 2025, Fig. 6: images of a diffusion model go on with the scaling law, with
diminishing returns. We have no diffusion model.

On MNIST the extra points are
elastic deformations of the training images. On CIFAR-10 they are draws of a small
generator of our own: for each class a Gaussian over the first 128 principal components,
fitted to the same training images. Beside them stand as many real images, which were
held back. Every batch has own and extra points in proportion to their numbers; all
trainings have the same number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import BUDGETS, Budget
from radii.runs.component_specs import DataSpec
from radii.runs.steps import Certify
from radii.studies.study import Cell, Findings, Measured, Place, Study
from radii.tables import ChartSpec, Field, Row, format_radius, table
from radii_papers.studies._labels import DEFORMED, DRAWN, LIPSCHITZ, NONE, REAL, TRAINING_POINTS
from radii_papers.studies._prach_networks import (
    CPL,
    NO_TEST_EPOCHS,
    POINTS,
    RADII,
    isometric_training,
    lipschitz_training,
)
from radii_papers.studies._readings import clean_of, grouped, mean_at

RADIUS = {"digits": 36 / 255, "mnist": 1.0, "cifar10": 36 / 255}
MADE = {"digits": DEFORMED, "mnist": DEFORMED, "cifar10": DRAWN}
OWN: dict[Budget, dict[str, int]] = {  # own training points
    "smoke": {"digits": 300},
    "cpu": {"mnist": 3750, "cifar10": 6250},
    "night": {"mnist": 7500, "cifar10": 25_000},
    "paper": {"cifar10": 50_000},
}
TIMES: dict[Budget, dict[str, tuple[int, ...]]] = {  # how often as many extra points
    "smoke": {"digits": (1, 3)},
    "cpu": {"mnist": (1, 3, 7, 15), "cifar10": (1, 3, 7)},
    "night": {"mnist": (1, 3, 7, 15), "cifar10": (1, 3)},
    "paper": {"cifar10": (1, 3, 7, 15)},
}
STEPS: dict[Budget, dict[str, int]] = {  # of the isometric network
    "smoke": {"digits": 20},
    "cpu": {"mnist": 400, "cifar10": 1100},
    "night": {"mnist": 2000, "cifar10": 4000},
}
SEEDS: dict[Budget, int] = {"smoke": 1, "cpu": 2, "night": 3, "paper": 3}


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Every source and amount of extra points, and the training without."""
    return tuple(
        _cell(name, kind, times, seed, budget)
        for seed in range(SEEDS[budget])
        for name, own in OWN[budget].items()
        for kind, times in _kinds(name, own, TIMES[budget][name])
    )


def _kinds(name: str, own: int, times: Sequence[int]) -> list[tuple[str, int]]:
    """Kinds and amounts of extra points; real ones as far as the dataset has them."""
    real = [factor for factor in times if (factor + 1) * own <= TRAINING_POINTS[name]]
    return [(NONE, 0), *((MADE[name], factor) for factor in times), *((REAL, factor) for factor in real)]


def _cell(name: str, kind: str, times: int, seed: int, budget: Budget) -> Cell:
    count, points = OWN[budget][name], POINTS[budget]
    own = DataSpec.of(f"{name}+subset:{count}")
    extra = {
        NONE: None,
        REAL: f"{name}+rest:{count}+subset:{times * count}",
        DEFORMED: f"{name}+subset:{count}+deform:{times}",
        DRAWN: f"{name}+subset:{count}+draw:{times * count}",
    }[kind]
    if budget == "paper":
        trained = lipschitz_training(own, {**CPL, **NO_TEST_EPOCHS}, seed)
    else:
        trained = isometric_training(own, STEPS[budget][name], seed=seed)
    if extra is not None:
        trained = trained.model_copy(update={"extra": DataSpec.of(extra)})
    measure = Certify(model=trained, data=own, radii=RADII, points=points, train_points=max(1, points // 5))
    place: Place = {"data": name, "extra": kind, "points": (times + 1) * count, "seed": seed, "model": LIPSCHITZ}
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
            "clean": clean_of(cells),
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
