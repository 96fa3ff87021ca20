"""Results of steps with the figures that a test is about; everything else is plain."""

from __future__ import annotations

from collections.abc import Sequence

from radii.evaluation.accuracy import Accuracy, Bracket
from radii.runs.audit_record import AuditResult, RuleFigures, SeparationFigures
from radii.runs.step_results import (
    CertifiedAccuracy,
    CertifiedSplit,
    CertifyResult,
    EvaluateResult,
    TrainResult,
)

POINTS = 10_000


def share(value: float, total: int = POINTS) -> Accuracy:
    """An accuracy of four decimals as a count."""
    return Accuracy(round(value * total), total)


def trained(test: float, train: float = 1.0) -> TrainResult:
    """The result of a training."""
    return TrainResult(train_accuracy=train, test_accuracy=test, parameters=1)


def evaluated(
    unbroken: float,
    clean: float | None = None,
    *,
    proved: float = 0.0,
    kept: float | None = None,
    lipschitz: float | None = None,
) -> EvaluateResult:
    """The result of an evaluation; without more it loses no clean accuracy and keeps what it leaves unbroken."""
    stays = unbroken if kept is None else kept
    return EvaluateResult(
        threat="linf:0.3",
        suite="pgd",
        seed=0,
        clean=share(unbroken if clean is None else clean),
        robust=Bracket(share(proved), share(unbroken)),
        robust_to_predictions=Bracket(share(0.0), share(stays)),
        certificate=None,
        proved_radius={},
        broken_radius={},
        radius_known=share(0.0),
        passes={},
        local_lipschitz=lipschitz,
        survivor_bound=None,
        alarms=(),
        notes=(),
        no_certificate_because=None,
    )


def split(clean: float, shares: Sequence[float], *, estimated: bool = False, total: int = POINTS) -> CertifiedSplit:
    """The points of one split in a certification."""
    counts = tuple(CertifiedAccuracy(round(value * total), total) for value in shares)
    return CertifiedSplit(
        clean=share(clean, total),
        certified=None if estimated else counts,
        estimated=counts if estimated else None,
    )


def certified(
    radii: Sequence[float], test: CertifiedSplit | None, train: CertifiedSplit | None = None
) -> CertifyResult:
    """The result of a certification by margins of a 1-Lipschitz network; of an estimate where its shares are."""
    own = test or train
    estimate = own is not None and own.certified is None
    return CertifyResult(
        radii=tuple(radii),
        method="estimate" if estimate else "margin",
        why="",
        certificate="it",
        kind="estimate" if estimate else "deterministic",
        norm="l2",
        alpha=None,
        assumptions=(),
        samples=None,
        lipschitz=1.0,
        train=train,
        test=test,
    )


def audited(
    train: float, test: float, *, epsilon: float = 0.1, right: float = 0.2, proved: float = 0.02
) -> AuditResult:
    """The result of an audit by the least distances of both splits, and what the nearest-neighbor rule reaches."""

    def figures(minimum: float) -> SeparationFigures:
        return SeparationFigures(
            norm="linf",
            minimum=minimum,
            radius=minimum / 2,
            quantiles={"0": minimum, "1": 2 * minimum},
            hubs=(),
            share_possible=1.0,
        )

    return AuditResult(
        name="it",
        norm="linf",
        epsilon=epsilon,
        dimensions=4,
        classes=("a", "b"),
        train=figures(train),
        test=figures(test),
        nearest_neighbor_rule=RuleFigures(accuracy=right, astuteness=proved),
        equal_inputs=0,
        contradictory_count=0,
        log2_volume=None,
        log2_volume_without_box=0.0,
        log10_samples=None,
        shape=None,
    )
