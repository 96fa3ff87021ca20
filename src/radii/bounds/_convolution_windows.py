"""Rows of a convolution's outputs as small windows: an output sees a few pixels, and so does its row.

A row starts as the kernel of one output, placed on the map that the
convolution reads. A ReLU multiplies it by the slopes under the window, and the
convolution before widens the window. Beyond the edge of a map there is
padding, which is 0: slopes, errors and inputs are 0 there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from radii.bounds.regions import Domain, ValueBounds, dot, gamma, least
from radii.networks.operations.activations import Relu
from radii.networks.operations.linear import Linear
from radii.networks.operations.linear_maps import Convolution, Scale
from radii.networks.operations.operation import Shape

if TYPE_CHECKING:
    from radii.bounds.bound_engine import Engine


@dataclass(frozen=True)
class _Windows:
    """Rows [R, channels, h, w]; row r lies at ``top[spot[r]], left[spot[r]]`` of its map, which may be negative."""

    rows: Tensor
    spot: Tensor
    top: Tensor
    left: Tensor

    def flat(self) -> Tensor:
        return self.rows.flatten(1)

    def under(self, values: Tensor) -> Tensor:
        """What a map [channels, height, width] holds under each place, 0 beyond its edge: [places, channels h w]."""
        (height, width), (h, w) = values.shape[1:], self.rows.shape[2:]
        before = max(0, -int(self.top.min())), max(0, -int(self.left.min()))
        after = max(0, int(self.top.max()) + h - height), max(0, int(self.left.max()) + w - width)
        padded = F.pad(values, (before[1], after[1], before[0], after[0]))
        views = padded.unfold(1, h, 1).unfold(2, w, 1).permute(1, 2, 0, 3, 4)
        return views[self.top + before[0], self.left + before[1]].flatten(1)

    def inside(self, shape: tuple[int, ...]) -> _Windows:
        """The same rows, 0 beyond the edge of their map."""
        mask = self.under(torch.ones(shape, dtype=self.rows.dtype))[self.spot]
        return _Windows(self.rows * mask.view_as(self.rows), self.spot, self.top, self.left)

    def before(self, step: Linear) -> _Windows:
        """The windows of what a linear step reads."""
        linear = step.linear
        if isinstance(linear, Scale):
            factor = linear.factor.expand(self.rows.shape[1], 1, 1) if linear.factor.dim() < 3 else linear.factor
            return _Windows(self.rows * factor, self.spot, self.top, self.left)
        assert isinstance(linear, Convolution)
        rows = F.conv_transpose2d(self.rows, linear.weight, None, linear.stride)
        top = self.top * linear.stride[0] - linear.padding[0]
        return _Windows(rows, self.spot, top, self.left * linear.stride[1] - linear.padding[1])


def is_windowed(engine: Engine, number: int) -> bool:
    """Whether a convolution computes value ``number``, and only ReLUs, convolutions and channel factors precede it.

    ``engine`` holds the program.
    """
    steps = engine.program.steps
    if not isinstance(steps.get(number), Linear) or not _local(steps[number], convolution=True):
        return False
    while number != 0:
        step = steps[number]
        if not (_local(step) if isinstance(step, Linear) else number in engine.plain):
            return False
        number = step.inputs[0]
        before = engine.program.input_shape if number == 0 else steps[number].out_shape
        if _map(step.in_shapes[0]) != _map(before):  # pixels of one map must be pixels of the other
            return False
    return True


def _map(shape: Shape) -> Shape:
    """``shape`` without leading axes of one place, which files keep for a batch."""
    return shape[1:] if len(shape) > 3 and shape[0] == 1 else shape


def _local(step: Any, convolution: bool = False) -> bool:
    linear = step.linear
    if isinstance(linear, Scale):
        return not convolution and linear.factor.numel() in (1, step.out_shape[0]) and len(step.out_shape) == 3
    plain = isinstance(linear, Convolution) and linear.groups == 1 and set(linear.dilation) == {1}
    return plain and linear.weight.dim() == 4 and (step.bias is None or _uniform(step))


def _uniform(step: Linear) -> bool:
    assert step.bias is not None
    maps = step.bias.view(step.out_shape)
    return bool((maps == maps[:, :1, :1]).all())


def both_sides(engine: Engine, known: ValueBounds, number: int, place: Tensor) -> Tensor:
    """Lower bounds of z[place] and then of -z[place], z the value ``number``, for one domain.

    ``engine`` holds the program, ``known`` the bounds of earlier values; the value must be :func:`is_windowed`.
    """
    step = engine.program.steps[number]
    assert isinstance(step, Linear)
    conv = step.linear
    assert isinstance(conv, Convolution)
    _, height, width = step.out_shape
    channel, spot = place // (height * width), place % (height * width)
    places, inverse = spot.unique(return_inverse=True)
    error = known.error[number][0, place].double()
    bias = torch.zeros_like(error) if step.bias is None else step.bias[place].double()
    total = torch.cat([bias - error, -bias - error])
    rows = conv.weight[channel]
    top = places // width * conv.stride[0] - conv.padding[0]
    left = places % width * conv.stride[1] - conv.padding[1]
    windows = _Windows(torch.cat([rows, -rows]), inverse.repeat(2), top, left)
    total = _to_input(engine, known, windows, step.inputs[0], total)
    return torch.where(known.finite, total, -torch.inf)


def _to_input(engine: Engine, known: ValueBounds, windows: _Windows, number: int, total: Tensor) -> Tensor:
    steps, fused = engine.program.steps, False
    while number != 0:
        engine.check()
        step = steps[number]
        if isinstance(step, Relu):
            windows, fused = _relu(engine, known, windows, step, total), True
        else:
            assert isinstance(step, Linear)
            if not fused:
                windows = windows.inside(step.out_shape)
                error = windows.under(known.error[number].view(step.out_shape))
                total = total - dot(windows.flat().abs(), error[windows.spot])
                if step.bias is not None:
                    bias = windows.under(step.bias.view(step.out_shape))
                    total = total + dot(windows.flat(), bias[windows.spot])
            windows, fused = windows.before(step), False
        number = step.inputs[0]
    shape = engine.program.input_shape
    domain = known.domain
    center = None if domain.center is None else windows.under(domain.center.view(shape))
    scale = None if domain.scale is None else windows.under(domain.scale.view(shape))
    low, high = (windows.under(end.view(shape)) for end in (domain.lower, domain.upper))
    windowed = Domain(low, high, center, domain.radius, domain.norm, scale)
    return total + least(windows.inside(shape).flat(), windowed, windows.spot)


def _relu(engine: Engine, known: ValueBounds, windows: _Windows, step: Relu, total: Tensor) -> _Windows:
    """Through a ReLU, with the bias and rounding of the linear step before it; ``total`` is overwritten."""
    from radii.bounds._kernels import through_relu  # loads numba

    source = step.inputs[0]
    before = engine.program.steps[source]
    assert isinstance(before, Linear)
    shape = before.out_shape  # the ReLU may see an axis more
    lines = step.relaxation(known.lower[source], known.upper[source])
    under, over, lift, error = (windows.under(value.view(shape)).numpy() for value in (*lines, known.error[source]))
    rows = windows.flat().contiguous()
    h, w = windows.rows.shape[2:]
    bias = torch.zeros(rows.shape[1], dtype=rows.dtype)
    if before.bias is not None:
        bias = before.bias.view(shape)[:, :1, :1].expand(-1, h, w).flatten().contiguous()
    spot = windows.spot.numpy()
    raised = 1 + 1.01 * gamma(rows.shape[1] + 4, engine.unit)
    kernel: Any = through_relu
    none = rows.new_zeros(0, rows.shape[1]).numpy()
    kernel(rows.numpy(), spot, under, none, none, over, lift, error, bias.numpy(), raised, total.numpy())
    return _Windows(rows.view_as(windows.rows), windows.spot, windows.top, windows.left)
