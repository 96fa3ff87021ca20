"""A softmax or sigmoid at the end of a network: its logits, and what a proof must show of them.

The prediction is the argmax of the values that the model returns, ties to the lowest class. A head keeps the order
of its logits, but float32 may return one value for two of them: a sigmoid is 1.0 from about 17 on, a softmax of
nearly equal logits ties. So it is not enough that logit c is the largest. Assumption: float32 computes a sigmoid
between -80 and 8 to 2^-20 of its value, and a softmax within 1 of its largest logit to 2^-18 (measured: 2^-22.6
over float32 numbers, 2^-21.5 for up to 1,000 classes). Then value c is strictly the largest if

* softmax: logit c exceeds every other by 2^-16, because values are then apart by a factor of e^(2^-16);
* sigmoid of k logits: min(max(z, -80), 8) of logit c exceeds that of every other by 2^-7. No other logit is then
  above 8, where a step of 2^-7 still raises the sigmoid by 2.6e-6 of its value, and logit c is above -80;
* sigmoid of one logit z, whose value is compared with 1/2: |z| exceeds 2^-16, which moves the value by 2^-18.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.networks.calling import predicted_class
from radii.networks.frozen import Frozen, Head
from radii.networks.read_torch import read_torch

FLOOR, CAP = -80.0, 8.0  # logits between which a step of WIDE shows in the sigmoid
NARROW, WIDE = 2.0**-16, 2.0**-7


class Headed(nn.Module):
    """A network that ends in softmax or sigmoid, as logits whose argmax is that of the values it returns.

    Args:
        net: the network without its end.
        raw: what ``net`` returns for some inputs: [n, classes], or one logit for each of them.
    """

    def __init__(self, net: nn.Module, head: nn.Softmax | nn.Sigmoid, raw: Tensor) -> None:
        super().__init__()
        self.net, self.head, self.training = net, head, net.training
        several = raw.dim() == 2 and raw.shape[1] > 1
        self.pair = None if several else _OneLogit().to(raw)
        self.cap = _Unsaturated() if several and isinstance(head, nn.Sigmoid) else None

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] in the order of the values returned; of one logit z they are -z/2 and z/2."""
        raw = self.net(x)
        return in_order(raw if self.pair is None else self.pair(raw), returned_class(self.head(raw), len(x)))


class _OneLogit(nn.Module):
    """One logit z of two classes as two: -z/2 and z/2."""

    signs: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("signs", torch.tensor([[-0.5], [0.5]]), persistent=False)

    def forward(self, z: Tensor) -> Tensor:
        """[n] or [n, 1] -> [n, 2]."""
        return F.linear(z.reshape(len(z), 1), self.signs)


class _Column(nn.Module):
    """One number of each input as a column."""

    def forward(self, z: Tensor) -> Tensor:
        """[n] or [n, 1] -> [n, 1]."""
        return z.reshape(len(z), 1)


class _Unsaturated(nn.Module):
    """min(max(z, FLOOR), CAP) in each coordinate, written with ReLUs, which bounds follow exactly."""

    def forward(self, z: Tensor) -> Tensor:
        """[n, classes] -> the same shape."""
        raised = F.relu(z - FLOOR)
        return F.relu(raised * -1.0 + (CAP - FLOOR)) * -1.0 + CAP

    def folded(self) -> nn.Module:
        """The same as plain layers."""
        from radii.models.layers.plain_layers import ChannelAffine

        one = torch.ones(1)
        raised, turned = ChannelAffine(one, -FLOOR * one), ChannelAffine(-one, (CAP - FLOOR) * one)
        return nn.Sequential(raised, nn.ReLU(), turned, nn.ReLU(), ChannelAffine(-one, CAP * one))


def provable(model: nn.Module) -> tuple[nn.Module, float]:
    """The network whose logits prove the prediction of ``model``, and by how much the largest must exceed the others.

    They are the model itself and 0, unless a head stands behind its logits.
    """
    if not isinstance(model, Headed):
        return model, 0.0
    ends = [part for part in (model.pair, model.cap) if part is not None]
    network = nn.Sequential(model.net, *ends) if ends else model.net
    network.training = model.training
    return network, NARROW if model.cap is None else WIDE


def freeze(model: nn.Module, input_shape: tuple[int, ...]) -> Frozen:
    """The network that proofs about ``model`` are about: what was read of it, with its head and weights of its own.

    Args:
        input_shape: the shape of one input, without the batch.
    """
    if isinstance(model, Frozen):
        return model
    head: Head = ""
    if isinstance(model, Headed):
        head = "softmax" if isinstance(model.head, nn.Softmax) else "sigmoid" if model.pair is None else "one sigmoid"
        if isinstance(model.net, Frozen):
            return Frozen(model.net.program, head)
        model = model.net if model.pair is None else nn.Sequential(model.net, _Column())
    with torch.no_grad():
        return Frozen(read_torch(model, input_shape), head)


def assumed(model: nn.Module) -> tuple[str, ...]:
    """What a proof assumes of the head of ``model``, if it has one."""
    said = "float32 computes the softmax or sigmoid at the end to 2^-18 of its values"
    return (said,) if isinstance(model, Headed) else ()


def returned_class(values: Tensor, count: int, least: float = 0.5) -> Tensor:
    """The class of each of ``count`` rows of ``values``, ties to the lowest; -1 where one of them is NaN.

    One value for each row is class 1 if it exceeds ``least``, and else class 0.
    """
    values = values.reshape(count, -1)
    if values.shape[1] > 1:
        return predicted_class(values)
    return torch.where(values[:, 0].isnan(), -1, (values[:, 0] > least).long())


def in_order(logits: Tensor, wanted: Tensor) -> Tensor:
    """``logits`` [n, classes] whose argmax is the class ``wanted`` [n]: where it is not, its logit is raised above all.

    Rows with the class -1 become NaN.
    """
    other = predicted_class(logits) != wanted
    if not bool(other.any()):
        return logits
    top = torch.nextafter(logits.detach().amax(1), torch.full_like(logits[:, 0], torch.inf))
    top = torch.where(wanted < 0, torch.nan, top)[:, None]
    place = torch.arange(logits.shape[1], device=logits.device) == wanted.clamp_min(0)[:, None]
    return torch.where(other[:, None] & (place | (wanted < 0)[:, None]), top, logits)
