"""What the printed tables say, counted: whether sentences about them agree with their numbers."""

from __future__ import annotations

from itertools import pairwise

from radii_papers.claims._method_checks import points_per_halving
from radii_papers.claims._study_cells import rank_correlation
from radii_papers.published import lookup, select

LOCALLY_ROUGH = ("Natural", "GR", "LLR")
MNIST, LIPSCHITZ, DROPOUT = "tab:mnist (p.14)", "tab:cifar-resimagenet-lipschitz", "tab:dropout"
# Network or dataset at the head of a column: the table, its dataset and its network where there are two.
COLUMNS: dict[str, tuple[str, str, str | None]] = {
    "CNN1": (MNIST, "MNIST", "CNN1"),
    "CNN2": (MNIST, "MNIST", "CNN2"),
    "CIFAR-10": (LIPSCHITZ, "CIFAR-10", None),
    "Restricted ImageNet": (LIPSCHITZ, "Restricted ImageNet", None),
}


# Factors by which digits were scaled to the inter-class distance of smooth 3, 4 and 5.
SCALED = {"original": ("0.970", "0.955", "0.932"), "binarized": ("0.821", "0.809", "0.790")}


def yang_tables() -> dict[str, float]:
    """The sentences under the tables of the slides on Yang et al. 2020, against the tables."""
    figures: dict[str, float] = {}
    rough_above = trades_least = 0
    for head, (table, dataset, model) in COLUMNS.items():
        steep = _column(table, dataset, model, "test_lipschitz")
        robust = _column(table, dataset, model, "adv_test_acc_pct")
        smooth = [value for method, value in steep.items() if method not in LOCALLY_ROUGH]
        rough_above += min(steep[method] for method in LOCALLY_ROUGH) > max(smooth)
        trades_least += min(steep, key=lambda method: steep[method]).startswith("TRADES")
        figures[f"rank correlation, {head}"] = rank_correlation(
            [steep[method] for method in robust], list(robust.values())
        )
    figures["columns with diminishing returns"] = sum(_diminishing(*COLUMNS[head]) for head in COLUMNS)
    figures["rows of RST whose test accuracy is below that of AT"] = _self_trained_below()
    figures["columns where Natural, GR and LLR are the three steepest"] = rough_above
    figures["columns where TRADES is the least steep"] = trades_least
    raised, narrowed, pairs = 0, 0, 0
    for dataset in ("SVHN", "CIFAR-10"):
        steep = _column(DROPOUT, dataset, None, "test_lipschitz")
        gaps = _column(DROPOUT, dataset, None, "gap_points")
        for plain, dropped in _with_and_without(steep):
            raised += steep[dropped] > steep[plain]
            if plain in gaps and dropped in gaps:  # two cells are blank on the slide
                pairs += 1
                narrowed += gaps[dropped] < gaps[plain]
    figures["robust rows whose test accuracy dropout lowers"] = sum(
        test[dropped] < test[plain]
        for test in (_column(DROPOUT, dataset, None, "test_acc_pct") for dataset in ("SVHN", "CIFAR-10"))
        for plain, dropped in _with_and_without(test)
        if not plain.startswith("Natural")
    )
    figures["pairs where dropout raises Lipschitzness"] = raised
    figures["pairs whose gap dropout does not narrow"] = pairs - narrowed
    gaps = _column("tab:generalization-gap", "CIFAR-10", None, "adv_gap_points")
    figures["least adversarial gap of AT, RST and TRADES on CIFAR-10"] = min(
        gap for method, gap in gaps.items() if method not in LOCALLY_ROUGH
    )
    figures["greatest adversarial gap of Natural, GR and LLR on CIFAR-10"] = max(gaps[m] for m in LOCALLY_ROUGH)
    return figures


def _diminishing(table: str, dataset: str, model: str | None) -> bool:
    """Whether a halving of the Lipschitz constant brings less among the five smoothest trainings of a column."""
    steep, robust = (_column(table, dataset, model, name) for name in ("test_lipschitz", "adv_test_acc_pct"))
    rough, smooth = points_per_halving(list(steep.values()), [robust[method] for method in steep])
    return smooth < rough


def _self_trained_below() -> int:
    """In how many rows robust self-training has less test accuracy than adversarial training."""
    columns = [_column(*COLUMNS[head], "test_acc_pct") for head in COLUMNS]
    return sum(test[method] < test["AT"] for test in columns for method in test if method.startswith("RST"))


def ding_tables() -> dict[str, float]:
    """Sentences of Ding et al. 2019 about their tables, against the tables."""
    boxed = {f.dataset: f.value for f in select("003", "Table 7", metric="robust_acc_with_box_pct")}
    free = {f.dataset: f.value for f in select("003", "Table 7", metric="robust_acc_without_box_pct")}
    lost = {str(name): float(boxed[name]) - float(free[name]) for name in boxed}  # type: ignore[arg-type]
    robust = [
        lookup("003", "Table 2", dataset=f"MNIST {v}", metric="robust_acc_pct").number
        for v in ("binarized", "original", *(f"smooth {s}" for s in range(2, 9)))
    ]
    level16 = lookup("003", "Table 3", dataset="CIFAR10 saturate 16", metric="robust_acc_pct").number
    infinite = lookup("003", "Table 3", dataset="CIFAR10 saturate inf", metric="robust_acc_pct").number
    smoothed = [
        lookup("003", "Table 1", dataset=f"MNIST smooth {s}", metric="robust_acc_pct").number for s in (3, 4, 5)
    ]
    scaled = [
        [
            lookup("003", "Table 1", dataset=f"MNIST {kind} scaled {factor}", metric="robust_acc_pct").number
            for factor in row
        ]
        for kind, row in SCALED.items()
    ]
    return {
        "least advantage of scaled over smoothed digits in Table 1": min(
            better - worse for row in scaled for better, worse in zip(row, smoothed, strict=True)
        ),
        "points lost without the box, binarized MNIST": lost.pop("MNIST binarized"),
        "points lost without the box, at most elsewhere": max(lost.values()),
        "times robust accuracy rises in Table 2": sum(b > a for a, b in pairwise(robust)),
        "spread of robust accuracy in Table 2": max(robust) - min(robust),
        "robust accuracy at saturation 16": level16,
        "robust accuracy at infinite saturation": infinite,
    }


def _column(table: str, dataset: str, model: str | None, metric: str) -> dict[str, float]:
    """Method -> value, blanks left out."""
    fitting = select("002", table, dataset=dataset, model=model, metric=metric)
    return {f"{fact.method}": float(fact.value) for fact in fitting if isinstance(fact.value, int | float)}


def _with_and_without(column: dict[str, float]) -> list[tuple[str, str]]:
    """Names of the rows of one method without and with dropout."""
    plain = [name for name in column if "dropout=False" in name]
    return [(name, name.replace("dropout=False", "dropout=True")) for name in plain]
