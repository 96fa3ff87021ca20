"""Data scaling: certified accuracy against the number of training points, at equal compute.

Prach & Lampert 2025, Fig. 1 and 2: on nested subsets, doubled from one to the
next, certified accuracy of a 1-Lipschitz network keeps growing, about 5 points
per doubling in the middle of the curve, where clean accuracy of a standard
network saturates earlier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from radii.budget import Budget
from radii.runs.inputs import DataSpec
from radii.runs.planning import named_training, train_step
from radii.runs.steps import Certify, Train
from radii.studies.study import Cell, Findings, Measured, Place, ScalingCurve, Study, mean
from radii.tables import ChartSpec, Field, Row, table
from radii.training.recipes import NOTHING, Settings, laid_over

LIPSCHITZ, STANDARD = "1-Lipschitz", "standard"
MLP, SMOOTHED = "AOL MLP", "smoothed"  # only at the budget of the paper
RADII = (36 / 255, 72 / 255, 108 / 255, 0.5, 1.0)
RADIUS = {"digits": 36 / 255, "mnist": 1.0, "cifar10": 36 / 255}  # the one that the table and the forecast show


@dataclass(frozen=True)
class TrainingScale:
    """What a budget trains: sizes per dataset, seeds, and what differs from the paper's recipes."""

    sizes: Mapping[str, tuple[int, ...]]
    seeds: int
    points: int
    lipschitz: Settings
    standard: Settings


def _doubled(largest: int, count: int) -> tuple[int, ...]:
    """``count`` sizes up to ``largest``, each twice the one before (rounded down)."""
    return tuple(largest >> power for power in range(count - 1, -1, -1))


def shrunk(steps: int, batch: int, width: int, **model: int) -> Settings:
    """A shorter training of a narrower network, with milder augmentation than 585,000 steps bear.

    Args:
        steps: training steps.
        batch: points in a step.
        width: channels of the narrowest layer.
        **model: further arguments of the network.

    Returns:
        The settings that replace the paper's.
    """
    return {
        "steps": steps,
        "batch_size": batch,
        "model": {"width": width, **model},
        "optimizer": {"lr": 1.0 if model else 0.1},
        "augmentation": {"crop": 2, "erase": 0},
    }


SCALES: dict[Budget, TrainingScale] = {
    "smoke": TrainingScale({"digits": _doubled(1280, 3)}, 1, 200, shrunk(20, 64, 4, depth=1), shrunk(20, 64, 4)),
    "cpu": TrainingScale(
        {"mnist": _doubled(30_000, 9), "cifar10": _doubled(25_000, 9)},  # every point is seen at least once
        3,
        2000,
        shrunk(400, 128, 8, depth=1),
        shrunk(400, 128, 4),
    ),
    "paper": TrainingScale(
        {"mnist": _doubled(60_000, 11), "cifar10": _doubled(50_000, 11)},
        3,
        10_000,
        {"model": {"layer": "cpl"}, "optimizer": {"lr": 1.0}},
        NOTHING,
    ),
}
UNWATCHED: Settings = {"test_every": 0}  # small subsets are passed thousands of times
# Digits are not symmetric, and large radii need a large offset; the paper trains both datasets with the same loss.
MNIST: Settings = {"augmentation": {"flip": False}, "method": {"offset": 0.7}}
# Section 9.3 of the supplement: 16 instead of 64 channels, MLPs of width 1024 instead of 3072, crops and flips only.
PAPER_MNIST: Settings = {"augmentation": {"erase": 0}}
WIDTHS: dict[str, tuple[int, int]] = {"cifar10": (64, 3072), "mnist": (16, 1024)}  # of ConvNet and MLP
EXTRA = ((MLP, "certified", "AOL MLP, certified"), (SMOOTHED, "estimated", "smoothing, estimate"))
SIGMA = 1 / 8  # noise of the smoothed network
EPOCH = 195  # steps of 256 images in an epoch of CIFAR-10; shorter datasets get the same number of steps


