"""The course of a training: what each pass over the data reached."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Epoch:
    """The results of one pass over the data.

    Args:
        number: the number of the pass, from 0.
        test_accuracy: accuracy in eval mode after the pass; None if it was not measured.
    """

    number: int
    loss: float
    train_accuracy: float
    test_accuracy: float | None


@dataclass(frozen=True)
class Watched:
    """A look at held-out training points during a training by single steps.

    Args:
        steps: of the training, when they were attacked.
        points: how many.
        single: accuracy after the single step that the training takes.
        several: accuracy after several projected steps.
        overfits: whether these leave less than half of what the single step leaves: catastrophic overfitting.
    """

    steps: int
    points: int
    single: float
    several: float
    overfits: bool


@dataclass(frozen=True)
class History:
    """The training so far.

    Args:
        epochs: one entry per pass over the data.
        watched: looks at held-out points; none unless the recipe says ``watch``.
    """

    epochs: tuple[Epoch, ...]
    seconds: float
    watched: tuple[Watched, ...] = ()
