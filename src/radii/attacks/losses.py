"""The losses that attacks raise: cross-entropy, logit margins and the difference-of-logits ratio."""

from __future__ import annotations

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

Loss = Literal["ce", "dlr", "margin", "pm", "dlr-targeted", "margin-targeted", "pm-targeted"]
LOSSES: tuple[str, ...] = get_args(Loss)


def by_name(name: str, logits: Tensor, y: Tensor, target: Tensor) -> Tensor:
    """The loss ``name`` of the ``logits``, for labels ``y`` and, where it is targeted, classes ``target``: [m]."""
    if name == "pm-targeted":
        return targeted_margin(logits.softmax(1), y, target)
    if name == "margin-targeted":
        return targeted_margin(logits, y, target)
    if name == "dlr-targeted":
        return targeted_dlr(logits, y, target)
    return {"ce": cross_entropy, "dlr": dlr, "margin": margin, "pm": _probability_margin}[name](logits, y)


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """-log softmax(z)_y of the ``logits`` z and labels ``y``, per row: [m]."""
    return F.cross_entropy(logits, y, reduction="none")


def margin(logits: Tensor, y: Tensor) -> Tensor:
    """max_{j != y} z_j - z_y of the ``logits`` z: positive exactly where the row is misclassified: [m]."""
    own = logits.gather(1, y[:, None]).squeeze(1)
    others = logits.scatter(1, y[:, None], float("-inf"))
    return others.amax(1) - own


def _probability_margin(logits: Tensor, y: Tensor) -> Tensor:
    """max_{j != y} p_j - p_y of the softmax p of the ``logits``: it flattens where a point is far from wrong: [m]."""
    return margin(logits.softmax(1), y)


def targeted_margin(logits: Tensor, y: Tensor, target: Tensor) -> Tensor:
    """z_t - z_y of the ``logits`` z, labels ``y`` and classes ``target`` t: [m]."""
    both = logits.gather(1, torch.stack([target, y], 1))
    return both[:, 0] - both[:, 1]


def dlr(logits: Tensor, y: Tensor) -> Tensor:
    """Difference of logits ratio (Croce & Hein 2020, Eq. 6): the margin of the ``logits`` over z_π1 - z_π3.

    With fewer than three classes there is no third logit; the margin of ``y`` is
    returned instead: [m].
    """
    if logits.shape[1] < 3:
        return margin(logits, y)
    ordered = logits.topk(3, dim=1).values
    return margin(logits, y) / (ordered[:, 0] - ordered[:, 2] + 1e-12)


def targeted_dlr(logits: Tensor, y: Tensor, target: Tensor) -> Tensor:
    """Targeted ratio (Croce & Hein 2020, Eq. 7): (z_t - z_y) over z_π1 - (z_π3 + z_π4)/2 of the ``logits``.

    ``y`` are labels, t is ``target``. With fewer than four classes there is no fourth logit; the
    targeted margin is returned instead: [m].
    """
    rise = targeted_margin(logits, y, target)
    if logits.shape[1] < 4:
        return rise
    ordered = logits.topk(4, dim=1).values
    return rise / (ordered[:, 0] - 0.5 * (ordered[:, 2] + ordered[:, 3]) + 1e-12)
