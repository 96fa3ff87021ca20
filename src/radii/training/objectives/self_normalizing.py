"""SelfNormalizingCrossEntropy: one network, trained for accuracy or for robustness by one number."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.training.objectives.objective import Loss, Moment


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
    """The objective that trades accuracy for certified robustness by ``t``.

    The paper reports 93.2% clean accuracy on CIFAR-10 at t = 0 and 61.7%
    certified robust accuracy at t = 1/10, the default.
    """

    def __init__(self, t: float = 0.1) -> None:
        if not t >= 0:
            raise InputError(f"t must be at least 0, got {t} instead.")
        self.t = t

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, moment: Moment) -> Loss:  # noqa: ARG002
        """The loss of one batch."""
        logits = model(x)
        return Loss(self_normalizing_cross_entropy(logits, y, self.t), logits)
