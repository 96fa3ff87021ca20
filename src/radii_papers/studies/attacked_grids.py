"""Attacked networks: the studies of Ding et al. 2019 and Schmidt et al. 2018, a TOML file each, and their tables.

A network is trained on every variant by standard and by PGD training. The
accuracies of a training are those of all images of both splits; networks that were
trained against PGD are then attacked by PGD-40, as in the paper on MNIST; on CIFAR-10
the paper takes 10 steps of 2/255. What survives
an attack is robust accuracy *at most*: beside it stands the standard suite on a stated
number of points, with the strongest certificate as the other end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.resources import as_file, files
from typing import Any

from radii.studies import toml
from radii.studies.study import Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii_papers.studies._labels import (
    PGD,
    PGD_40,
    PGD_40_FREE,
    PGD_40_TRAIN,
    STANDARD,
    SUITE,
    TRAINED,
    TRAINING_POINTS,
)
from radii_papers.studies._readings import (
    at_least,
    at_most,
    grouped,
    mean_of,
    test_accuracy,
    train_accuracy,
    unchanged,
)

MOST_CURVES = 6  # of one chart
# Heading of a column: method, measurement, and its figure.
COLUMNS: dict[str, tuple[str, str, str, Callable[[Measured], float]]] = {
    "standard_train": ("standard: train", STANDARD, TRAINED, train_accuracy),
    "standard_clean": ("standard: clean", STANDARD, TRAINED, test_accuracy),
    "pgd_train": ("PGD-trained: train", PGD, TRAINED, train_accuracy),
    "pgd_clean": ("PGD-trained: clean", PGD, TRAINED, test_accuracy),
    "pgd_train_robust": ("PGD-40, train: at most", PGD, PGD_40_TRAIN, at_most),
    "pgd_robust": ("PGD-40: at most", PGD, PGD_40, at_most),
    "pgd_stable": ("predictions unchanged", PGD, PGD_40, unchanged),
    "pgd_free": ("PGD-40, no box: at most", PGD, PGD_40_FREE, at_most),
    "suite_most": ("standard suite: at most", PGD, SUITE, at_most),
    "suite_least": ("proved: at least", PGD, SUITE, at_least),
}
ACCURACY = Field("accuracy", "accuracy", percent=True)


def rows(measured: Sequence[Measured], keys: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each combination of ``keys``, in the order of the cells; None where nothing was measured."""
    return [
        {
            **dict(zip(keys, place, strict=True)),
            **{
                name: mean_of(_chosen(cells, method, measure), figure)
                for name, (_, method, measure, figure) in COLUMNS.items()
            },
        }
        for place, cells in grouped(measured, *keys).items()
    ]


def _chosen(cells: Sequence[Measured], method: str, measure: str) -> list[Measured]:
    return [cell for cell in cells if (cell.place["method"], cell.place["measure"]) == (method, measure)]


def fields(table_rows: Sequence[Row]) -> list[Field]:
    """The columns of :func:`rows` in which something was measured, in the order of the paper's tables."""
    return [
        Field(name, heading, percent=True)
        for name, (heading, *_) in COLUMNS.items()
        if any(row[name] is not None for row in table_rows)
    ]


def marks(table_rows: Sequence[Row], over: str, series: str, columns: Sequence[str]) -> list[Row]:
    """The marks of a chart over the key ``over``: a curve for each value of ``series``, if any, and each column."""
    return [
        {
            over: row[over],
            "accuracy": row[name],
            "curve": f"{row[series]}: {COLUMNS[name][0]}" if series else COLUMNS[name][0],
        }
        for row in table_rows
        for name in columns
        if row[name] is not None
    ]


def by_variant(measured: Sequence[Measured], title: str, note: str) -> Findings:
    """A row for each variant, and curves of clean and robust accuracy over the variants."""
    own = rows(measured, ("data", "variant", "width"))
    curves = marks(own, "variant", "", ("standard_clean", "pgd_clean", "pgd_robust", "suite_most"))
    chart = ChartSpec("curves", curves, Field("variant", "variant"), ACCURACY, "curve", title, note)
    columns = (Field("data", "dataset"), Field("variant", "variant"), Field("width", "width"), *fields(own))
    return Findings(table(own, columns), (chart,) if chart.rows else ())


