"""Provable: robust error that is proved, not only unbroken, on binarized and on original MNIST.

Ding et al. 2019, section 2.2 and Appendix B.2: the ConvNet of Wong & Kolter
trained by bounds proves at most 3.00% robust error at Linf 0.3 on binarized
digits and 37.70% on the original ones. Beside it the threshold network, robust
to any change below one half by its construction, which is why binarized digits are easy.
"""

from __future__ import annotations

from collections.abc import Sequence

from radii.budget import Budget
from radii.runs.component_specs import DataSpec
from radii.runs.planning import named_training
from radii.runs.step_results import ProveResult
from radii.runs.steps import Prove
from radii.studies.study import Cell, Findings, Measured, Study
from radii.tables import ChartSpec, Field, Row, table
from radii.threat import Ball
from radii.training.recipes import NO_SETTINGS, Settings

THREAT = Ball("linf", 0.3)
POINTS: dict[Budget, int] = {"smoke": 40, "cpu": 10_000, "paper": 10_000}
BY_BOUNDS, FROM_RANDOM, BEHIND_THRESHOLD = "trained by bounds", "trained by bounds, random start", "behind a threshold"
# Grey pixels have no place in the start from pixels; from random weights the radius has to grow slowly.
RANDOM: Settings = {"model": {"start": "random"}, "method": {"ramp": 0.5}}


def _cells(budget: Budget) -> tuple[Cell, ...]:
    """The ConvNet by bounds, from random weights on both variants and from pixels on binarized digits.

    Beside them, on binarized digits, ordinary training behind a threshold.
    """
    base = "digits" if budget == "smoke" else "mnist"
    binarized = f"{base}+binarize"
    planned = [
        _cell(binarized, "binarized", BY_BOUNDS, "wong-kolter-bmnist", None, budget, NO_SETTINGS),
        _cell(base, "original", BY_BOUNDS, "wong-kolter-bmnist", None, budget, RANDOM),
        _cell(binarized, "binarized", BEHIND_THRESHOLD, "clipping-bmnist", "threshold-convnet", budget, NO_SETTINGS),
    ]
    if budget != "smoke":  # whose recipe starts from random weights anyway
        planned.append(_cell(binarized, "binarized", FROM_RANDOM, "wong-kolter-bmnist", None, budget, RANDOM))
    return tuple(planned)


def _cell(
    name: str, variant: str, network: str, recipe: str, model: str | None, budget: Budget, settings: Settings
) -> Cell:
    data = DataSpec.of(name)
    trained = named_training(data, model, recipe=recipe, budget=budget, settings=settings)
    step = Prove(model=trained, data=data, ball=THREAT, points=POINTS[budget])
    return Cell({"variant": variant, "network": network}, step)


def _analyze(measured: Sequence[Measured]) -> Findings:
    """Clean error, and robust error between what PGD-40 breaks and what intervals and CROWN-IBP prove."""
    rows: list[Row] = []
    marks: list[Row] = []
    titles = {"clean": "without an attack", "unbroken": "broken by PGD-40", "proved": "not proved"}
    for cell in measured:
        result = cell.read(ProveResult)
        shares = {"clean": result.clean, "unbroken": result.unbroken, "proved": result.proved}
        errors = {name: 1 - share.value for name, share in shares.items()}
        variant, network = cell.place["variant"], cell.place["network"]
        rows.append({"variant": variant, "network": network, **errors})
        where = f"{variant}, {network}"
        marks += [{"network": where, "error": errors[name], "measure": title} for name, title in titles.items()]
    columns = (
        Field("variant", "MNIST variant"),
        Field("network", "ConvNet"),
        Field("clean", "clean error", percent=True),
        Field("unbroken", "robust error, at least (PGD-40)", percent=True),
        Field("proved", "robust error, at most (proved)", percent=True),
    )
    chart = ChartSpec(
        "bars",
        marks,
        Field("network", "variant and network"),
        Field("error", "error", percent=True),
        "measure",
        "Binarized digits are proved robust almost without loss, the original ones are not",
        "Linf 0.3, all test images. The robust error lies between broken and not proved.",
    )
    return Findings(table(rows, columns), (chart,) if marks else ())


STUDY = Study(
    "provable",
    "Provable robust error on binarized and original MNIST",
    "Ding et al. 2019, section 2.2",
    _cells,
    _analyze,
)
