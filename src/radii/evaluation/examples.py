"""The worst examples as pictures: clean, perturbation enlarged ten times, adversarial, both predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from radii.data import gallery
from radii.errors import InputError
from radii.evaluation.scores import Scores

ENLARGED = 10


@dataclass(frozen=True)
class WorstExample:
    """One broken point."""

    point: int
    label: int
    prediction: int
    adversarial_prediction: int
    radius: float  # distance of the nearest known error
    clean: NDArray[np.float32]  # [c, h, w] in [0, 1]
    perturbation: NDArray[np.float32]  # [c, h, w]: 1/2 + 10 * (adversarial - clean), clipped to [0, 1]
    adversarial: NDArray[np.float32]  # [c, h, w]


def worst_examples(scores: Scores, x: Tensor, count: int = 8) -> tuple[WorstExample, ...]:
    """The correctly classified points with the smallest adversarial perturbations, smallest first.

    Args:
        x: images [n, 1 or 3, h, w].
        count: the largest number of examples; default 8.
    """
    if x.dim() != 4 or x.shape[1] not in (1, 3):
        raise InputError(f"Pictures need images [n, 1 or 3, h, w], got inputs of shape {tuple(x.shape)}.")
    points = scores.points
    fallen = np.flatnonzero(points.correct & points.changed)
    fallen = fallen[np.argsort(points.broken_radius[fallen], kind="stable")][:count]
    examples = []
    for i in fallen.tolist():
        clean, adversarial = x[i].cpu().float().numpy(), scores.x_adv[i].cpu().numpy()
        moved = (0.5 + ENLARGED * (adversarial - clean)).clip(0, 1)
        examples.append(
            WorstExample(
                i, int(points.label[i]), int(points.prediction[i]), int(points.adversarial_prediction[i]),
                float(points.broken_radius[i]), clean, moved.astype(np.float32), adversarial,
            )
        )  # fmt: skip
    return tuple(examples)


def sheet(examples: Sequence[WorstExample]) -> Image.Image:
    """Several examples as one picture: a column each, clean above its perturbation and the adversarial input."""
    rows = [
        ("clean", np.stack([example.clean for example in examples])),
        (f"change ×{ENLARGED}", np.stack([example.perturbation for example in examples])),
        ("attacked", np.stack([example.adversarial for example in examples])),
    ]
    return gallery.draw(rows, [f"{example.prediction} → {example.adversarial_prediction}" for example in examples])
