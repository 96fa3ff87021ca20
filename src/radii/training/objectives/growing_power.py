"""Training of Linf distance networks: the power of their distances grows to infinity."""

from __future__ import annotations

from math import inf

from torch import Tensor, nn

from radii.errors import InputError
from radii.models.zoo.linf_distance import LinfDistance
from radii.training.objectives.cross_entropies import OffsetCrossEntropy
from radii.training.objectives.objective import Loss, Moment


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

    def power(self, moment: Moment) -> float:
        """p at this moment."""
        if moment.fraction >= self.exact:
            return inf
        return float(self.first * (self.last / self.first) ** (moment.fraction / self.exact))

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, moment: Moment) -> Loss:
        """The loss with this moment's p.

        Raises:
            InputError: the network has no layer of distances.
        """
        layers = [layer for layer in model.modules() if isinstance(layer, LinfDistance)]
        if not layers:
            raise InputError("The method linf-distance trains networks of LinfDistance layers such as linf-distance.")
        for layer in layers:
            layer.power = self.power(moment)
        return super().loss(model, x, y, moment)
