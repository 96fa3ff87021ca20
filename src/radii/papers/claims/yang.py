"""Claims of Yang et al. 2020, as the slides have them: separation, its theorem, Lipschitzness, printed tables."""

from __future__ import annotations

from radii.papers.claims.claim import TRAINED, Claim, Figures, Results
from radii.papers.claims.reading import formula, theorem
from radii.papers.published import published

PAPER = "Yang et al. 2020"
NORMS = ("l1", "l2", "linf")
NAMES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "svhn": "SVHN"}
COLUMNS = ("train", "test")
EXACT = "an exact identity, up to float64"


def distances(found: Results, *names: str) -> Figures:
    """Least distances between classes, per dataset and split."""
    return {
        f"{name}, {split}": float(found.at({"data": name})[split]["minimum"]) for name in names for split in COLUMNS
    }


def printed(*names: str) -> Figures:
    """The same as the slides print them."""
    return {
        f"{name}, {split}": published("002", "tab:separation", dataset=NAMES[name], metric=f"min_{split}_train_linf")
        for name in names
        for split in COLUMNS
    }


def in_epsilon(found: Results) -> Figures:
    """The least distance over epsilon, per dataset."""
    return {
        name: min(float(found.at({"data": name})[split]["minimum"]) for split in COLUMNS)
        / published("002", "tab:separation", dataset=NAMES[name], metric="epsilon_linf")
        for name in ("mnist", "cifar10")
    }


def contradictory(found: Results) -> Figures:
    """Equal inputs with different labels."""
    return {name: float(found.at({"data": name})["contradictory_count"]) for name in ("mnist", "cifar10")}


def nearest_rule(found: Results) -> Figures:
    """What the nearest-neighbor rule on the training points proves at epsilon on test points."""
    return {"CIFAR-10 astuteness": float(found.at({"data": "cifar10"})["nearest_neighbor_rule"]["astuteness"])}


BULLETS = "yang-tables"

