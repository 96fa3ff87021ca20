"""The largest value of each window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from radii.networks.operations.operation import Interval, Lines, Nonlinear, OnnxGraph, Shape


@dataclass(frozen=True)
class MaxPool(Nonlinear):
    """The largest value of each window of an image [channels, height, width]."""

    shape: Shape
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil: bool

    @property
    def in_shapes(self) -> tuple[Shape, ...]:
        """One image."""
        return (self.shape,)

    @cached_property
    def out_shape(self) -> Shape:  # type: ignore[override]
        """One value for each window."""
        return tuple(self._pool(torch.zeros(1, *self.shape))[0].shape[1:])

    def _pool(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return F.max_pool2d_with_indices(x, self.kernel, self.stride, self.padding, self.dilation, self.ceil)

    def value(self, *inputs: Tensor) -> Tensor:
        """The largest of each window."""
        return self._pool(inputs[0])[0]

    def onnx(self, graph: OnnxGraph, *inputs: str) -> str:
        """MaxPool; the padding that ceil mode adds behind the image is written out."""
        windows = zip(
            self.out_shape[1:], self.stride, self.padding, self.dilation, self.kernel, self.shape[1:], strict=True
        )
        behind = [max(0, (out - 1) * s - pad + d * (k - 1) + 1 - size) for out, s, pad, d, k, size in windows]
        settings = {"kernel_shape": self.kernel, "strides": self.stride, "dilations": self.dilation}
        x = graph.shaped(inputs[0], self.shape)
        return graph.flat(graph.node("MaxPool", x, pads=[*self.padding, *behind], **settings))

    def interval(self, *ends: Interval) -> Interval:
        """Rising: the ends' values."""
        lower, upper = ends[0]
        return self._pool(lower)[0], self._pool(upper)[0]

    @cached_property
    def members(self) -> Tensor:
        """The places that each window takes the largest of, -1 outside the image: [windows, kernel]."""
        height, width = self.shape[1:]
        places = torch.arange(1.0, height * width + 1).view(1, 1, height, width)
        windows = self._pool(places)[0].shape[2:]
        reach = [
            (count - 1) * stride + dilation * (kernel - 1) + 1
            for count, stride, dilation, kernel in zip(windows, self.stride, self.dilation, self.kernel, strict=True)
        ]
        (top, left), (down, right) = (
            self.padding,
            (max(0, end - size - pad) for end, size, pad in zip(reach, (height, width), self.padding, strict=True)),
        )
        padded = F.pad(places, (left, right, top, down))[:, :, : reach[0], : reach[1]]
        return F.unfold(padded, self.kernel, self.dilation, 0, self.stride)[0].T.long() - 1

    @property
    def repeats(self) -> int:
        """How many windows one pixel is in, at most: the result moves by at most the root of it times the input."""
        return int(self.members[self.members >= 0].bincount().max())

    def lines(self, A: Tensor, ends: Sequence[Interval]) -> Lines:
        """Below: the member with the largest lower bound. Above: it too if no other reaches it, else a constant."""
        lower, upper = ends[0]
        _, place = self._pool(lower)
        highest = self._pool(upper)[0]
        floor = lower.flatten(2).gather(2, place.flatten(2)).view_as(highest)
        members = self.members.to(place.device)
        rival = (members >= 0) & (members != place.flatten(2)[..., None])  # [n, channels, windows, kernel]
        reached = upper.flatten(2)[:, :, members.clamp_min(0)].masked_fill(~rival, -torch.inf).amax(3)
        decided = reached.view_as(highest) <= floor
        positive, negative = A.clamp_min(0), A.clamp_max(0)
        taken = positive + negative * decided[:, None]
        back = A.new_zeros(*A.shape[:3], lower[0, 0].numel())
        index = place.flatten(2)[:, None].expand(*A.shape[:3], -1)
        back = back.scatter_add(3, index, taken.flatten(3)).unflatten(3, lower.shape[2:])
        constant = negative * torch.where(decided, 0.0, highest)[:, None]
        return (back,), constant.flatten(2).sum(2)
