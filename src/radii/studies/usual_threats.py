"""Threats that suit data of a kind, with names and reasons: what is asked if the user does not say."""

from __future__ import annotations

from dataclasses import dataclass

from radii.data.dataset import Data
from radii.geometry.separation import separation
from radii.threat import Ball

PHOTO = 65  # pixels of the longer side from which an image is a photo


@dataclass(frozen=True)
class UsualThreat:
    """A threat with its name and the reason for it."""

    name: str
    ball: Ball
    why: str

    def __str__(self) -> str:
        return f"{self.ball} ({self.name}): {self.why}"


def usual_threat(data: Data) -> UsualThreat:
    """The threat for data of this kind and size.

    Args:
        data: images by their size and color, or features by the distances between their classes.

    Returns:
        L2 0.5 for small grey images and for photos, 36/255 for small color images; for features a quarter of the
        distance that 95% of (at most 2,000 of) the points keep from other classes, to one digit.
    """
    if data.train.is_image:
        if max(data.shape[-2:]) >= PHOTO:
            why = "the least radius at which papers report certified accuracy on ImageNet"
            return UsualThreat("photos", Ball("l2", 0.5), why)
        if data.shape[0] == 1:
            why = "a third of the radius 1.58 at which papers attack MNIST"
            return UsualThreat("small grey images", Ball("l2", 0.5), why)
        why = "the radius at which papers report certified accuracy on CIFAR-10"
        return UsualThreat("small color images", Ball("l2", 36 / 255), why)
    sample = data.train.subset(min(2000, len(data.train)))
    reach = separation(sample.x, sample.y, norm="l2").quantile(0.05) / 4
    ball = Ball("l2", float(f"{max(reach, 1e-3):.1g}"), data.train.box)
    return UsualThreat("features", ball, "a quarter of the distance that 95% of the points keep from other classes")
