"""Data scaling: certified accuracy against the number of training points, at equal compute.

Prach & Lampert 2025, Fig. 1 and 2: on nested subsets, doubled from one to the
next, certified accuracy of a 1-Lipschitz network keeps growing, about 5 points
per doubling in the middle of the curve, where clean accuracy of a standard
network saturates earlier.

Every size gets the same number of steps. At the budgets ``cpu`` and ``night`` the
1-Lipschitz network is the isometric one, whose curve is limited by data and not by
compute at these lengths; at ``paper`` it is the paper's CPL ConvNet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from radii.budget import BUDGETS, Budget
from radii.runs.component_specs import DataSpec
from radii.runs.step import Step
from radii.runs.steps import Certify, Train
from radii.studies.study import Cell, Study
from radii.training.recipes import NO_SETTINGS, Settings, deep_merge
from radii_papers.studies._data_scaling_findings import analyze
from radii_papers.studies._labels import CONVNET, LIPSCHITZ, MLP, SMOOTHED, STANDARD
from radii_papers.studies._prach_networks import (
    CPL,
    NO_TEST_EPOCHS,
    POINTS,
    RADII,
    SIGMA,
    doubled,
    isometric_training,
    lipschitz_training,
    mlp_training,
    noisy_training,
    shrunk,
    standard_training,
)

# Digits and garments must not be mirrored; the paper does, with a loss of its own for each network.
UNMIRRORED: Settings = {"augmentation": {"flip": False}}
# Section 9.3 of the supplement: 16 instead of 64 channels, MLPs of width 1024 instead of 3072, crops and flips only.
PAPER_MNIST: Settings = {"augmentation": {"erase": 0}}
WIDTHS: dict[str, tuple[int, int]] = {"cifar10": (64, 3072), "mnist": (16, 1024)}  # of ConvNet and MLP


@dataclass(frozen=True)
class _TrainingScale:
    """What a budget trains.

    Args:
        isometric: the settings of the isometric network, by dataset; without, the paper's ConvNet is trained.
        further: what differs from the paper's other networks; those without an entry are not trained.
        every: the other networks are trained at one size in so many, with one seed unless it is 1.
        sampled: test points of the smoothed network, whose samples cost most; default: as many as of others. Of the
            training points a tenth as many.
    """

    sizes: Mapping[str, tuple[int, ...]]
    seeds: int
    standard: Mapping[str, Settings]
    isometric: Mapping[str, Settings]
    further: Mapping[str, Settings]
    without: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    every: int = 1
    sampled: int | None = None


SCALES: dict[Budget, _TrainingScale] = {
    "smoke": _TrainingScale(
        {"digits": doubled(1280, 3)},
        1,
        {"digits": shrunk(20, 64, 4)},
        {"digits": {"steps": 20}},
        {SMOOTHED: shrunk(20, 64, 4)},
        every=3,
    ),
    "cpu": _TrainingScale(
        {"cifar10": doubled(50_000, 7), "mnist": doubled(60_000, 6)},
        3,
        {"mnist": deep_merge(shrunk(200, 128, 4), UNMIRRORED), "cifar10": shrunk(300, 128, 8)},
        {"mnist": {"steps": 400}, "cifar10": {"steps": 1100}},
        {
            CONVNET: deep_merge(shrunk(300, 128, 8, depth=1), {"model": {"layer": "cpl"}}),
            MLP: {
                "steps": 300,
                "batch_size": 128,
                "model": {"depth": 4, "width": 784},
                "augmentation": {"crop": 2, "erase": 0},
            },
            SMOOTHED: deep_merge(shrunk(300, 128, 8), {"optimizer": {"lr": 0.3}}),
        },
        without={MLP: ("cifar10",)},  # a step with its matrices of 3072 x 3072 takes about ten seconds
        every=3,
        sampled=200,
    ),
    "night": _TrainingScale(
        {"mnist": doubled(60_000, 10), "cifar10": doubled(50_000, 10)},
        3,
        {"mnist": deep_merge(shrunk(1500, 128, 8), UNMIRRORED), "cifar10": shrunk(1500, 128, 8)},
        {"mnist": {"steps": 2000}, "cifar10": {"steps": 4000, "method": {"temperature": 0.35}}},
        {
            CONVNET: deep_merge(shrunk(1500, 128, 16, depth=1), {"model": {"layer": "cpl"}}),
            MLP: {"steps": 600, "batch_size": 128, "model": {"depth": 4}, "augmentation": {"crop": 2, "erase": 0}},
            SMOOTHED: deep_merge(shrunk(1500, 128, 16), {"optimizer": {"lr": 0.3}}),
        },
        every=2,
    ),
    "paper": _TrainingScale(
        {"mnist": doubled(60_000, 11), "cifar10": doubled(50_000, 11)},
        3,
        NO_SETTINGS,
        NO_SETTINGS,
        {MLP: NO_SETTINGS, SMOOTHED: NO_SETTINGS},
    ),
}


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """Every size and seed, the same number of steps whatever the size; large sizes first, with all their seeds."""
    scale = SCALES[budget]
    sizes = [(number, name, n) for name, all_n in scale.sizes.items() for number, n in enumerate(reversed(all_n))]
    planned = []
    for number, name, size in sorted(sizes, key=lambda entry: entry[0]):
        data = DataSpec.of(f"{name}+subset:{size}")
        for seed in range(scale.seeds):
            for network, step in _steps(scale, budget, data, seed, number).items():
                planned.append(Cell({"data": name, "n": size, "seed": seed, "model": network}, step))
    return tuple(planned)


def _steps(scale: _TrainingScale, budget: Budget, data: DataSpec, seed: int, number: int) -> dict[str, Step]:
    """What is measured of every network at one size, the ``number``-th from the largest."""
    name = data.base
    own = deep_merge(NO_TEST_EPOCHS, _own(name, budget))
    if name in scale.isometric:
        short = scale.isometric[name]
        bounded = isometric_training(data, short["steps"], {**short, **NO_TEST_EPOCHS}, seed)
    else:
        cpl = deep_merge(CPL, {"model": {"width": WIDTHS[name][0]}})
        bounded = lipschitz_training(data, deep_merge(cpl, own), seed)
    measure: dict[str, Any] = {"data": data, "radii": RADII, "points": POINTS[budget]}
    if name in scale.isometric:
        measure["train_points"] = POINTS[budget] // 5
    plain = deep_merge(
        deep_merge(scale.standard.get(name, NO_SETTINGS), NO_TEST_EPOCHS), {"augmentation": own["augmentation"]}
    )
    steps: dict[str, Step] = {
        LIPSCHITZ: Certify(model=bounded, **measure),
        STANDARD: standard_training(data, plain, seed),
    }
    if number % scale.every == 0 and (scale.every == 1 or seed == 0):
        for network, changes in scale.further.items():
            if name in scale.without.get(network, ()):
                continue
            trained = _further(network, data, deep_merge(changes, own), seed)
            how: dict[str, Any] = {}
            if network == SMOOTHED:
                sampled = scale.sampled or POINTS[budget]
                how = {"method": "estimate", "sigma": SIGMA, "points": sampled, "train_points": max(1, sampled // 10)}
            steps[network] = Certify(model=trained, **{**measure, **how})
    return steps


def _own(name: str, budget: Budget) -> Settings:
    """How the augmentation differs on one dataset."""
    if name == "mnist":
        return PAPER_MNIST if budget == "paper" else UNMIRRORED
    return {"augmentation": {}}


def _further(network: str, data: DataSpec, changes: Settings, seed: int) -> Train:
    """The paper's other robust networks; those of smoothing have radii that are estimates."""
    if network == MLP:
        return mlp_training(data, deep_merge({"model": {"width": WIDTHS[data.base][1]}}, changes), seed)
    return noisy_training(data, changes, seed) if network == SMOOTHED else lipschitz_training(data, changes, seed)


STUDY = Study(
    "data-scaling",
    "Certified accuracy against the amount of data",
    "Prach & Lampert 2025, Fig. 1 and 2",
    _cells,
    analyze,
    BUDGETS,
)
