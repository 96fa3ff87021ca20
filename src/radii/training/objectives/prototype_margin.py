"""Training of nearest prototypes by their own radii."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.models.classifier import check_inputs
from radii.models.zoo.prototypes import Prototypes
from radii.training.objectives.objective import Loss, TrainingProgress

OWN, RIVALS = 4, 2  # nearest prototypes whose faces count: of the own class, and of each other class
HARDEST = 4  # nearest faces that are measured in the box
NEWTON_STEPS = 4


class PrototypeMargin:
    """loss = mean of T log(1 + sum over faces of exp((offset - m) / T)), m the distance to a face, as it is certified.

    The faces are those between prototypes j of other classes and i of the true class, the i whose face is
    farthest: (|x - w_j|^2 - |x - w_i|^2) / (2 |w_i - w_j|) in L2, negative where j is nearer. With ``box`` the four
    nearest faces count, by their distance within [0, 1] (:mod:`radii.certificates.prototype_faces`), without it the
    nearest face of every other class. At step 0 the prototypes are placed half-way between the means of
    their classes and points of the first batch.

    Args:
        offset: the radius that the loss asks for.
        first_temperature: T at the start of the training, from where it falls linearly to ``temperature``.
        temperature: T at its end; a larger T looks at more points.
        box: whether inputs stay in [0, 1], as pixels do; false for features.
    """

    def __init__(
        self, offset: float = 2.0, first_temperature: float = 0.5, temperature: float = 0.3, box: bool = True
    ) -> None:
        if not (offset >= 0 and first_temperature > 0 and temperature > 0):
            raise InputError(
                "offset must be at least 0 and temperatures positive, "
                f"got {offset}, {first_temperature} and {temperature} instead."
            )
        self.offset, self.first, self.last, self.box = offset, first_temperature, temperature, box

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        """The loss of a batch; the network must be made of prototypes.

        Raises:
            InputError: it is another network.
        """
        if type(model) is not Prototypes:
            raise InputError(
                "The method prototype-margin trains --model prototypes with --preprocessing none, "
                f"got {type(model).__name__}."
            )
        if progress.number == 0:
            if self.box:
                check_inputs(x)
            place(model, x, y, progress)
        scores = model.scores(x)
        faces = Faces.near(model.points, scores, y)
        margins = faces.in_box(x.flatten(1), HARDEST) if self.box else faces.distances
        temperature = self.first + (self.last - self.first) * progress.fraction
        excess = (self.offset - margins) / temperature
        value = temperature * F.softplus(torch.logsumexp(excess, 1)).mean()
        return Loss(value, scores.amax(2))


@torch.no_grad()
def place(model: Prototypes, x: Tensor, y: Tensor, progress: TrainingProgress) -> None:
    """Move every prototype half-way from the mean of its class to one of the class's points in ``x``."""
    rows, generator = x.flatten(1), progress.generator("prototypes")
    for number, points in enumerate(model.points):
        own = rows[y == number]
        if len(own):
            chosen = own[torch.randint(len(own), (len(points),), generator=generator).to(own.device)]
            points.copy_((own.mean(0) + chosen) / 2)


class Faces(NamedTuple):
    """The faces between points [n] and their nearest prototypes of other classes, one or more for each class."""

    points: Tensor  # all prototypes [classes * count, d]
    own: Tensor  # the number of i, [n, m]
    rival: Tensor  # the number of j, [n, m]
    gap: Tensor  # 2 (w_i - w_j).x - |w_i|^2 + |w_j|^2, [n, m]
    distances: Tensor  # the L2 distance to the face, negative behind it, [n, m]

    @classmethod
    def near(cls, points: Tensor, scores: Tensor, y: Tensor) -> Faces:
        """For each near j of another class the farthest face with a near i of class y.

        Args:
            points: prototypes [classes, count, d].
            scores: 2 w.x - |w|^2 for each of them, [n, classes, count].
            y: true classes [n].
        """
        n, classes, count = scores.shape
        others = F.one_hot(y, classes) == 0
        own, i = scores[~others].topk(min(OWN, count), 1)
        rival, j = scores[others].view(n, classes - 1, count).topk(min(RIVALS, count), 2)
        i = i + count * y[:, None]
        j = (j + count * torch.nonzero(others)[:, 1].view(n, classes - 1, 1)).flatten(1)
        flat = points.flatten(0, 1)
        squares = flat.square().sum(1)
        apart = (squares[:, None] + squares - 2 * flat @ flat.T).clamp_min(1e-6).sqrt()
        gaps = own[:, :, None] - rival.flatten(1)[:, None]
        distances, farthest = (gaps / (2 * apart[i[:, :, None], j[:, None]])).max(1)
        return cls(flat, i.gather(1, farthest), j, gaps.gather(1, farthest[:, None])[:, 0], distances)

    def in_box(self, x: Tensor, most: int) -> Tensor:
        """The distances [n, most] of the nearest faces, measured in [0, 1] on the right side of them.

        The multiplier of the quadratic program is a constant here: at its optimum the derivative by it is zero.
        """
        distances, nearest = self.distances.topk(min(most, self.distances.shape[1]), 1, largest=False)
        gap, i, j = (values.gather(1, nearest) for values in (self.gap, self.own, self.rival))
        normal = 2 * (self.points[j] - self.points[i])
        with torch.no_grad():
            multiplier, step = _nearest_in_box(normal, gap, -x[:, None], 1 - x[:, None])
        square = step.square().sum(2) + 2 * multiplier * (gap - (normal * step).sum(2))
        return torch.where(gap > 0, square.clamp_min(1e-6).sqrt(), distances)


def _nearest_in_box(normal: Tensor, gap: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Multipliers t [n, m] and steps clip(t normal) [n, m, d] to the faces, by a few of Newton's steps from below."""
    square = normal.square()
    total = square.sum(2).clamp_min(1e-9)
    gap = gap.clamp_min(0)
    t = gap / total
    for _ in range(NEWTON_STEPS):
        free = t[:, :, None] * normal
        step = torch.clamp(free, low, high)
        slope = (square * (free == step)).sum(2)
        t = t + (gap - (normal * step).sum(2)).clamp_min(0) / torch.maximum(slope, 1e-3 * total)
    return t, torch.clamp(t[:, :, None] * normal, low, high)
