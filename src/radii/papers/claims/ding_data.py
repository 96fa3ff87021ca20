"""Claims of Ding et al. 2019 about data: pixel maps, perturbable volumes, distances, what tables print."""

from __future__ import annotations

from radii.papers.claims.claim import TRAINED, Claim, Figures, Results
from radii.papers.claims.reading import formula, largest_rise, ratio
from radii.papers.published import published

PAPER = "Ding et al. 2019"
MNIST = {"+binarize": "binarized", "": "original", "+smooth:3": "smooth 3", "+smooth:5": "smooth 5"}
CIFAR = {"": "original", **{f"+saturate:{p}": f"saturate {p}" for p in (4, 8, 16, 64, 256, 512, "inf")}}
SMOOTHED = {
    "smooth:3": ("scale:0.97", "scale:0.821"),
    "smooth:4": ("scale:0.955", "scale:0.809"),
    "smooth:5": ("scale:0.932", "scale:0.79"),
}
TRUNCATED = "the table truncates to whole bits"


def volume(found: Results, name: str, figure: str = "mean") -> float:
    """Bits of a dataset's perturbable volume."""
    return float(found.at({"measure": "volume", "data": name})[figure])


def printed_volume(dataset: str, metric: str = "mean_log2_volume_bits") -> float:
    """Bits as printed."""
    return published("003", "Table 6", dataset=dataset, metric=metric)


def ranges(found: Results) -> Figures:
    """The least and the greatest volume that any data can have."""
    return {f"{name}, {end}": volume(found, name, end) for name in ("mnist", "cifar10") for end in ("low", "high")}


def distance(found: Results, variant: str) -> float:
    """Inter-class distance of an MNIST variant."""
    return float(found.at({"measure": "inter-class distance", "data": f"mnist{variant}"})["mean"])


def matched(found: Results) -> Figures:
    """Distances of the scaled digits over those of the smoothed digits that they were scaled to match."""
    figures = {}
    for variant, (original, binarized) in SMOOTHED.items():
        smooth = distance(found, f"+{variant}")
        figures[f"{variant}, original scaled"] = ratio(distance(found, f"+{original}"), smooth)
        figures[f"{variant}, binarized scaled"] = ratio(distance(found, f"+binarize+{binarized}"), smooth)
    return figures


