"""The linear pieces of a network along a line of images, traced layer by layer.

Along a line t -> x(t) every value of a piecewise linear network is piecewise linear in t. A layer's values are kept at
sorted nodes t_0 < t_1 < …, between which they are affine. A linear operation keeps the nodes; a ReLU, a clamp or a
max pooling adds one wherever a value crosses a kink (the idea of Sotoudeh & Thakur 2019 for lines).

``slack`` bounds, for all t of the line at once, by how much the network as float32 computes it differs from the traced
values: the image's own rounding, then for every operation |W| slack + the engine's bound of its rounding, and the
rounding of the tracer itself. It grows with the depth; it is left out where it is not asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from radii.bounds.bound_engine import PRODUCTS, UNIT, Engine
from radii.bounds.regions import Domain, ValueBounds, gamma
from radii.networks.operations.activations import Relu
from radii.networks.operations.curves import CURVES, Curved
from radii.networks.operations.linear import Join, Linear, Sum
from radii.networks.operations.linear_maps import Scale
from radii.networks.operations.operation import Operation
from radii.networks.operations.pooling import MaxPool
from radii.networks.program import Program

ROUNDS = 16  # of new nodes for one max pooling
NUMBERS = 1 << 24  # of one value at all nodes
UP = 1 + 2.0**-20  # for the rounding of the slack itself


class TooManyPiecesError(Exception):
    """The line has more pieces than fit: trace a shorter one."""


@dataclass(frozen=True)
class Line:
    """Values at nodes: images x(t), not yet clipped, at sorted strengths.

    Attributes:
        nodes: [b] float64, rising.
        images: [b, d] float64.
        off: [d], how far the true image may be from the line between nodes; 0 for images on a line.
    """

    nodes: Tensor
    images: Tensor
    off: Tensor


@dataclass(frozen=True)
class Pieces:
    """What the network computes along a line.

    Attributes:
        nodes: where the pieces end [b] float64.
        outputs: at the nodes [b, outputs]; affine between them.
        slack: by how much float32 may differ from them on the line [outputs]; None where that was not bounded, and
            infinite where a value may overflow.
        trail: every value by its number, where the slack was bounded.
    """

    nodes: Tensor
    outputs: Tensor
    slack: Tensor | None
    trail: dict[int, Passage]


@dataclass(frozen=True)
class Passage:
    """A value on the whole line, as traced or as float32 computes it: its ends, and what its operation rounds, [d]."""

    lower: Tensor
    upper: Tensor
    error: Tensor


@dataclass(frozen=True)
class _Value:
    nodes: Tensor
    at: Tensor  # [b, d]
    slack: Tensor | None  # [d]


def is_piecewise_linear(program: Program) -> str | None:
    """None if every operation of ``program`` is piecewise linear and continuous; else the layer that is not."""
    for step in program.steps.values():
        if not isinstance(step, Linear | Sum | Join | MaxPool) and _levels(step) is None:
            return step.origin
    return None


def _levels(step: Operation) -> tuple[float, ...] | None:
    """Where an activation has its kinks, if it is linear between them."""
    if isinstance(step, Relu):
        return (0.0,)
    if isinstance(step, Curved) and step.function == "clamp":
        return tuple(level for level in step.arguments if abs(level) < 1e30)
    if isinstance(step, Curved) and step.function == "hardsigmoid":
        return (-3.0, 3.0)
    return None


def secant_slopes(step: Operation, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """The least and the greatest slope of an activation between two values from ``lower`` to ``upper``."""
    if isinstance(step, Relu):
        kinks, slopes = [0.0], [step.slope, 1.0]
    elif getattr(step, "function", "") == "hardsigmoid":
        kinks, slopes = [-3.0, 3.0], [0.0, 1 / 6, 0.0]
    else:
        kinks, slopes = list(getattr(step, "arguments", ())), [0.0, 1.0, 0.0]
    low, high = torch.full_like(lower, torch.inf), torch.full_like(lower, -torch.inf)
    ends = [-torch.inf, *kinks, torch.inf]
    for slope, first, last in zip(slopes, ends[:-1], ends[1:], strict=True):
        touched = (lower <= last) & (upper >= first)
        low = torch.where(touched, low.clamp_max(slope), low)
        high = torch.where(touched, high.clamp_min(slope), high)
    return low, high


def _rounded(step: Operation, low: Tensor, at: Tensor) -> Tensor:
    """By how much float32 may round the values ``at`` [b, d] of an activation of inputs of at least ``low``: [d].

    The slope of a leaky ReLU is rounded, and its product; a ReLU rounds nothing.
    """
    if isinstance(step, Relu):
        return 2.02 * UNIT * step.slope * (low < 0) * low.abs()
    assert isinstance(step, Curved)
    absolute, relative = CURVES[step.function].error
    return absolute + relative * at.abs().amax(0)


def traced(
    program: Program, line: Line, engine: Engine | None, check: Callable[[], None], numbers: int = NUMBERS
) -> Pieces:
    """The pieces of ``program`` along ``line``, clipped to [0, 1].

    Args:
        engine: of the same program in float64, for the slack; None leaves it out.
        check: is called before every operation, and may raise to end the work.
        numbers: the most numbers of one value.

    Raises:
        TooManyPiecesError: a value has more.
    """
    tracer = _Tracer(program, engine, numbers)
    value = tracer.clipped(line)
    tracer.keep(0, value, value.slack)
    values, left = {0: value}, {number: len(reading) for number, reading in program.readers().items()}
    nodes = value.nodes
    for number, step in program.steps.items():
        check()
        sources = [tracer.refined(values[source], nodes) for source in step.inputs]
        for source in step.inputs:
            left[source] -= 1
            if not left[source] and source != program.output:
                values.pop(source, None)
        values[number] = tracer.after(number, sources)
        nodes = values[number].nodes
    result = tracer.refined(values[program.output], nodes)
    slack = result.slack if tracer.known is None or bool(tracer.known.finite.all()) else result.at[0] + torch.inf
    return Pieces(nodes, result.at, slack, tracer.trail)


class _Tracer:
    """Values of one line, operation by operation."""

    def __init__(self, program: Program, engine: Engine | None, numbers: int) -> None:
        self.program, self.engine, self.numbers = program, engine, numbers
        self.unit = torch.finfo(program.dtype).eps / 2
        self.known: ValueBounds | None = None
        self.trail: dict[int, Passage] = {}
        self.scaled = {
            step.inputs[0]
            for step in program.steps.values()
            if isinstance(step, Linear) and isinstance(step.linear, Scale)
        }
        self.lost = torch.zeros(0)  # what the last kinks are off, where no node could be put

    def keep(self, number: int, value: _Value, error: Tensor | None) -> None:
        """Write down the ends of a value and the ``error`` of its operation, with that of nodes added later."""
        if value.slack is not None and error is not None:
            low, high = value.at.aminmax(dim=0)
            own = 32 * self.unit * torch.maximum(low.abs(), high.abs())
            self.trail[number] = Passage(low - value.slack - own, high + value.slack + own, error + own)

    def clipped(self, line: Line) -> _Value:
        """The images of ``line`` in [0, 1], with the rounding of a float32 image as slack."""
        slack = None
        if self.engine is not None:
            size = line.images.abs().amax(0)
            slack = line.off + 2.0**-25 * 1.01 + 2.0**-36 * size  # half a unit below 1, and the directions' rounding
        value = self._with_kinks(_Value(line.nodes, line.images, slack), (0.0, 1.0))
        at = value.at.clamp(0, 1).to(self.program.dtype)
        if self.engine is not None:
            ends = torch.zeros(1, at.shape[1], dtype=torch.float64)
            self.known = ValueBounds(Domain(ends, ends), finite=torch.ones(1, dtype=torch.bool))
        return replace(value, at=at)

    def after(self, number: int, sources: list[_Value]) -> _Value:
        """The value of operation ``number``, with new nodes where it has kinks."""
        step = self.program.steps[number]
        levels = _levels(step)
        if levels is not None:
            value = self._with_kinks(sources[0], levels)
            result = replace(value, at=self._run(step, [value.at]))
            if value.slack is None:
                return result
            low, high = value.at.aminmax(dim=0)
            error = self.lost + _rounded(step, low, result.at)
            steepest = secant_slopes(step, low - value.slack, high + value.slack)[1]
            result = replace(result, slack=(value.slack * steepest + error) * UP)
            self.keep(number, result, error)
            return result
        if isinstance(step, MaxPool):
            pooled = self._pooled(step, sources[0])
            self.keep(number, pooled, None if pooled.slack is None else self.lost)
            return pooled
        at = self._run(step, [source.at for source in sources])
        if not at.isfinite().all():
            raise TooManyPiecesError
        if self.engine is None:
            return _Value(sources[0].nodes, at, None)
        carried, error = self._slack(number, sources, at)
        result = _Value(sources[0].nodes, at, (carried + error) * UP)
        self.keep(number, result, error * UP)
        return result

    def _run(self, step: Operation, inputs: list[Tensor]) -> Tensor:
        shaped = [value.view(len(value), *shape) for value, shape in zip(inputs, step.in_shapes, strict=True)]
        result = step.value(*shaped).flatten(1)
        if result.numel() > self.numbers:
            raise TooManyPiecesError
        return result

    def _slack(self, number: int, sources: list[_Value], at: Tensor) -> tuple[Tensor, Tensor]:
        """|W| slack; and a bound of the rounding of the operation with the values ``at``, with this tracer's own."""
        step = self.program.steps[number]
        assert self.engine is not None
        assert self.known is not None
        slacks = [source.slack for source in sources if source.slack is not None]
        sizes = [source.at.abs().amax(0) + slack for source, slack in zip(sources, slacks, strict=True)]
        for source, size in zip(step.inputs, sizes, strict=True):
            self.known.lower[source], self.known.upper[source] = -size[None], size[None]
        self.engine.forward(self.known, number)
        rounding = self.known.error.pop(number)[0]
        if isinstance(step, Join):
            return torch.cat(slacks), rounding
        if isinstance(step, Sum):
            return slacks[0] + slacks[1], rounding
        assert isinstance(step, Linear)
        size, carried = step.absolute(torch.stack([sizes[0], slacks[0]])).unbind()
        if step.bias_size is not None:
            size = size + step.bias_size
        spared = self._spared(number, size, at.abs().amax(0) + carried) if self.engine.rounding else 0.0
        return carried, rounding - spared + size * gamma(step.terms + 8, self.unit)

    def _spared(self, number: int, size: Tensor, top: Tensor) -> Tensor | float:
        """What the engine's bound of a sum's rounding takes too much, where the sum's value is known.

        In any order, a partial sum of n products and the bias lies between minus the sum N of the negative terms and
        the sum P of the others. With P + N <= ``size`` and |P - N| <= ``top`` both are at most (size + top) / 2, and
        each addition rounds by u times that. Three more roundings of every product are the engine's own allowance. Sums
        into which a runtime may merge the factors behind them keep the engine's bound.
        """
        step = self.program.steps[number]
        assert isinstance(step, Linear)
        if not isinstance(step.linear, PRODUCTS) or number in self.scaled:
            return 0.0
        signed = UNIT * (3 * size + step.terms * (size + top) / 2) * (1 + 4 * gamma(step.terms, UNIT))
        return 1.01 * (gamma(step.terms + 2, UNIT) * size - signed).clamp_min(0)

    def refined(self, value: _Value, nodes: Tensor) -> _Value:
        """The same value at more nodes, which contain its own."""
        if value.nodes is nodes:
            return value
        if len(nodes) * value.at.shape[1] > self.numbers:
            raise TooManyPiecesError
        at = torch.empty(len(nodes), value.at.shape[1], dtype=value.at.dtype)
        kernel: Any = _interpolate
        kernel(value.nodes.numpy(), value.at.numpy(), nodes.numpy(), at.numpy())
        slack = value.slack
        if slack is not None:
            slack = (slack + 16 * self.unit * value.at.abs().amax(0)) * UP
        return _Value(nodes, at, slack)

    def _with_kinks(self, value: _Value, levels: tuple[float, ...]) -> _Value:
        """``value`` with a node wherever a coordinate crosses one of ``levels``, where it is the level itself."""
        kernel: Any = _crossings
        old, places, where, aims, count = value.nodes.numpy(), None, None, None, 0
        lost = np.zeros(value.at.shape[1])
        wanted = np.array(levels, dtype=np.float64)
        room = 4 * len(old) + 1024
        while places is None or count > len(where if where is not None else ()):
            room = max(room, count)
            where, places, aims = np.empty(room), np.empty(room, np.int64), np.empty(room)
            count = kernel(old, value.at.numpy(), wanted, where, places, aims, lost)
        assert where is not None
        assert aims is not None
        self.lost = torch.from_numpy(lost)
        slack = value.slack if value.slack is None or not lost.any() else value.slack + self.lost
        if not count:
            return replace(value, slack=slack)
        nodes = np.union1d(old, where[:count])
        fine = self.refined(replace(value, slack=slack), torch.from_numpy(nodes))
        rows = torch.from_numpy(np.searchsorted(nodes, where[:count]))
        fine.at[rows, torch.from_numpy(places[:count])] = torch.from_numpy(aims[:count]).to(fine.at.dtype)
        return fine

    def _pooled(self, step: MaxPool, value: _Value) -> _Value:
        """Nodes where another member of a window becomes the largest, in rounds; what is left counts as slack."""
        members = _windows(step)
        kernel: Any = _exchanges
        lost = np.zeros(len(members))
        for number in range(ROUNDS + 1):
            room = 4 * len(value.nodes) + 1024
            count = room + 1
            while count > room:
                room = max(room, count)
                where = np.empty(room)
                lost[:] = 0
                count = kernel(value.nodes.numpy(), value.at.numpy(), members, 8 * self.unit, where, lost)
            if not count or number == ROUNDS:
                break
            nodes = np.union1d(value.nodes.numpy(), where[:count])
            if len(nodes) == len(value.nodes):
                break
            value = self.refined(value, torch.from_numpy(nodes))
        at = self._run(step, [value.at])
        slack = None
        if value.slack is not None:
            slack = step.value(value.slack.view(1, *step.shape)).flatten() + torch.from_numpy(lost) * UP
        self.lost = torch.from_numpy(lost) * UP
        return _Value(value.nodes, at, slack)