def cells(budget: Budget) -> tuple[Cell, ...]:
    """Every size and seed, two networks, the same number of steps whatever the size.

    Args:
        budget: how much work: ``smoke``, ``cpu`` or ``paper``.

    Returns:
        The measurements of the study: each with its place in the grid and the step that makes it.
    """
    scale = SCALES[budget]
    planned = []
    for name, sizes in scale.sizes.items():
        own = laid_over(
            UNWATCHED, {("mnist", "cpu"): MNIST, ("mnist", "paper"): PAPER_MNIST}.get((name, budget), NOTHING)
        )
        plain = laid_over(scale.standard, {**UNWATCHED, "augmentation": own.get("augmentation", {})})
        bounded = laid_over(scale.lipschitz, own)
        if budget == "paper":
            bounded = laid_over(bounded, {"model": {"width": WIDTHS[name][0]}})
        for size in sizes:
            data = DataSpec.of(f"{name}+subset:{size}")
            for seed in range(scale.seeds):
                place: Place = {"data": name, "n": size, "seed": seed}
                trained = lipschitz_training(data, bounded, seed)
                certified = Certify(model=trained, data=data, radii=RADII, points=scale.points)
                planned.append(Cell({**place, "model": LIPSCHITZ}, certified))
                planned.append(Cell({**place, "model": STANDARD}, standard_training(data, plain, seed)))
                if budget == "paper":
                    planned += _further(data, place, own, seed)
    return tuple(planned)


def _further(data: DataSpec, place: Place, own: Settings, seed: int) -> tuple[Cell, Cell]:
    """The paper's other robust networks: the MLP of AOL layers, and SimpleConvNet with noise (radii are estimates)."""
    wide = laid_over(own, {"model": {"width": WIDTHS[str(place["data"])][1], "depth": 8, "layer": "aol"}})
    mlp = named_training(data, "lipschitz-mlp", recipe="prach-lampert", settings=wide, seed=seed)
    noisy = named_training(
        data,
        "simple-convnet",
        "gaussian-noise",
        recipe="prach-lampert",
        settings=laid_over(own, {"steps": 100 * EPOCH, "method": {"sigma": SIGMA}}),
        seed=seed,
    )
    return (
        Cell({**place, "model": MLP}, Certify(model=mlp, data=data, radii=RADII, points=10_000)),
        Cell(
            {**place, "model": SMOOTHED},
            Certify(model=noisy, data=data, radii=RADII, points=10_000, method="estimate", sigma=SIGMA),
        ),
    )


def lipschitz_training(data: DataSpec, changes: Settings, seed: int = 0) -> Train:
    """The paper's 1-Lipschitz ConvNet, with ``changes``.

    Args:
        data: the dataset to train on, by name and variant.
        changes: settings laid over those of the paper, for shorter trainings.
        seed: seed of all random numbers; default 0.

    Returns:
        The training step.
    """
    return named_training(data, recipe="prach-lampert", budget="paper", settings=changes, seed=seed)


def standard_training(data: DataSpec, changes: Settings, seed: int = 0) -> Train:
    """SimpleConvNet, with ``changes`` and the paper's softmax temperature (which its code divides by), 24 epochs.

    Args:
        data: the dataset to train on, by name and variant.
        changes: settings laid over those of the paper, for shorter trainings.
        seed: seed of all random numbers; default 0.

    Returns:
        The training step.
    """
    paper = {
        "steps": 24 * EPOCH,
        "batch_size": 256,
        "optimizer": {"lr": 0.1},
        "augmentation": {"crop": 4, "flip": True, "erase": 8},
        "method": {"offset": 0.0, "temperature": 8.0},
    }
    return train_step(data, "simple-convnet", "offset-cross-entropy", laid_over(paper, changes), "center", seed)


