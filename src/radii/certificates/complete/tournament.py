"""Max pooling as ReLUs, so that branch and bound can split it: max(a, b) = a + relu(b - a), in rounds of pairs.

The identity is exact for real numbers, and pooling itself rounds nothing, so bounds
of the rewritten network hold for the pooled one.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from radii.certificates.bounds.linear_maps import Gather
from radii.certificates.bounds.network import Network
from radii.certificates.bounds.relaxations import Affine, Layer, MaxPool, Relu, Sum

SPACING = 1 << 10  # new values fit between two old ones


def without_pools(network: Network) -> Network:
    """The same network with every max pooling whose windows lie inside its image written with ReLUs."""
    layers: dict[int, Layer] = {}
    shapes = {number * SPACING: shape for number, shape in network.shapes.items()}
    for number, layer in network.layers.items():
        moved = _renumbered(layer)
        if isinstance(moved, MaxPool):
            shape = network.shapes[layer.inputs[0]]
            members = moved.members(*shape[1:])
            if bool((members >= 0).all()) and members.shape[1] * 6 < SPACING:
                _add_rounds(layers, shapes, moved, number * SPACING, members, network.shapes[number])
                continue
        layers[number * SPACING] = moved
    return Network(layers, network.input_shape, network.output * SPACING, shapes)


def _renumbered(layer: Layer) -> Layer:
    from dataclasses import replace

    return replace(layer, inputs=tuple(number * SPACING for number in layer.inputs))  # type: ignore[arg-type]


def _add_rounds(
    layers: dict[int, Layer],
    shapes: dict[int, tuple[int, ...]],
    pool: MaxPool,
    output: int,
    members: Tensor,
    after: tuple[int, ...],
) -> None:
    """Add the layers that make ``output``: one copy of the image for each member of a window, then pairs."""
    free = iter(range(output - SPACING + 1, output))

    def add(layer: Layer, number: int | None = None) -> int:
        number = next(free) if number is None else number
        layers[number], shapes[number] = layer, after
        return number

    before = shapes[pool.inputs[0]]
    values = [
        add(Affine(pool.layer, pool.inputs, Gather(_picked(members[:, k], after), before), None))
        for k in range(members.shape[1])
    ]
    while len(values) > 1:
        left = []
        for first, second in zip(values[::2], values[1::2], strict=False):
            above = add(Relu(pool.layer, (add(Sum(pool.layer, (second, first), -1.0)),)))
            last = len(values) == 2
            left.append(add(Sum(pool.layer, (first, above), 1.0), output if last else None))
        values = left + ([values[-1]] if len(values) % 2 else [])
    if output not in layers:  # windows of one pixel
        layers[output] = layers.pop(values[0])


def _picked(places: Tensor, after: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    return lambda x: x.flatten(2).index_select(2, places).unflatten(2, after[1:])
