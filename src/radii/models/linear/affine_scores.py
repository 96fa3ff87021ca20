"""AffineScores: what a linear model computes, W x + b, with a bound of its rounding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import nn

from radii.errors import InputError, OtherKindError
from radii.models.feature_reach import Floats
from radii.models.heads import Headed, provable
from radii.networks.model_state import check_behavior
from radii.networks.operations.linear import Join, Linear, Sum
from radii.networks.operations.operation import Nonlinear
from radii.networks.program import Program
from radii.networks.read_torch import build, record

UNIT32, UNIT64 = 2.0**-24, 2.0**-53
LARGEST32 = 1e30  # sizes up to this do not overflow in float32, nor what is computed on the way
TINY32 = 1e-30  # what underflow takes from a sum of float32 numbers, at most
STEEP = 1e6  # what a layer may compute on its way from inputs of size 1
SPAN32, SPAN64 = (-80.0, 8.0), (-700.0, 20.0)  # scores between which a step shows in the logistic function:
WIDE32, WIDE64 = 2.0**-7, 2.0**-14  # in float32 and in float64, where it moves 1 - 2e-9 by 1e-13
CORNERS = 512  # unit vectors that are sent through a network at once
Link = Literal["order", "sigmoids"]


def growth(terms: float, unit: float) -> float:
    """The relative error of a sum of ``terms`` products in any order."""
    return 1.01 * terms * unit / max(1e-3, 1 - terms * unit)


@dataclass(frozen=True)
class AffineScores:
    """Scores W x + b; the model computes them up to ``rounding`` (``size`` |x| + ``bias_size``) + TINY32.

    Attributes:
        weight: W [classes, d].
        bias: b [classes].
        size: |W| with the sizes of what is summed on the way [classes, d].
        bias_size: the same of b [classes].
        rounding: the relative error of the sums.
        slack: by how much the largest score must exceed the others, so that what the model returns keeps their order.
        peak: the largest size on the way for a change of 1 of each feature [d], with ``peak_bias`` at 0: values may
            exceed float32 before they become small again.
        link: ``sigmoids``: the model returns a logistic function of each score, which shows ``slack`` in the ``span``.
    """

    weight: Floats
    bias: Floats
    size: Floats
    bias_size: Floats
    rounding: float
    slack: float = 0.0
    link: Link = "order"
    span: tuple[float, float] = SPAN32
    peak: Floats | None = None
    peak_bias: float = 0.0

    @property
    def classes(self) -> int:
        """How many scores there are."""
        return len(self.bias)

    def conditions(self, label: int) -> AffineScores:
        """Affine functions that must exceed ``slack`` for the class ``label`` to be the largest, each strictly."""
        others = [other for other in range(self.classes) if other != label]
        parts = [
            (self.weight[label] - self.weight[others], self.bias[label] - self.bias[others]),
            (self.size[label] + self.size[others], self.bias_size[label] + self.bias_size[others]),
        ]
        if self.link == "sigmoids":  # cap - z_c > 0 for the others, z_label - floor > 0
            floor, cap = self.span
            signs = np.array([[-1.0]] * len(others) + [[1.0]])
            rows, ends = [*others, label], np.array([cap] * len(others) + [-floor])
            capped = (signs * self.weight[rows], signs[:, 0] * self.bias[rows] + ends)
            sizes = (self.size[rows], self.bias_size[rows] + np.abs(ends))
            parts = [
                (np.concatenate([a, c]), np.concatenate([b, e]))
                for (a, b), (c, e) in zip(parts, (capped, sizes), strict=True)
            ]
        (weight, bias), (size, bias_size) = parts
        rounding = self.rounding + 4 * UNIT64
        return AffineScores(
            weight, bias, size, bias_size, rounding, self.slack, peak=self.peak, peak_bias=self.peak_bias
        )

    def behind(self, first: AffineScores) -> AffineScores:
        """These scores of the scores of ``first``, whose own sizes are on the way."""
        on_the_way, at_zero = first.size.max(0), float(first.bias_size.max())
        if first.peak is not None:
            on_the_way, at_zero = np.maximum(on_the_way, first.peak), max(at_zero, first.peak_bias)
        return replace(
            self,
            weight=self.weight @ first.weight,
            bias=self.weight @ first.bias + self.bias,
            size=self.size @ first.size,
            bias_size=self.size @ first.bias_size + self.bias_size,
            rounding=(1 + self.rounding) * (1 + first.rounding) - 1 + growth(len(first.bias) + 2, UNIT64),
            peak=on_the_way,
            peak_bias=at_zero,
        )

    def as_two(self) -> AffineScores:
        """One score z of class 1 against class 0 as two, 0 and z."""
        if self.classes != 1:
            return self
        both = [np.concatenate([0 * part, part]) for part in (self.weight, self.bias, self.size, self.bias_size)]
        return replace(self, weight=both[0], bias=both[1], size=both[2], bias_size=both[3])


def identity(count: int) -> AffineScores:
    """The ``count`` features themselves."""
    return AffineScores(np.eye(count), np.zeros(count), np.eye(count), np.zeros(count), 0.0)


def of_module(model: nn.Module, input_shape: tuple[int, ...]) -> AffineScores:
    """The scores of a torch network of linear layers alone; any other is refused by the name of a layer."""
    for name, module in model.named_modules():
        if type(module).__module__ == "torch.nn.modules.activation" and module is not getattr(model, "head", None):
            raise OtherKindError(f"The network is not linear: {name} bends it.")
    link: Link = "order"
    network, slack = provable(model)
    if isinstance(model, Headed) and model.cap is not None:
        network, link = model.net, "sigmoids"
    check_behavior(model)
    with torch.no_grad():
        program = build(record(network, input_shape), torch.float64)
    scores = of_program(program)
    if not all(np.isfinite(part).all() for part in (scores.weight, scores.bias)):
        raise InputError("The model cannot be read: some of its weights are not finite numbers.")
    return replace(scores, slack=WIDE32 if link == "sigmoids" else slack, link=link)


@torch.no_grad()
def of_program(program: Program) -> AffineScores:
    """The result of a float64 ``program`` of linear operations, with the rounding of float32."""
    for step in program.steps.values():
        if isinstance(step, Nonlinear):
            raise OtherKindError(f"The network is not linear: {step.origin} bends it.")
        if isinstance(step, Linear) and float(step.largest(torch.ones(1, program.sizes[step.inputs[0]])).max()) > STEEP:
            raise InputError(f"The network may exceed float32 on the way: {step.origin} divides by almost nothing.")
    count = program.sizes[0]
    origin = torch.zeros(1, count).double()
    bias = program.run(origin.reshape(1, *program.input_shape))[0]
    bias_size, terms, peak_bias = _sizes(program, origin)
    weights, sizes, peaks = [], [], []
    for start in range(0, count, CORNERS):
        corners = torch.eye(min(CORNERS, count - start), count).double().roll(start, 1)
        weights.append(program.run(corners.reshape(-1, *program.input_shape)) - bias)
        there, _, peak = _sizes(program, corners)
        sizes.append(there - bias_size[0])
        peaks.append(peak)
    rounding = growth(terms, UNIT32) + growth(terms + count, 4 * UNIT64)
    weight, size = (torch.cat(parts).T.numpy() for parts in (weights, sizes))
    return AffineScores(
        weight, bias.numpy(), size, bias_size[0].numpy(), rounding,
        peak=torch.cat(peaks).numpy(), peak_bias=float(peak_bias),
    )  # fmt: skip


def _sizes(program: Program, corners: torch.Tensor) -> tuple[torch.Tensor, int, torch.Tensor]:
    """|W| |x| + |b|, summed along every path, at ``corners`` [n, d]; terms of all sums; the largest on the way."""
    sizes, terms = {0: corners.abs()}, 0
    peak = corners.abs().amax(1)
    for number, step in program.steps.items():
        own = [sizes[source] for source in step.inputs]
        if isinstance(step, Linear):
            sizes[number] = step.absolute(own[0])
            peak = torch.maximum(peak, step.largest(own[0]).flatten(1).amax(1))
            if step.bias is not None:
                bias = step.bias.abs() if step.bias_size is None else step.bias_size.abs().maximum(step.bias.abs())
                sizes[number] = sizes[number] + bias
            terms += step.terms + 2
        elif isinstance(step, Sum):
            sizes[number], terms = own[0] + own[1], terms + 1
        elif isinstance(step, Join):
            sizes[number] = torch.cat(own, 1)
        else:
            raise OtherKindError(f"The network is not linear: {step.origin} is no linear layer.")
        peak = torch.maximum(peak, sizes[number].amax(1))
    return sizes[program.output], terms, peak