CLAIMS = (
    Claim(
        "yang-mnist-separation",
        "On MNIST points of different classes are at least 0.737 (train-train) and 0.812 (test-train) apart in Linf.",
        PAPER,
        "table of separation",
        "separation",
        lambda found: distances(found, "mnist"),
        printed("mnist"),
        0.0005,
        "three decimals",
        budgets=TRAINED,
    ),
    Claim(
        "yang-cifar10-separation",
        "On CIFAR-10 at least 0.212 (train-train) and 0.220 (test-train).",
        PAPER,
        "table of separation",
        "separation",
        lambda found: distances(found, "cifar10"),
        printed("cifar10"),
        0.0005,
        "three decimals",
        budgets=TRAINED,
    ),
    Claim(
        "yang-svhn-separation",
        "On SVHN at least 0.094 (train-train) and 0.110 (test-train).",
        PAPER,
        "table of separation",
        "separation",
        lambda found: distances(found, "svhn"),
        printed("svhn"),
        0.0005,
        "three decimals",
        budgets=("paper",),
    ),
    Claim(
        "yang-separated-beyond-2-epsilon",
        "The least distance is more than 2 epsilon, so a robust and accurate classifier exists on these points.",
        PAPER,
        "table of separation",
        "separation",
        in_epsilon,
        {"mnist": 2.0, "cifar10": 2.0},
        0.0,
        "2 epsilon is what the theorem needs",
        relation="≥",
        budgets=TRAINED,
    ),
    Claim(
        "yang-no-exact-contradiction",
        "Neither MNIST nor CIFAR-10 has one image with two labels: the table needs no example barred for that.",
        PAPER,
        "table of separation",
        "separation",
        contradictory,
        {"mnist": 0.0, "cifar10": 0.0},
        0.0,
        "a count",
        budgets=TRAINED,
    ),
    Claim(
        "yang-sample-is-not-support",
        "Built from training points the classifier is 1-NN, proved right at epsilon on few CIFAR-10 test points.",
        PAPER,
        "separation theorem",
        "separation",
        nearest_rule,
        {"CIFAR-10 astuteness": 0.5},
        0.0,
        "less than half is enough to tell a sample from the support",
        relation="≤",
        budgets=TRAINED,
        corrects="X^(i) is the support of a class; the slides let it be read as the dataset.",
    ),
    Claim(
        "yang-astute-below-r",
        "On r-separated classes argmin dist(x, X_i)/r makes no error at any perturbation shorter than r.",
        PAPER,
        "separation theorem",
        "theory",
        theorem("r-separation", [f"{norm}: errors of 6300 at distance .999 r" for norm in NORMS]),
        {f"{norm}: errors of 6300 at distance .999 r": 0.0 for norm in NORMS},
        0.0,
        "a theorem has no exceptions",
        corrects="f is a distance, so the classifier is argmin, although the notation calls f probabilities.",
    ),
    Claim(
        "yang-margin-2",
        "There f_j − f_y is at least 2 at every data point, and 2 at the closest pair.",
        PAPER,
        "separation theorem",
        "theory",
        theorem("r-separation", [f"{norm}: smallest margin f_j − f_y" for norm in NORMS]),
        {f"{norm}: smallest margin f_j − f_y": 2.0 for norm in NORMS},
        1e-6,
        EXACT,
        corrects="The minus sign of f(x)_j − f(x)_y ≥ 2 is lost on the slides.",
    ),
    Claim(
        "yang-lipschitz-1-over-r",
        "The local Lipschitz constant of f is exactly 1/r.",
        PAPER,
        "separation theorem",
        "theory",
        theorem("r-separation", [f"{norm}: largest local Lipschitz constant · r" for norm in NORMS]),
        {f"{norm}: largest local Lipschitz constant · r": 1.0 for norm in NORMS},
        1e-6,
        EXACT,
    ),
    Claim(
        "yang-r-is-the-limit",
        "At 1.05 r the closest pair is flipped, in every norm: radius r cannot be improved.",
        PAPER,
        "separation theorem",
        "theory",
        theorem("r-separation", [f"{norm}: closest pair flips at 1.05 r" for norm in NORMS]),
        {f"{norm}: closest pair flips at 1.05 r": 1.0 for norm in NORMS},
        0.0,
        "one pair, flipped or not",
        corrects="With only non-strict inequalities a distance of exactly r is a tie.",
    ),
    Claim(
        "yang-estimator-ascends",
        "Ascending |f(x) − f(x')|_1 / |x − x'|_∞ finds the exact value |w|_1 of a linear function.",
        PAPER,
        "definition of test Lipschitz",
        "formulas",
        formula("lipschitz-estimator", ("ascending over exact",)),
        {"ascending over exact": 1.0},
        0.01,
        "a lower bound by a finite search",
    ),
    Claim(
        "yang-estimator-must-not-descend",
        "A search that steps the other way, as the public code does, misses most of it.",
        PAPER,
        "definition of test Lipschitz",
        "formulas",
        formula("lipschitz-estimator", ("descending over exact",)),
        {"descending over exact": 0.5},
        0.0,
        "half of the value lost is beyond any choice of steps",
        relation="≤",
        corrects="The printed Lipschitz columns may come from that code; only their order is evidence.",
    ),
    Claim(
        "yang-gradient-penalty-is-squared",
        "The finite difference of gradient regularization approximates the squared gradient norm when it is squared.",
        PAPER,
        "gradient regularization",
        "formulas",
        formula("gradient-penalty", ("squared over exact",)),
        {"squared over exact": 1.0},
        0.01,
        "a step of 0.001 leaves a relative error of that order",
    ),
    Claim(
        "yang-gradient-penalty-without-square",
        "Without the square, as on the slide, it is another quantity.",
        PAPER,
        "gradient regularization",
        "formulas",
        formula("gradient-penalty", ("without the square over exact",)),
        {"without the square over exact": 0.9},
        0.0,
        "ten percent off is clear of the approximation's own error",
        relation="≤",
        corrects="The slide's finite difference lacks the square.",
    ),
    Claim(
        "yang-rough-methods",
        "In all four columns Natural, GR and LLR are the three least locally Lipschitz methods.",
        PAPER,
        "bullet 1 under the Lipschitz tables",
        "formulas",
        formula(BULLETS, ("columns where Natural, GR and LLR are the three steepest",)),
        {"columns where Natural, GR and LLR are the three steepest": 4.0},
        0.0,
        "a count over the printed table; TRADES(β=1) with 2144.66 on Restricted ImageNet breaks it",
    ),
    Claim(
        "yang-trades-smoothest",
        "In all four columns a TRADES model is the most locally Lipschitz.",
        PAPER,
        "bullet 2 under the Lipschitz tables",
        "formulas",
        formula(BULLETS, ("columns where TRADES is the least steep",)),
        {"columns where TRADES is the least steep": 4.0},
        0.0,
        "a count over the printed table",
    ),
    Claim(
        "yang-lipschitzness-and-robustness",
        "Local Lipschitzness is correlated with robust accuracy, in every column.",
        PAPER,
        "bullet 3 under the Lipschitz tables",
        "formulas",
        formula(BULLETS, [f"rank correlation, {head}" for head in ("CNN1", "CNN2", "CIFAR-10", "Restricted ImageNet")]),
        {f"rank correlation, {head}": -0.564 for head in ("CNN1", "CNN2", "CIFAR-10", "Restricted ImageNet")},
        0.0,
        "the one-sided 5% level of a rank correlation of ten methods",
        relation="≤",
    ),
    Claim(
        "yang-robust-methods-overfit",
        "On CIFAR-10 the adversarial gaps of AT, RST and TRADES are all larger than those of Natural, GR and LLR.",
        PAPER,
        "bullet 1 under the tables of gaps",
        "formulas",
        formula(BULLETS, ("least adversarial gap of AT, RST and TRADES on CIFAR-10",)),
        {"least adversarial gap of AT, RST and TRADES on CIFAR-10": 4.5},
        0.0,
        "the greatest gap of the other three in the same column",
        relation="≥",
    ),
    Claim(
        "yang-dropout-narrows-gaps",
        "Dropout narrows the gap between train and test accuracy in every pair of rows whose gaps are printed.",
        PAPER,
        "bullet 1 under the table of dropout",
        "formulas",
        formula(BULLETS, ("pairs whose gap dropout does not narrow",)),
        {"pairs whose gap dropout does not narrow": 0.0},
        0.0,
        "a count over the printed table, in which two cells are blank",
    ),
    Claim(
        "yang-dropout-smooths",
        "Dropout lowers the test Lipschitz constant in every pair of rows.",
        PAPER,
        "bullet 2 under the table of dropout",
        "formulas",
        formula(BULLETS, ("pairs where dropout raises Lipschitzness",)),
        {"pairs where dropout raises Lipschitzness": 0.0},
        0.0,
        "a count over the printed table; Natural on SVHN, AT and RST(2) on CIFAR-10 break it",
    ),
)
