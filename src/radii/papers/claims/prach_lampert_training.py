"""Claims of Prach & Lampert 2025 about trained networks: more data (Fig. 1, 2), bands of components (Table 1).

The ``cpu`` budget trains networks of a hundredth of the paper's size for a
thousandth of its steps: it can judge orders and signs, not accuracies. Claims
about accuracies are judged at the ``paper`` budget alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from radii.papers.claims.claim import TRAINED, Claim, Figures, Results
from radii.papers.claims.reading import average, largest_fall, rank_correlation, ratio
from radii.papers.published import published
from radii.studies.study import Measured

PAPER = "Prach & Lampert 2025"
DATA = ("mnist", "cifar10")
RADIUS = {"mnist": 1.0, "cifar10": 36 / 255}
LIPSCHITZ, STANDARD = "1-Lipschitz", "standard"
BANDS = ("1-16", "1-512", "513-3072", "2049-3072", "1-16,513-3072", "1-3072")
CHANCE = 0.1
Value = Callable[[Measured], float]


def certified(split: str, data: str) -> Value:
    """Certified accuracy of a cell at the radius that the study shows."""

    def value(cell: Measured) -> float:
        at = [round(float(radius), 6) for radius in cell.result["radii"]].index(round(RADIUS[data], 6))
        return float(cell.result[split]["certified"][at]["value"])

    return value


def curve(found: Results, data: str, model: str, value: Value) -> list[float]:
    """Means over seeds, by growing number of training points."""
    cells = found.every({"data": data, "model": model})
    sizes = sorted({cell.place["n"] for cell in cells})
    return [average([value(cell) for cell in cells if cell.place["n"] == n]) for n in sizes]


def certified_curve(found: Results, data: str, split: str = "test") -> list[float]:
    """Certified accuracy against the number of training points."""
    return curve(found, data, LIPSCHITZ, certified(split, data))


def falls(found: Results) -> Figures:
    """The greatest loss of certified accuracy from a doubling of the data."""
    return {data: largest_fall(certified_curve(found, data)) for data in DATA}


def gain_per_doubling(found: Results) -> Figures:
    """Points of certified accuracy per doubling; a quarter of the doublings is left out at each end."""
    values = certified_curve(found, "cifar10")
    gains = [b - a for a, b in pairwise(values)]
    cut = len(gains) // 4
    return {"points per doubling": 100 * average(gains[cut : len(gains) - cut])}


def still_growing(found: Results) -> Figures:
    """Gain over the last two doublings: certified accuracy less clean accuracy of the standard network."""
    figures = {}
    for data in DATA:
        robust = certified_curve(found, data)
        clean = curve(found, data, STANDARD, lambda cell: float(cell.result["test_accuracy"]))
        figures[data] = (robust[-1] - robust[-3]) - (clean[-1] - clean[-3])
    return figures


def overfitting(found: Results) -> Figures:
    """Train less test certified accuracy on the smallest subset, and by how much that shrinks to the largest."""
    figures: dict[str, float] = {}
    for data in DATA:
        gaps = [a - b for a, b in zip(certified_curve(found, data, "train"), certified_curve(found, data), strict=True)]
        figures |= {f"{data}, smallest subset": gaps[0], f"{data}, smallest less largest": gaps[0] - gaps[-1]}
    return figures


def standard_over_certified(found: Results) -> Figures:
    """Clean accuracy of the standard network less certified accuracy, least over the sizes."""
    figures = {}
    for data in DATA:
        clean = curve(found, data, STANDARD, lambda cell: float(cell.result["test_accuracy"]))
        figures[data] = min(a - b for a, b in zip(clean, certified_curve(found, data), strict=True))
    return figures


def consistent(found: Results) -> Figures:
    """What must be true of every certificate: below clean accuracy, falling with the radius, bounds of 1."""
    over, rise, bound = -1.0, -1.0, 0.0
    for cell in found.every({"model": LIPSCHITZ}):
        bound = max(bound, float(cell.result["lipschitz"]))
        for split in ("train", "test"):
            values = [float(share["value"]) for share in cell.result[split]["certified"]]
            over = max(over, max(values) - float(cell.result[split]["clean"]["value"]))
            rise = max(rise, *(b - a for a, b in pairwise(values)))
    return {"certified over clean": over, "rise with the radius": rise, "Lipschitz bound": bound}


def table(found: Results) -> Mapping[str, Mapping[str, float]]:
    """Table 1: per band the accuracies of both networks."""
    rows = {}
    for band in BANDS:
        standard = found.at({"band": band, "model": STANDARD})
        bounded = found.at({"band": band, "model": LIPSCHITZ})
        rows[band] = {
            "train_acc_pct": float(standard["train_accuracy"]),
            "test_acc_pct": float(standard["test_accuracy"]),
            "train_cra_36_255_pct": float(bounded["train"]["certified"][0]["value"]),
            "test_cra_36_255_pct": float(bounded["test"]["certified"][0]["value"]),
        }
    return rows


def printed(metric: str) -> dict[str, float]:
    """A column of Table 1 as shares."""
    return {
        band: published("000", "Table 1", method=f"PC {band.replace(',', ' & ')}", metric=metric) / 100
        for band in BANDS
    }


def column(metric: str) -> Callable[[Results], Figures]:
    """A column of Table 1 as measured."""
    return lambda found: {band: row[metric] for band, row in table(found).items()}


def order(metric: str) -> Callable[[Results], Figures]:
    """Rank correlation of a measured column with the printed one."""
    expected = printed(metric)
    return lambda found: {
        "rank correlation": rank_correlation(
            [row[metric] for row in table(found).values()], [expected[band] for band in table(found)]
        )
    }


def bands(found: Results) -> Figures:
    """Differences between bands that the section speaks about."""
    rows = table(found)
    clean = {band: row["test_acc_pct"] for band, row in rows.items()}
    robust = {band: row["test_cra_36_255_pct"] for band, row in rows.items()}
    both, first, late, full = "1-16,513-3072", "1-16", "513-3072", "1-3072"
    return {
        "standard, 513-3072 over all, above chance": ratio(clean[late] - CHANCE, clean[full] - CHANCE),
        "standard, 2049-3072": clean["2049-3072"],
        "certified, 513-3072": robust[late],
        "certified, 2049-3072": robust["2049-3072"],
        "certified, all less 1-512": robust[full] - robust["1-512"],
        "standard, gain from 513-3072 beside 1-16": clean[both] - clean[first],
        "certified, gain from 513-3072 beside 1-16": robust[both] - robust[first],
        "gain, standard less certified": (clean[both] - clean[first]) - (robust[both] - robust[first]),
    }


NOISE = "two standard errors of a share of 2,000 test points, which all seeds share"
WHERE = "Table 1 and section 5.2"

CLAIMS = (
    Claim(
        "prach-certified-grows",
        "Certified accuracy grows with every doubling of the training data.",
        PAPER,
        "section 5.1, Fig. 1",
        "data-scaling",
        falls,
        dict.fromkeys(DATA, 0.0),
        0.02,
        NOISE,
        relation="≤",
        budgets=TRAINED,
    ),
    Claim(
        "prach-five-points-per-doubling",
        "In the middle of the CIFAR-10 curve a doubling adds about 5 points of certified accuracy.",
        PAPER,
        "section 5.1, Fig. 1",
        "data-scaling",
        gain_per_doubling,
        {"points per doubling": published("001", "text 5.1")},
        2.0,
        "half a point of rounding in 'about 5', and the noise of two ends of 2,000 test points over the doublings",
        budgets=TRAINED,
        corrects="The text says 5%, meaning points.",
    ),
    Claim(
        "prach-robust-learning-is-hungrier",
        "Over the last two doublings certified accuracy gains more than the standard network's clean accuracy.",
        PAPER,
        "section 5.1, Fig. 1 and 2",
        "data-scaling",
        still_growing,
        dict.fromkeys(DATA, 0.0),
        0.01,
        "one standard error of the difference",
        relation="≥",
        budgets=TRAINED,
    ),
    Claim(
        "prach-robust-overfitting",
        "On the smallest subset certified accuracy is far higher on training than on test points.",
        PAPER,
        "section 5.3, Fig. 4",
        "data-scaling",
        overfitting,
        {f"{data}, smallest subset": 0.1 for data in DATA},
        0.0,
        "far higher: at least ten points, several times the noise; the paper's figure shows dozens",
        relation="≥",
        budgets=TRAINED,
    ),
    Claim(
        "prach-gap-shrinks-with-data",
        "The gap between train and test certified accuracy shrinks from the smallest to the largest subset.",
        PAPER,
        "section 5.1, Fig. 1",
        "data-scaling",
        overfitting,
        {f"{data}, smallest less largest": 0.0 for data in DATA},
        0.0,
        "the sign is the statement",
        relation="≥",
        budgets=TRAINED,
    ),
    Claim(
        "prach-accuracy-above-certified",
        "At every size the standard network's clean accuracy exceeds the certified accuracy of the 1-Lipschitz one.",
        PAPER,
        "section 5.1, Fig. 1 and 2",
        "data-scaling",
        standard_over_certified,
        dict.fromkeys(DATA, 0.0),
        0.0,
        "the sign is the statement",
        relation="≥",
        budgets=TRAINED,
    ),
    Claim(
        "prach-certificates-are-consistent",
        "In every trained network certified accuracy is at most clean accuracy and falls as the radius grows.",
        PAPER,
        "Eq. 1 to 5",
        "data-scaling",
        consistent,
        {"certified over clean": 0.0, "rise with the radius": 0.0},
        0.0,
        "true by definition on the same points",
        relation="≤",
    ),
    Claim(
        "prach-trained-networks-are-1-lipschitz",
        "Every trained 1-Lipschitz network has a proved Lipschitz bound of 1.",
        PAPER,
        "section 4",
        "data-scaling",
        consistent,
        {"Lipschitz bound": 1.0},
        1e-5,
        "proved upper bounds carry rounding",
        relation="≤",
    ),
    Claim(
        "prach-bands-standard-order",
        "The six bands of components rank as printed by the standard network's test accuracy.",
        PAPER,
        WHERE,
        "subspaces",
        order("test_acc_pct"),
        {"rank correlation": 1.0},
        0.12,
        "two swaps of neighbors among six bands",
        relation="≥",
        budgets=TRAINED,
    ),
    Claim(
        "prach-bands-certified-order",
        "The six bands rank as printed by certified accuracy.",
        PAPER,
        WHERE,
        "subspaces",
        order("test_cra_36_255_pct"),
        {"rank correlation": 1.0},
        0.12,
        "two swaps of neighbors among six bands",
        relation="≥",
        budgets=TRAINED,
    ),
    Claim(
        "prach-standard-reads-late-components",
        "From components 513-3072, 2% of the variance, a standard network reads most of what it reads from all.",
        PAPER,
        WHERE,
        "subspaces",
        bands,
        {"standard, 513-3072 over all, above chance": (85 - 10) / (94 - 10)},
        0.25,
        "a network of a hundredth of the size, trained for a thousandth of the steps",
        relation="≥",
        budgets=TRAINED,
    ),
    Claim(
        "prach-standard-reads-last-components",
        "Even from the last 1,024 components, 0.02% of the variance, a standard network reads classes (39% accuracy).",
        PAPER,
        WHERE,
        "subspaces",
        bands,
        {"standard, 2049-3072": printed("test_acc_pct")["2049-3072"]},
        0.24,
        "15%, clearly above chance, is what a shrunken network can show",
        relation="≥",
        budgets=TRAINED,
    ),
    Claim(
        "prach-nothing-robust-in-late-components",
        "From components 513-3072 nothing can be certified beyond chance.",
        PAPER,
        WHERE,
        "subspaces",
        bands,
        {"certified, 513-3072": CHANCE},
        0.02,
        "three standard errors of chance on 2,000 test points",
        relation="≤",
        budgets=TRAINED,
    ),
    Claim(
        "prach-nothing-robust-in-last-components",
        "From the last 1,024 components nothing at all can be certified.",
        PAPER,
        WHERE,
        "subspaces",
        bands,
        {"certified, 2049-3072": printed("test_cra_36_255_pct")["2049-3072"]},
        0.005,
        "whole percents",
        relation="≤",
        budgets=TRAINED,
    ),
    Claim(
        "prach-first-512-are-enough",
        "Components 1-512 give almost the certified accuracy of all (61% and 62%).",
        PAPER,
        WHERE,
        "subspaces",
        bands,
        {"certified, all less 1-512": 0.01},
        0.03,
        "two standard errors of a difference on 2,000 test points",
        budgets=TRAINED,
    ),
    Claim(
        "prach-late-components-help-only-accuracy",
        "Beside components 1-16 the late ones add far more to accuracy (43 points) than to certified accuracy (4).",
        PAPER,
        WHERE,
        "subspaces",
        bands,
        {"gain, standard less certified": 0.39},
        0.29,
        "at least ten points of difference, from a shrunken network",
        relation="≥",
        budgets=TRAINED,
    ),
    *(
        Claim(
            f"prach-table1-{name}",
            f"Table 1, {title}: every band within 2 points.",
            PAPER,
            "supplement, Table 1",
            "subspaces",
            column(metric),
            printed(metric),
            0.02,
            "seeds and a reimplementation; smaller networks cannot judge it",
            budgets=("paper",),
        )
        for name, title, metric in (
            ("standard-train", "standard network on training points", "train_acc_pct"),
            ("standard-test", "standard network on test points", "test_acc_pct"),
            ("certified-train", "certified accuracy on training points", "train_cra_36_255_pct"),
            ("certified-test", "certified accuracy on test points", "test_cra_36_255_pct"),
        )
    ),
)
