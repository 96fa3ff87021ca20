"""How the pages of the catalog read their cells: a share at a radius, means over seeds, groups by place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from radii.runs.step_results import CertifyResult, EvaluateResult, TrainResult
from radii.studies.study import Measured, mean

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")


def share_at(cell: Measured, radius: float, split: Split = "test", estimated: bool = False) -> float | None:
    """The accuracy that the step ``certify`` found at a radius; None where it was not measured.

    Args:
        split: ``train`` or ``test``.
        estimated: by smoothing without a certificate.
    """
    return cell.read(CertifyResult).share_at(radius, split, estimated)


def mean_at(cells: Sequence[Measured], radius: float, split: Split = "test", estimated: bool = False) -> float | None:
    """The mean of :func:`share_at` over ``cells``; None without any."""
    shares = [share_at(cell, radius, split, estimated) for cell in cells]
    return mean([share for share in shares if share is not None])


def clean_of(cells: Sequence[Measured], split: Split = "test") -> float | None:
    """The mean clean accuracy that the step ``certify`` found on ``split``; None without cells."""
    results = [cell.read(CertifyResult) for cell in cells]
    splits = [result.test if split == "test" else result.train for result in results]
    return mean([own.clean.value for own in splits if own is not None])


def mean_of(cells: Sequence[Measured], figure: Callable[[Measured], float | None]) -> float | None:
    """The mean of a ``figure`` over cells, for example :func:`test_accuracy`; None without cells that have it."""
    values = [figure(cell) for cell in cells]
    return mean([value for value in values if value is not None])


def train_accuracy(cell: Measured) -> float:
    """Of a training, on its train split."""
    return cell.read(TrainResult).train_accuracy


def test_accuracy(cell: Measured) -> float:
    """Of a training, on the test split."""
    return cell.read(TrainResult).test_accuracy


def attacked_clean(cell: Measured) -> float:
    """Clean accuracy on the points of an evaluation."""
    return cell.read(EvaluateResult).test_accuracy


def at_most(cell: Measured) -> float:
    """The share of points that attacks left unbroken."""
    return cell.read(EvaluateResult).robust_accuracy_at_most


def at_least(cell: Measured) -> float:
    """The share of points that an evaluation proved."""
    return cell.read(EvaluateResult).robust_accuracy_at_least


def unchanged(cell: Measured) -> float:
    """The share of points whose prediction, right or wrong, attacks did not change."""
    return cell.read(EvaluateResult).robust_to_predictions.unbroken.value


def steepness(cell: Measured) -> float | None:
    """The local Lipschitz constant of an evaluation, at least; None where it was not asked for."""
    return cell.read(EvaluateResult).local_lipschitz


def grouped(cells: Sequence[Measured], *keys: str) -> dict[tuple[Any, ...], list[Measured]]:
    """Cells by the values of some of their coordinates, in the order in which these come."""
    groups: dict[tuple[Any, ...], list[Measured]] = {}
    for cell in cells:
        groups.setdefault(tuple(cell.place[key] for key in keys), []).append(cell)
    return groups
