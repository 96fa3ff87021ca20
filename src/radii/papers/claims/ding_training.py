"""Claims of Ding et al. 2019 about trained networks: Table 2 and Fig. 2a on variants of MNIST."""

from __future__ import annotations

from collections.abc import Callable

from radii.papers.claims.claim import TRAINED, Claim, Figures, Results
from radii.papers.claims.reading import largest_rise, rank_correlation, ratio
from radii.papers.published import published

PAPER = "Ding et al. 2019"
STUDY, PROVABLE = "sensitivity-mnist", "provable"
VARIANTS = ("binarized", "original", *(f"smooth {s}" for s in range(2, 9)))
TABLE, FIGURE = "Table 2", "Table 2 and Fig. 2a"


def clean(method: str) -> Callable[[Results], Figures]:
    """Clean accuracy of each variant."""
    return lambda found: {v: float(found.at({"variant": v, "method": method})["clean"]["value"]) for v in VARIANTS}


def robust(found: Results) -> dict[str, float]:
    """Accuracy of the PGD-trained networks under PGD."""
    return {v: float(found.at({"variant": v, "method": "PGD"})["robust_accuracy_at_most"]) for v in VARIANTS}


def stable(found: Results) -> dict[str, float]:
    """Share of points whose prediction PGD does not change."""
    return {
        v: float(found.at({"variant": v, "method": "PGD"})["robust_to_predictions"]["unbroken"]["value"])
        for v in VARIANTS
    }


def printed(metric: str, method: str) -> dict[str, float]:
    """A column of Table 2 as shares."""
    return {v: published("003", TABLE, dataset=f"MNIST {v}", method=method, metric=metric) / 100 for v in VARIANTS}


def spread(figures: Figures) -> float:
    """Greatest less smallest."""
    return max(figures.values()) - min(figures.values())


def prediction_margin(found: Results) -> Figures:
    """Robustness with respect to predictions less robust accuracy, least and greatest over the variants."""
    accuracy, kept = robust(found), stable(found)
    differences = [kept[v] - accuracy[v] for v in VARIANTS]
    return {"least difference": min(differences), "greatest difference": max(differences)}


def proved_error(found: Results, variant: str) -> float:
    """Robust error that bounds leave possible, of the network trained by bounds."""
    return 1 - float(found.at({"variant": variant, "network": "trained by bounds"})["proved"]["value"])


def stated(metric: str, variant: str) -> float:
    """A figure of section 2.2 as a share."""
    return published("003", "text 2.2", dataset=f"MNIST {variant}", metric=metric) / 100