def _windows(step: MaxPool) -> NDArray[np.int64]:
    """The numbers of the flat input in each window of each channel, -1 outside: [outputs, kernel]."""
    members = step.members.numpy()
    pixels = step.shape[1] * step.shape[2]
    channels = pixels * np.arange(step.shape[0])[:, None, None]
    return np.where(members >= 0, members + channels, -1).reshape(-1, members.shape[1])


@njit(cache=True, nogil=True, error_model="numpy")
def _interpolate(old: NDArray[Any], at: NDArray[Any], nodes: NDArray[Any], out: NDArray[Any]) -> None:
    """Fill ``out`` [m, d] with the values ``at`` [b, d] of the nodes ``old``, between them at ``nodes`` [m]."""
    k = 0
    for row in range(len(nodes)):
        t = nodes[row]
        while k + 1 < len(old) and old[k + 1] <= t:
            k += 1
        if old[k] == t:
            for j in range(at.shape[1]):
                out[row, j] = at[k, j]
            continue
        share = at.dtype.type((t - old[k]) / (old[k + 1] - old[k]))
        for j in range(at.shape[1]):
            out[row, j] = at[k, j] + share * (at[k + 1, j] - at[k, j])


@njit(cache=True, nogil=True, error_model="numpy")
def _crossings(
    nodes: NDArray[np.float64],
    at: NDArray[Any],
    levels: NDArray[np.float64],
    where: NDArray[np.float64],
    places: NDArray[np.int64],
    aims: NDArray[np.float64],
    lost: NDArray[np.float64],
) -> int:
    """Where a coordinate crosses a level between two nodes; the number of crossings, which may exceed the room.

    A crossing that no float64 number lies at is no node: what its kink is off there goes to ``lost``.
    """
    count = 0
    for k in range(len(nodes) - 1):
        for level in levels:
            for j in range(at.shape[1]):
                a, b = at[k, j] - level, at[k + 1, j] - level
                if (a < 0) == (b < 0) or a == 0 or b == 0:
                    continue
                width = nodes[k + 1] - nodes[k]
                t = nodes[k] + width * (a / (a - b))
                lost[j] = max(lost[j], abs(b - a) * 2.0**-51 * max(abs(t), width) / width)  # the rounding of t
                if t <= nodes[k] or t >= nodes[k + 1]:
                    lost[j] = max(lost[j], min(abs(a), abs(b)))
                    continue
                if count < len(where):
                    where[count], places[count], aims[count] = t, j, level
                count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def _exchanges(
    nodes: NDArray[np.float64],
    at: NDArray[Any],
    members: NDArray[np.int64],
    tolerance: float,
    where: NDArray[np.float64],
    lost: NDArray[np.float64],
) -> int:
    """Where the largest member at one node and that at the next are equal; the number of such places.

    The largest of lines is convex: it lies below its chord, and above both members. ``lost`` gets the most that the
    chord of each window is above them.
    """
    count = 0
    for w in range(len(members)):
        for k in range(len(nodes) - 1):
            p, q = -1, -1
            for m in members[w]:
                if m >= 0 and (p < 0 or at[k, m] > at[k, p]):
                    p = m
                if m >= 0 and (q < 0 or at[k + 1, m] > at[k + 1, q]):
                    q = m
            first, last = at[k, p] - at[k, q], at[k + 1, q] - at[k + 1, p]
            if p == q or first <= 0 or last <= 0:
                continue
            share = first / (first + last)
            off = share * last  # the chord above both members where they are equal
            lost[w] = max(lost[w], off)
            t = nodes[k] + (nodes[k + 1] - nodes[k]) * share
            shown = off > tolerance * (abs(at[k, p]) + abs(at[k + 1, q]))
            if shown and nodes[k] < t < nodes[k + 1]:
                if count < len(where):
                    where[count] = t
                count += 1
    return count