def analyze(measured: Sequence[Measured]) -> Findings:
    """Means over seeds per size; the curves of all seeds go to the forecast.

    Args:
        measured: the cells that are done, with their results.

    Returns:
        The table and the charts, from what is measured so far.
    """
    rows: list[Row] = []
    marks: list[Row] = []
    scaling = []
    for name in dict.fromkeys(str(cell.place["data"]) for cell in measured):
        own = [cell for cell in measured if cell.place["data"] == name]
        certified = [_value(cell, RADIUS[name]) for cell in own if cell.place["model"] == LIPSCHITZ]
        for n in sorted({value["n"] for value in certified} | {float(cell.place["n"]) for cell in own}):
            at_size = [cell for cell in own if cell.place["n"] == n]
            bounded = [cell for cell in at_size if cell.place["model"] == LIPSCHITZ]
            standard = [cell for cell in at_size if cell.place["model"] == STANDARD]
            row = {
                "data": name,
                "n": int(n),
                "seeds": max(len(bounded), len(standard)),
                "certified": mean([value["value"] for value in certified if value["n"] == n]),
                "train_certified": mean([_value(cell, RADIUS[name], "train")["value"] for cell in bounded]),
                "lipschitz_clean": mean([cell.result["test"]["clean"]["value"] for cell in bounded]),
                "standard_clean": mean([cell.result["test_accuracy"] for cell in standard]),
            }
            for extra, key, _ in EXTRA:
                values = [
                    _value(cell, RADIUS[name], key=key)["value"] for cell in at_size if cell.place["model"] == extra
                ]
                row |= {extra: mean(values)} if values else {}
            rows.append(row)
            marks += [
                {"n": int(n), "accuracy": row[key], "curve": f"{name}: {what}"}
                for key, what in (
                    ("certified", f"certified at {_radius(name)}"),
                    ("lipschitz_clean", "1-Lipschitz, clean"),
                    ("standard_clean", "standard, clean"),
                    *((extra, f"{what} at {_radius(name)}") for extra, _, what in EXTRA),
                )
                if row.get(key) is not None
            ]
        points = max((cell.result["test"]["clean"]["total"] for cell in own if "test" in cell.result), default=0)
        if certified:
            scaling.append(
                ScalingCurve(name, LIPSCHITZ, f"certified accuracy at l2 {_radius(name)}", 10, points, tuple(certified))
            )
    columns = (
        Field("data", "dataset"),
        Field("n", "training points", log=True),
        Field("seeds", "seeds"),
        Field("certified", "certified, test", percent=True),
        Field("train_certified", "certified, train", percent=True),
        Field("lipschitz_clean", "1-Lipschitz: clean", percent=True),
        Field("standard_clean", "standard: clean", percent=True),
        *(Field(extra, what, percent=True) for extra, _, what in EXTRA if any(extra in row for row in rows)),
    )
    chart = ChartSpec(
        "curves",
        marks,
        Field("n", "training points", log=True),
        Field("accuracy", "test accuracy", percent=True),
        "curve",
        "Certified accuracy keeps growing with data",
        "Mean over seeds; nested subsets; every training has the same number of steps.",
    )
    return Findings(table(rows, columns), (chart,) if marks else (), tuple(scaling))


def _value(cell: Measured, radius: float, split: str = "test", key: str = "certified") -> Mapping[str, float]:
    at = [round(float(value), 6) for value in cell.result["radii"]].index(round(radius, 6))
    value = cell.result[split][key][at]["value"]
    return {"n": float(cell.place["n"]), "seed": float(cell.place["seed"]), "value": value}


def _radius(name: str) -> str:
    return "36/255" if RADIUS[name] != 1.0 else "1"


STUDY = Study(
    "data-scaling",
    "Certified accuracy against the amount of data",
    "Prach & Lampert 2025, Fig. 1 and 2",
    cells,
    analyze,
)