CLAIMS = (
    Claim(
        "ding-provable-binarized",
        "On binarized MNIST provable training reaches a robust error of at most 3.00% at Linf 0.3.",
        PAPER,
        "section 2.2",
        PROVABLE,
        lambda found: {"proved robust error": proved_error(found, "binarized")},
        {"proved robust error": stated("robust_error_upper_pct", "binarized")},
        0.0,
        "an upper bound: any training that proves less shows it",
        relation="≤",
        budgets=TRAINED,
    ),
    Claim(
        "ding-provable-clean",
        "The provably robust network on binarized MNIST has 97.65% clean accuracy.",
        PAPER,
        "section 2.2",
        PROVABLE,
        lambda found: {
            "clean accuracy": float(
                found.at({"variant": "binarized", "network": "trained by bounds"})["clean"]["value"]
            )
        },
        {"clean accuracy": stated("clean_acc_pct", "binarized")},
        0.0,
        "reached or surpassed",
        relation="≥",
        budgets=TRAINED,
    ),
    Claim(
        "ding-provable-original",
        "On the original MNIST the same training proves far less: 37.70% robust error.",
        PAPER,
        "section 2.2",
        PROVABLE,
        lambda found: {
            "original over binarized": ratio(proved_error(found, "original"), proved_error(found, "binarized"))
        },
        {"original over binarized": 5.0},
        0.0,
        "12.6 times in the paper, by weaker bounds; five times is far less by any",
        relation="≥",
        budgets=TRAINED,
    ),
    Claim(
        "ding-robustness-is-sensitive",
        "After the same PGD training robust accuracy differs by 15 points over variants that look alike.",
        PAPER,
        FIGURE,
        STUDY,
        lambda found: {"spread": spread(robust(found))},
        {"spread": spread(printed("robust_acc_pct", "PGD"))},
        0.05,
        "five points: trainings of a hundredth of the length, on 1,000 test points",
        relation="≥",
        budgets=TRAINED,
    ),
    Claim(
        "ding-robust-order",
        "From binarized over original to smooth 8 robust accuracy falls: the order of Table 2.",
        PAPER,
        FIGURE,
        STUDY,
        lambda found: {
            "rank correlation": rank_correlation(
                list(robust(found).values()), list(printed("robust_acc_pct", "PGD").values())
            )
        },
        {"rank correlation": 1.0},
        0.1,
        "three swaps of neighbors among nine variants",
        relation="≥",
        budgets=TRAINED,
    ),
    Claim(
        "ding-robust-falls-step-by-step",
        "No step of smoothing raises robust accuracy.",
        PAPER,
        FIGURE,
        STUDY,
        lambda found: {"largest rise": largest_rise(list(robust(found).values()))},
        {"largest rise": 0.0},
        0.027,
        "two standard errors of a difference of shares of 1,000 points",
        relation="≤",
        budgets=TRAINED,
    ),
    Claim(
        "ding-clean-accuracy-is-not-sensitive",
        "Under standard training clean accuracy differs by less than a point over the same variants.",
        PAPER,
        FIGURE,
        STUDY,
        lambda found: {"spread": spread(clean("standard")(found))},
        {"spread": spread(printed("test_acc_pct", "standard"))},
        0.01,
        "a point: shorter trainings, 1,000 test points",
        relation="≤",
        budgets=TRAINED,
    ),
    Claim(
        "ding-pgd-clean-accuracy",
        "Under PGD training it differs by little more (97.9% to 99.2%).",
        PAPER,
        FIGURE,
        STUDY,
        lambda found: {"spread": spread(clean("PGD")(found))},
        {"spread": spread(printed("test_acc_pct", "PGD"))},
        0.02,
        "two points: shorter trainings, 1,000 test points",
        relation="≤",
        budgets=TRAINED,
    ),
    Claim(
        "ding-sensitivity-is-of-robustness",
        "Robust accuracy spreads over the variants at least five times as much as clean accuracy does.",
        PAPER,
        FIGURE,
        STUDY,
        lambda found: {"ratio": ratio(spread(robust(found)), max(spread(clean("standard")(found)), 0.001))},
        {"ratio": 5.0},
        0.0,
        "the printed spreads are 15 and 0.8 points, a factor of 19",
        relation="≥",
        budgets=TRAINED,
    ),
    Claim(
        "ding-binarized-is-easiest",
        "Binarized digits lose almost nothing under attack (98.9% to 98.1%).",
        PAPER,
        TABLE,
        STUDY,
        lambda found: {"clean less robust": clean("PGD")(found)["binarized"] - robust(found)["binarized"]},
        {"clean less robust": 0.008},
        0.02,
        "two points: a shorter training",
        relation="≤",
        budgets=TRAINED,
    ),
    Claim(
        "ding-predictions-are-kept-longer",
        "Robustness with respect to predictions is at least robust accuracy, on every variant.",
        PAPER,
        "section 3.3, Table 2",
        STUDY,
        prediction_margin,
        {"least difference": 0.0},
        0.0,
        "true by definition on the same attack",
        relation="≥",
    ),
    Claim(
        "ding-errors-are-vulnerability",
        "On MNIST variants it is almost the same as robust accuracy: what is lost is lost to attacks.",
        PAPER,
        "section 3.3, Table 2",
        STUDY,
        prediction_margin,
        {"greatest difference": 0.004},
        0.01,
        "a point: shorter trainings err more on clean digits",
        relation="≤",
        budgets=TRAINED,
    ),
    Claim(
        "ding-table2-robust",
        "Table 2, robust accuracy: every variant within 3 points.",
        PAPER,
        TABLE,
        STUDY,
        robust,
        printed("robust_acc_pct", "PGD"),
        0.03,
        "seeds, a reimplementation and 1,000 test points",
        budgets=TRAINED,
    ),
    Claim(
        "ding-table2-stable",
        "Table 2, robustness with respect to predictions: every variant within 3 points.",
        PAPER,
        TABLE,
        STUDY,
        stable,
        printed("robustness_wrt_predictions_pct", "PGD"),
        0.03,
        "seeds, a reimplementation and 1,000 test points",
        budgets=TRAINED,
    ),
    Claim(
        "ding-table2-clean-pgd",
        "Table 2, clean accuracy after PGD training: every variant within 1 point.",
        PAPER,
        TABLE,
        STUDY,
        clean("PGD"),
        printed("test_acc_pct", "PGD"),
        0.01,
        "seeds, a reimplementation and 1,000 test points",
        budgets=TRAINED,
    ),
    Claim(
        "ding-table2-clean-standard",
        "Table 2, clean accuracy after standard training: every variant within 1 point.",
        PAPER,
        TABLE,
        STUDY,
        clean("standard"),
        printed("test_acc_pct", "standard"),
        0.01,
        "seeds, a reimplementation and 1,000 test points",
        budgets=TRAINED,
    ),
)
