"""The isometric network: one orthogonal matrix for all tokens of a layer, so that one core trains it in a minute."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn

from radii.errors import InputError
from radii.models.layers.isometry import IsometricLayer
from radii.models.layers.last_layers import UnitRows
from radii.models.layers.orthogonal import OrthogonalParameter
from radii.models.layers.plain_layers import TokenMix
from radii.models.layers.weightless import FlattenTokens, OverlappingPatches, ZeroBorder


class Isometric(nn.Sequential):
    """Patches to tokens, isometric layers with spatial shifts, flattened features, a head with unit rows.

    After LipNeXt (Hu et al. 2026), reduced for short trainings on a CPU: almost all its
    operations are products of matrices.

    An image is cut into ``tokens`` x ``tokens`` square patches (as many along the
    longer side, zeros around the image where they do not divide it); each patch
    is one token. Every layer maps all tokens by one orthogonal matrix, takes the
    absolute value of half of the channels, and moves ``width // shift`` channels
    one token down, up, right and left. Features [d] are one token, without shifts.

    Args:
        input_shape: [c, h, w] of images, or [d] of features.
        classes: number of logits.
        width: channels of the first stage; even, and at least the numbers of one
            patch for an isometry (below, the first matrix is a projection).
        depth: isometric layers of each stage.
        tokens: patches along the longer side of an image.
        shift: one channel in so many moves in each of the four directions; 0: none.
        stages: after each but the last, 2 x 2 tokens become one and the width doubles.
        mix: one channel in so many takes part in a mixture of all tokens
            (:class:`radii.models.layers.plain_layers.TokenMix`) in the middle of each stage; 0: none. It starts as the
            identity, so a network learns local features first.
        overlap: pixels that a patch takes from its neighbors on each side
            (:class:`radii.models.layers.weightless.OverlappingPatches`); at most half of a patch.

    Guarantee: |f_i(x) - f_i(x')| <= |x - x'| in L2 for each logit i, up to the
    defect of the matrices; :mod:`radii.models.lipschitz.network_bound` proves it
    from the weights alone.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        *,
        width: int = 128,
        depth: int = 4,
        tokens: int = 8,
        shift: int = 32,
        stages: int = 1,
        mix: int = 0,
        overlap: int = 0,
    ) -> None:
        if len(input_shape) not in (1, 3):
            raise InputError(f"Isometric takes images [c, h, w] or features [d], got shape {tuple(input_shape)}.")
        if min(depth, tokens, stages) < 1 or min(shift, mix) < 0 or 0 < shift < 4:
            raise InputError(
                "depth, tokens and stages must be at least 1, shift 0 or at least 4, and mix at least 0, "
                f"got {depth}, {tokens}, {stages}, {shift} and {mix} instead."
            )
        parts, channels, grid = _patches(tuple(input_shape), tokens, 2 ** (stages - 1), overlap)
        for stage in range(stages):
            wide = width * 2**stage
            moved = wide // shift if shift and max(grid) > 1 else 0
            for number in range(depth):
                first, last = (stage, number) == (0, 0), number == depth - 1
                parts[f"stage{stage}_layer{number}"] = IsometricLayer(
                    channels, wide, shift=0 if last else moved, size=grid if first and len(input_shape) == 3 else None
                )
                channels = wide
                if mix and grid != (1, 1) and number == (depth - 1) // 2 and wide >= mix:
                    parts[f"stage{stage}_mix"] = TokenMix(
                        wide // mix, OrthogonalParameter(torch.eye(grid[0] * grid[1]))
                    )
            if stage < stages - 1:
                parts[f"stage{stage}_merge"] = nn.PixelUnshuffle(2)
                channels, grid = 4 * wide, (grid[0] // 2, grid[1] // 2)
        parts["flatten"] = FlattenTokens()
        parts["head"] = UnitRows(channels * grid[0] * grid[1], classes, channels)
        super().__init__(parts)
        self.input_shape = tuple(input_shape)
        with torch.no_grad():
            head = self.head
            assert isinstance(head, UnitRows)
            nn.init.normal_(head.weight, std=head.in_features**-0.5)
            head.bias.zero_()


def _patches(
    shape: tuple[int, ...], tokens: int, divisor: int, overlap: int
) -> tuple[OrderedDict[str, nn.Module], int, tuple[int, int]]:
    """The layers that cut an image into tokens, the numbers of one token, and the grid; features are one token."""
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    if len(shape) == 1:
        if divisor > 1:
            raise InputError("Features are one token, which no second stage can merge; leave stages at 1.")
        return parts, shape[0], (1, 1)
    channels, *sides = shape
    if tokens > max(sides) or tokens % divisor:
        raise InputError(
            f"tokens must be at most {max(sides)}, the pixels of a side, and a multiple of {divisor} "
            f"for this many stages, got {tokens} instead."
        )
    patch = -(-max(sides) // tokens)
    rows, columns = (-(-side // (patch * divisor)) * divisor for side in sides)
    size = (rows * patch, columns * patch)
    if size != tuple(sides):
        parts["border"] = ZeroBorder(size)
    parts["patches"] = OverlappingPatches(patch, overlap) if overlap else nn.PixelUnshuffle(patch)
    return parts, channels * (patch + 2 * overlap) ** 2, (rows, columns)