CLAIMS = (
    Claim(
        "ding-saturate-2-is-identity",
        "Saturation 2 changes nothing.",
        PAPER,
        "section 3.1",
        "formulas",
        formula("variants", ("saturate:2 from the identity",)),
        {"saturate:2 from the identity": 0.0},
        6e-8,
        "float32 pixels",
    ),
    Claim(
        "ding-saturate-inf-is-binary",
        "Infinite saturation leaves two values.",
        PAPER,
        "section 3.1",
        "formulas",
        formula("variants", ("levels of saturate:inf",)),
        {"levels of saturate:inf": 2.0},
        0.0,
        "a count",
    ),
    Claim(
        "ding-saturation-is-injective",
        "Finite saturation keeps all 256 grey levels apart, so no classifier loses information.",
        PAPER,
        "section 3.1",
        "formulas",
        formula("variants", ("saturate keeps the order, levels lost",)),
        {"saturate keeps the order, levels lost": 0.0},
        0.0,
        "a count over levels 1 to 256 of saturation",
    ),
    Claim(
        "ding-saturation-raises-contrast",
        "Contrast grows with the level of saturation.",
        PAPER,
        "section 3.1",
        "formulas",
        formula("variants", ("smallest step of mean contrast in p",)),
        {"smallest step of mean contrast in p": 0.0},
        0.0,
        "the sign is the statement",
        relation="≥",
    ),
    Claim(
        "ding-volume-mnist",
        "Mean log2 volume of MNIST's balls of 0.3: binarized −1361, original −1297, smooth 3 −1265, smooth 5 −1234.",
        PAPER,
        "Table 6",
        "geometry",
        lambda found: {title: volume(found, f"mnist{variant}") for variant, title in MNIST.items()},
        {title: printed_volume(f"MNIST {title}") for title in MNIST.values()},
        1.0,
        TRUNCATED,
        budgets=TRAINED,
    ),
    Claim(
        "ding-volume-cifar10",
        "The same for CIFAR-10 at 8/255, from −12354 (original) to −15342 (saturation ∞).",
        PAPER,
        "Table 6",
        "geometry",
        lambda found: {title: volume(found, f"cifar10{variant}") for variant, title in CIFAR.items()},
        {title: printed_volume(f"CIFAR10 {title}") for title in CIFAR.values()},
        1.0,
        TRUNCATED,
        budgets=TRAINED,
    ),
    Claim(
        "ding-volume-ranges",
        "Volumes can lie between −1361 and −577 bits on MNIST, between −15342 and −12270 on CIFAR-10.",
        PAPER,
        "Table 6",
        "geometry",
        ranges,
        {
            f"{name}, {end}": printed_volume(title, f"valid_range_{end}_bits")
            for name, title in (("mnist", "MNIST"), ("cifar10", "CIFAR10"))
            for end in ("low", "high")
        },
        1.0,
        TRUNCATED,
        budgets=TRAINED,
    ),
    Claim(
        "ding-volume-factor",
        "From the original to saturation ∞ the volume of CIFAR-10 shrinks by 2^2988.",
        PAPER,
        "section 5.1",
        "geometry",
        lambda found: {"bits": volume(found, "cifar10") - volume(found, "cifar10+saturate:inf")},
        {"bits": 2988.0},
        1.0,
        TRUNCATED,
        budgets=TRAINED,
        corrects="The section has −12352 and 2^2990 where Table 6 has −12354.",
    ),
    Claim(
        "ding-smoothing-filter",
        "The text's square filter did not make Table 6: it gives −1239 for smooth 3, a filter along one axis −1265.",
        PAPER,
        "Table 6 and section 3.1",
        "geometry",
        lambda found: {"smooth 3, square filter": volume(found, "mnist+smooth2d:3")},
        {"smooth 3, square filter": -1239.5},
        2.0,
        "recomputed on 2,000 images, here on 10,000",
        budgets=TRAINED,
        corrects="The text describes an s x s filter.",
    ),
    Claim(
        "ding-interclass-distance",
        "The inter-class distance of smoothed digits is 7.12, 7.01 and 6.85 for smooth 3, 4 and 5.",
        PAPER,
        "Table 1",
        "geometry",
        lambda found: {variant: distance(found, f"+{variant}") for variant in SMOOTHED},
        {
            variant: published(
                "003", "Table 1", dataset=f"MNIST {variant.replace(':', ' ')}", metric="inter_class_distance_l2"
            )
            for variant in SMOOTHED
        },
        0.005,
        "two decimals of a deterministic figure",
        budgets=TRAINED,
    ),
    Claim(
        "ding-interclass-order",
        "Smoothing brings the classes closer: original, smooth 3, 4, 5.",
        PAPER,
        "section 5.2, Fig. 5",
        "geometry",
        lambda found: {
            "largest rise": largest_rise([distance(found, v) for v in ("", "+smooth:3", "+smooth:4", "+smooth:5")])
        },
        {"largest rise": 0.0},
        0.0,
        "deterministic",
        relation="≤",
        budgets=TRAINED,
    ),
    Claim(
        "ding-scaled-distances-match",
        "Digits scaled by 0.970, 0.955, 0.932 (binarized 0.821, 0.809, 0.790) have the smoothed ones' distance.",
        PAPER,
        "Table 1",
        "geometry",
        matched,
        {f"{v}, {w} scaled": 1.0 for v in SMOOTHED for w in ("original", "binarized")},
        0.005,
        "factors have three decimals, distances two",
        budgets=TRAINED,
    ),
    Claim(
        "ding-table-2-falls",
        "In the printed Table 2 robust accuracy never rises from binarized to smooth 8.",
        PAPER,
        "Table 2",
        "formulas",
        formula("ding-tables", ("times robust accuracy rises in Table 2",)),
        {"times robust accuracy rises in Table 2": 0.0},
        0.0,
        "a count over the printed table",
    ),
    Claim(
        "ding-distance-is-not-all",
        "At equal inter-class distance scaled digits, original or binarized, are more robust than smoothed ones.",
        PAPER,
        "section 5.2, Table 1",
        "formulas",
        formula("ding-tables", ("least advantage of scaled over smoothed digits in Table 1",)),
        {"least advantage of scaled over smoothed digits in Table 1": 0.0},
        0.0,
        "over the printed table",
        relation="≥",
    ),
    Claim(
        "ding-box-is-not-the-reason",
        "Letting perturbations leave the box does not reduce robust accuracy.",
        PAPER,
        "section 5.1 and D.1, Table 7",
        "formulas",
        formula(
            "ding-tables",
            ("points lost without the box, binarized MNIST", "points lost without the box, at most elsewhere"),
        ),
        {
            "points lost without the box, binarized MNIST": 0.0,
            "points lost without the box, at most elsewhere": 0.0,
        },
        0.5,
        "the spread between seeds of one training",
        relation="≤",
    ),
    Claim(
        "ding-saturation-16",
        "Section 3.3's 79.7% robust accuracy is that of saturation 16.",
        PAPER,
        "section 3.3, Table 3",
        "formulas",
        formula("ding-tables", ("robust accuracy at saturation 16",)),
        {"robust accuracy at saturation 16": 79.7},
        0.05,
        "one decimal; Table 3 has 79.7 at saturation ∞",
    ),
)
