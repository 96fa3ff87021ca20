"""The worst examples as pictures: clean, perturbation enlarged ten times, adversarial, both predictions."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

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
    radius: float  # of the nearest error found
    clean: NDArray[np.float32]  # [c, h, w] in [0, 1]
    perturbation: NDArray[np.float32]  # [c, h, w]: 1/2 + 10 * (adversarial - clean), clipped to [0, 1]
    adversarial: NDArray[np.float32]  # [c, h, w]

    def strip(self) -> NDArray[np.uint8]:
        """The three pictures in one row, with a white line between: [h, 3 w + 2] or [h, 3 w + 2, 3]."""
        line = np.ones((*self.clean.shape[:2], 1), np.float32)
        row = np.concatenate([self.clean, line, self.perturbation, line, self.adversarial], axis=2)
        pixels = np.rint(row.clip(0, 1) * 255).astype(np.uint8)
        return pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1)


def worst_examples(scores: Scores, x: Tensor, count: int = 8) -> tuple[WorstExample, ...]:
    """The correctly classified points with the smallest adversarial perturbations, smallest first.

    Args:
        scores: an evaluation of ``x``.
        x: images [n, 1 or 3, h, w].
        count: how many at most.

    Raises:
        InputError: inputs that are not images.
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


def contact_sheet(examples: Sequence[WorstExample], scale: int = 4) -> bytes:
    """The strips of several examples, one below the other, as a PNG; each pixel ``scale`` times enlarged."""
    strips = [example.strip() for example in examples]
    line = np.full((1, *strips[0].shape[1:]), 255, np.uint8)
    rows = [part for strip in strips for part in (strip, line)][:-1]
    sheet = np.concatenate(rows).repeat(scale, 0).repeat(scale, 1)
    file = io.BytesIO()
    Image.fromarray(sheet).save(file, "PNG", optimize=True)
    return file.getvalue()