def by_width(measured: Sequence[Measured]) -> Findings:
    """Ding et al., Table 4 by width and variant; Fig. 4 is robust accuracy over the width, a curve for each variant."""
    own = rows(measured, ("width", "variant"))
    attacked = [row for row in own if row["pgd_robust"] is not None]
    widths, variants = (len({row[key] for row in attacked}) for key in ("width", "variant"))
    named = [{**row, "width": f"width {row['width']:g}"} for row in attacked]
    if widths > 1 and variants <= MOST_CURVES:
        over, title = Field("width", "width of the network", log=True), "Accuracy under PGD-40 over the width"
        curves = marks(attacked, "width", "variant", ("pgd_robust",))
    elif widths > 1:
        over, title = Field("variant", "variant"), "Accuracy under PGD-40 over the variants, by width"
        curves = marks(named, "variant", "width", ("pgd_robust",))
    else:
        over, title = Field("variant", "variant"), "Accuracy of one width over the variants"
        curves = marks(named, "variant", "width", ("pgd_clean", "pgd_robust", "pgd_free"))
    note = "Test points that PGD-40 leaves unbroken: an upper bound of robust accuracy."
    chart = ChartSpec("curves", curves, over, ACCURACY, "curve", title, note)
    columns = (Field("width", "width"), Field("variant", "variant"), *fields(own))
    return Findings(table(own, columns), (chart,) if chart.rows else ())


def by_size(measured: Sequence[Measured]) -> Findings:
    """A row for each variant and size; for each dataset curves on training and test points, of three variants."""
    own = rows(measured, ("data", "variant", "n"))
    own = [{**row, "n": TRAINING_POINTS[row["data"]] if row["n"] == "all" else row["n"]} for row in own]
    names = dict.fromkeys(row["data"] for row in own)
    charts = [_size_chart(name, [row for row in own if row["data"] == name]) for name in names]
    columns = (Field("data", "dataset"), Field("variant", "variant"), Field("n", "training points"), *fields(own))
    return Findings(table(own, columns), tuple(chart for chart in charts if chart.rows))


def _size_chart(data: str, own: Sequence[Row]) -> ChartSpec:
    """Curves of one dataset: the first variant, the original, the last."""
    variants = list(dict.fromkeys(row["variant"] for row in own))
    shown = variants if len(variants) <= 3 else [variants[0], "original", variants[-1]]
    return ChartSpec(
        "curves",
        marks([row for row in own if row["variant"] in shown], "n", "variant", ("pgd_train_robust", "pgd_robust")),
        Field("n", "training points", log=True),
        Field("accuracy", "accuracy under PGD-40, at most", percent=True),
        "curve",
        f"Accuracy under PGD-40 over the training points of {data}, by variant",
        "PGD training with weight decay 0.002; the same number of steps for every size.",
    )


def by_dataset(measured: Sequence[Measured]) -> Findings:
    """A row for each dataset and size; the curves of Schmidt et al., in a chart for each dataset if one is too full."""
    own = rows(measured, ("data", "n"))
    curves = ("standard_clean", "pgd_train_robust", "pgd_robust")
    names = list(dict.fromkeys(row["data"] for row in own))
    together = len(curves) * len(names) <= MOST_CURVES
    charts = [
        ChartSpec(
            "curves",
            marks([row for row in own if row["data"] in shown], "n", "data", curves),
            Field("n", "training points", log=True),
            ACCURACY,
            "curve",
            "Natural and robust accuracy over the training points" + ("" if together else f" of {shown[0]}"),
            "Linf 0.3 on MNIST, 8/255 on color images; nested subsets, the same number of steps for every size.",
        )
        for shown in ([names] if together else [[name] for name in names])
    ]
    columns = (Field("data", "dataset"), Field("n", "training points"), *fields(own))
    return Findings(table(own, columns), tuple(chart for chart in charts if chart.rows))


TABLES: dict[str, Callable[[Sequence[Measured]], Findings]] = {
    "sensitivity_mnist": partial(
        by_variant,
        title="Clean accuracy stays, robust accuracy falls from binarized to smooth digits",
        note="Linf 0.3. Unbroken by PGD-40: an upper bound of robust accuracy, as in the paper.",
    ),
    "sensitivity_cifar": partial(
        by_variant,
        title="Clean and robust accuracy over saturation",
        note="Linf 8/255. PGD-40 and the standard suite leave at most so much of robust accuracy.",
    ),
    "gamma": partial(
        by_variant,
        title="Clean and robust accuracy over gamma",
        note="Linf 8/255, CIFAR-10 with pixels to the power gamma.",
    ),
    "fashion_edges": partial(
        by_variant,
        title="Fashion-MNIST and its edges, clean and under attack",
        note="Linf 0.3, Fashion-MNIST and its Canny edges with sigma 1.",
    ),
    "scaled_digits": partial(
        by_variant,
        title="Robust accuracy at equal distance between classes",
        note="Linf 0.3. Each smoothing is followed by the original and the binarized digits scaled to its distance.",
    ),
    "capacity_mnist": by_width,
    "capacity_cifar": by_width,
    "sample_size": by_size,
    "sample_complexity": by_dataset,
}


@cache
def _study(name: str) -> Study:
    with as_file(files("radii_papers.studies") / f"{name}.toml") as path:
        return replace(toml.load(path, taken=()), analyze=TABLES[name])


def __getattr__(name: str) -> Study:
    """The study of the file ``NAME.toml``: what the entry points name."""
    if name not in TABLES:
        raise AttributeError(f"There is no study {name!r} among the attacked grids.")
    return _study(name)
