"""The power of a verdict: the share of binomial resamples of the measured accuracies in which a claim holds.

A measured accuracy is a share of points. Other points of the same size would have given another share: a draw of the
binomial distribution with the measured one. Networks are redrawn independently of each other, although they are
often measured on the same points; so differences between networks vary more than they would, and a verdict is rather
called undecided. Shares of one network are drawn jointly: what is certified stays within what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from numpy.random import Generator, default_rng

from radii.evaluation.accuracy import Accuracy, Bracket
from radii.runs.step_results import CertifiedSplit, CertifyResult, EvaluateResult, ProveResult, StepResult, TrainResult
from radii.studies.study import Measured
from radii_papers.measurements import NearbyAccuracyResult

DRAWS = 100
ENOUGH = 0.9  # a claim that holds in a smaller share of the resamples is not decided
TEST_IMAGES, TRAIN_IMAGES = 10_000, 50_000  # of CIFAR-10; MNIST and Fashion-MNIST have as many to test or more


def share_of_resamples(cells: Sequence[Measured], holds: Callable[[Sequence[Measured]], bool]) -> float | None:
    """In what share of the resamples the claim holds; None where no cell has accuracies that could be redrawn.

    Args:
        cells: those that the claim reads.
        holds: whether the claim holds on such cells.
    """
    if not any(is_a_sample(cell.result) for cell in cells):
        return None
    draw = default_rng(0)
    return sum(holds([resampled(cell, draw) for cell in cells]) for _ in range(DRAWS)) / DRAWS


def is_a_sample(result: Any) -> bool:
    """Whether a result has shares of points."""
    return isinstance(result, EvaluateResult | ProveResult | CertifyResult | TrainResult | NearbyAccuracyResult)


def resampled(cell: Measured, draw: Generator) -> Measured:
    """The cell as other points of the same number would have it; figures that are no shares stay."""
    result: StepResult = cell.result
    match result:
        case EvaluateResult():
            result = result.model_copy(update=_attacked(result, draw))
        case ProveResult():
            nested = _nested([result.clean, result.unbroken, result.proved], draw)
            result = result.model_copy(update=dict(zip(("clean", "unbroken", "proved"), nested, strict=True)))
        case CertifyResult():
            splits = {name: _certified(getattr(result, name), draw) for name in ("train", "test")}
            result = result.model_copy(update=splits)
        case TrainResult():
            size = cell.place.get("n")
            images = {"train_accuracy": size if isinstance(size, int) else TRAIN_IMAGES, "test_accuracy": TEST_IMAGES}
            shares = {name: _share(getattr(result, name), total, draw) for name, total in images.items()}
            result = result.model_copy(update=shares)
        case NearbyAccuracyResult():
            groups = [
                group.model_copy(update={"certified": _share(group.certified, group.points, draw)})
                for group in result.groups
            ]
            result = result.model_copy(update={"groups": tuple(groups)})
    return replace(cell, result=result)


def _share(share: float, total: int, draw: Generator) -> float:
    return float(draw.binomial(total, min(max(share, 0.0), 1.0)) / total) if share == share else share


def _attacked(result: EvaluateResult, draw: Generator) -> dict[str, Any]:
    """Right and unbroken, right and broken, wrong and kept, wrong and changed: one draw of all four counts."""
    robust, kept = result.robust.unbroken.correct, result.robust_to_predictions.unbroken.correct
    total, right = result.clean.total, max(result.clean.correct, robust)
    wrong_kept = min(max(kept - robust, 0), total - right)
    counts = (robust, right - robust, wrong_kept, total - right - wrong_kept)
    robust, broken, wrong_kept, _ = (int(count) for count in draw.multinomial(total, [c / total for c in counts]))
    return {
        "clean": Accuracy(robust + broken, total),
        "robust": _bracket(result.robust, robust, draw),
        "robust_to_predictions": _bracket(result.robust_to_predictions, robust + wrong_kept, draw),
    }


def _bracket(old: Bracket, unbroken: int, draw: Generator) -> Bracket:
    """A bracket with this many unbroken points, of which as large a share is proved as before."""
    proved = draw.binomial(unbroken, old.proved.correct / max(old.unbroken.correct, 1))
    return Bracket(Accuracy(int(proved), old.proved.total), Accuracy(unbroken, old.unbroken.total))


def _certified(split: CertifiedSplit | None, draw: Generator) -> CertifiedSplit | None:
    """Certified points are right, and those certified at a larger radius are certified at a smaller one."""
    if split is None:
        return None
    order = sorted(range(len(split.shares)), key=lambda at: -split.shares[at].correct)
    clean, *nested = _nested([split.clean, *(split.shares[at] for at in order)], draw)
    shares = {at: replace(split.shares[at], correct=share.correct) for at, share in zip(order, nested, strict=True)}
    name = "estimated" if split.certified is None else "certified"
    return split.model_copy(update={"clean": clean, name: tuple(shares[at] for at in range(len(shares)))})


def _nested(shares: Sequence[Accuracy], draw: Generator) -> list[Accuracy]:
    """Counts of sets each of which contains the next."""
    drawn, outer, before = [], shares[0].total, shares[0].total
    for share in shares:
        outer = int(draw.binomial(outer, min(share.correct / before, 1.0))) if before else 0
        before = share.correct
        drawn.append(Accuracy(outer, share.total))
    return drawn
