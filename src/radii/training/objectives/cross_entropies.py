"""Objectives that are a cross-entropy of one forward pass: natural, under noise, and with a margin.

Natural training; training under Gaussian noise (Cohen et al. 2019), the base of
randomized smoothing; three losses that ask 1-Lipschitz networks for a margin:
OffsetCrossEntropy (Prach & Lampert 2022), SelfNormalizingCrossEntropy (Prach &
Lampert 2025) and GloRo (Leino et al. 2021); one of these for Linf distance
networks, whose power grows (Zhang et al. 2021).
"""

from __future__ import annotations

from math import inf, prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.models.classifier import Classifier
from radii.models.layers.last_layers import MarginHead
from radii.models.layers.residual import LinearResidualConv2d
from radii.models.zoo.linf_distance import LinfDistance
from radii.training.objectives.objective import Loss, TrainingProgress


class Natural:
    """loss = mean CE(f(x), y).

    Args:
        label_smoothing: share of the target that is spread over all classes; default 0.
    """

    def __init__(self, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:  # noqa: ARG002
        """Cross-entropy of the batch."""
        logits = model(x)
        return Loss(F.cross_entropy(logits, y, label_smoothing=self.label_smoothing), logits)


class GaussianNoise:
    """loss = mean CE(f(x + sigma z) / T, y) with z ~ N(0, I), not clipped: the noise that smoothing will add.

    Args:
        sigma: standard deviation in pixels; 1/8 in Prach & Lampert 2025 (100 epochs on CIFAR-10).
        temperature: T, by which logits are divided; 8 in their networks.
    """

    def __init__(self, sigma: float = 0.125, temperature: float = 1.0) -> None:
        if not sigma >= 0 or not temperature > 0:
            raise InputError(f"sigma must be at least 0 and temperature positive, got {sigma} and {temperature}.")
        self.sigma, self.temperature = sigma, temperature

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        """Cross-entropy of the noisy batch."""
        logits = model(x + self.sigma * progress.normal("noise", x))
        return Loss(F.cross_entropy(logits / self.temperature, y), logits)


def offset_cross_entropy(logits: Tensor, y: Tensor, offset: float = 0.25, temperature: float = 0.25) -> Tensor:
    """T * CE((s - offset * onehot(y)) / T, y) of the ``logits`` s, averaged over the batch.

    The true logit is lowered by ``offset`` before the softmax, so it must win
    by a margin; with a small ``temperature`` T, larger margins earn nothing. Shapes:
    [n, classes], [n] -> scalar.
    """
    shifted = logits - offset * F.one_hot(y, logits.shape[1])
    return temperature * F.cross_entropy(shifted / temperature, y)


class OffsetCrossEntropy:
    """T * CE((s - offset * onehot(y)) / T, y), the objective of 1-Lipschitz networks (Prach & Lampert 2022).

    The defaults are those of the paper's text. The authors' code trains with offset
    sqrt(2) * 36/255 = 0.1997 and temperature 1/4; its robust overfitting runs use
    offset sqrt(2); SimpleConvNet uses offset 0 and temperature 8 (the paper prints
    1/8, dividing by it).

    Args:
        offset: the margin that the true logit must have.
        temperature: T; a small one stops rewarding margins beyond the offset.
        first_temperature: T at the first step, from where it moves to ``temperature`` linearly; None: T is
            constant. Training from a large T to a small one first spreads the classes, then looks at small margins.
    """

    def __init__(self, offset: float = 0.25, temperature: float = 0.25, first_temperature: float | None = None) -> None:
        first = temperature if first_temperature is None else first_temperature
        if not (temperature > 0 and first > 0):
            raise InputError(f"temperature must be positive, got {temperature} and {first} at first instead.")
        self.offset, self.temperature, self.first_temperature = offset, temperature, first

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        """The loss of one batch, at the temperature of this progress."""
        logits = model(x)
        now = self.first_temperature + (self.temperature - self.first_temperature) * progress.fraction
        return Loss(offset_cross_entropy(logits, y, self.offset, now), logits)


def self_normalizing_cross_entropy(logits: Tensor, y: Tensor, t: float = 0.1) -> Tensor:
    """CE(s / (std(s) + t) - onehot(y), y), averaged over the batch (Prach & Lampert 2025, Eq. 27).

    std is the unbiased one over the classes of a point, as torch computes it,
    and softmax is applied once, inside the cross-entropy. At ``t=0`` the loss
    ignores the size of the logits (all for accuracy); as t grows it becomes an
    offset cross-entropy of temperature t (for margins).
    """
    spread = logits.std(1, keepdim=True) + t
    return F.cross_entropy(logits / spread - F.one_hot(y, logits.shape[1]), y)


class SelfNormalizingCrossEntropy:
    """The objective that trades accuracy for certified robustness by one number, ``t``.

    The paper reports 93.2% clean accuracy on CIFAR-10 at t = 0 and 61.7% certified
    robust accuracy at t = 1/10.

    Args:
        t: added to the standard deviation of the logits; 0: accuracy only.
    """

    def __init__(self, t: float = 0.1) -> None:
        if not t >= 0:
            raise InputError(f"t must be at least 0, got {t} instead.")
        self.t = t

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:  # noqa: ARG002
        """The loss of one batch."""
        logits = model(x)
        return Loss(self_normalizing_cross_entropy(logits, y, self.t), logits)


class GloRo:
    """CE([s, s_bottom], y): the network must beat every class by its own Lipschitz bound times ``radius``.

    The additional class means "not robust at this radius" (Leino et al. 2021). For
    networks of :class:`LinearResidualConv2d` (any number, other layers 1-Lipschitz)
    that end in a :class:`MarginHead`. The constant is estimated by power iterations
    in training, and proved only when certifying.

    Args:
        radius: the L2 radius to be robust at, in pixels.
    """

    def __init__(self, radius: float = 36 / 255) -> None:
        if not radius > 0:
            raise InputError(f"radius must be positive, got {radius} instead.")
        self.radius = radius

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:  # noqa: ARG002
        """The loss of one batch."""
        heads = [module for module in model.modules() if isinstance(module, MarginHead)]
        if len(heads) != 1:
            raise InputError(f"GloRo training needs a network with one MarginHead, got {len(heads)} instead.")
        logits = model(x)
        free = [layer.lipschitz_estimate() for layer in model.modules() if isinstance(layer, LinearResidualConv2d)]
        free += [1 / module.std.min() for module in model.modules() if isinstance(module, Classifier)]
        lipschitz = prod(free, start=torch.ones((), dtype=logits.dtype))
        extended = heads[0].with_bottom(logits, lipschitz, self.radius)
        return Loss(F.cross_entropy(extended, y), logits)


class GrowingPower(OffsetCrossEntropy):
    """The offset cross-entropy of a network of Lp distances whose p grows to infinity (Zhang et al. 2021, Section 4.2).

    p grows exponentially from ``first`` to ``last``, then is infinite from the share ``exact`` of the training on,
    where the network is the one that is certified.

    Args:
        offset: the margin that the true logit must have; twice the radius to be proved, or a little more.
        temperature: T of the loss.
        first: p at the beginning.
        last: p before it becomes infinite.
        exact: share of the training from which on p is infinite.

    Raises:
        InputError: numbers outside 1 <= first <= last and 0 < exact <= 1, or a temperature that is not positive.
    """

    def __init__(
        self,
        offset: float = 0.3,
        temperature: float = 0.1,
        first: float = 8.0,
        last: float = 32.0,
        exact: float = 0.9,
    ) -> None:
        super().__init__(offset, temperature)
        if not (1 <= first <= last < inf and 0 < exact <= 1):
            raise InputError(f"1 <= first <= last and 0 < exact <= 1 are needed, got {first}, {last} and {exact}.")
        self.first, self.last, self.exact = first, last, exact

    def power(self, progress: TrainingProgress) -> float:
        """p at this progress."""
        if progress.fraction >= self.exact:
            return inf
        return float(self.first * (self.last / self.first) ** (progress.fraction / self.exact))

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        """The loss with this progress's p.

        Raises:
            InputError: the network has no layer of distances.
        """
        layers = [layer for layer in model.modules() if isinstance(layer, LinfDistance)]
        if not layers:
            raise InputError("The method linf-distance trains networks of LinfDistance layers such as linf-distance.")
        for layer in layers:
            layer.power = self.power(progress)
        return super().loss(model, x, y, progress)
