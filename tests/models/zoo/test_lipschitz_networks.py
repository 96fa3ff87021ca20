"""The architectures: sizes, paddings, parameter counts, refusals."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from radii.errors import InputError
from radii.models.zoo.convnets import SimpleConvNet
from radii.models.zoo.lipschitz_networks import LipschitzConvNet, LipschitzMLP


@pytest.mark.parametrize(
    ("shape", "blocks", "border"),
    [
        ((1, 8, 8), 3, None),
        ((1, 28, 28), 5, (32, 32)),
        ((3, 32, 32), 5, None),
        ((1, 5, 9), 4, (16, 16)),
        ((2, 1, 1), 0, None),
    ],
)
def test_blocks_follow_the_image_size(shape: tuple[int, int, int], blocks: int, border: tuple[int, int] | None) -> None:
    model = LipschitzConvNet(shape, 7, width=4)
    assert sum(isinstance(part, nn.PixelUnshuffle) for part in model) == blocks
    assert (model.border.size if hasattr(model, "border") else None) == border
    x = torch.rand(2, *shape)
    assert model(x).shape == (2, 7)


def test_the_papers_sizes() -> None:
    paper = LipschitzConvNet((3, 32, 32), 10, width=64)
    convolutions = 64 * 64 + 3 * 9 * sum((64 * 2**block) ** 2 for block in range(5))
    assert sum(p.numel() for p in paper.parameters()) == convolutions + 2048 * 10
    assert sum(p.numel() for p in SimpleConvNet((3, 32, 32), 10).parameters()) == pytest.approx(4.69e6, rel=2e-3)
    mlp = LipschitzMLP((3, 32, 32), 10)
    assert sum(p.numel() for p in mlp.parameters()) == 7 * 3072**2 + 3072 * 10


def test_the_first_network_is_nearly_isometric() -> None:
    """With identity weights the image arrives unchanged, reordered, at the head's input."""
    model = LipschitzConvNet((3, 32, 32), 10, width=12, blocks=2)
    features = nn.Sequential(*list(model)[:-1])
    x = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(features(x).norm(), x.norm(), rtol=1e-3, atol=0)


def test_architectures_differ_from_their_plain_twin_by_one_word() -> None:
    twin = LipschitzConvNet((1, 8, 8), 10, layer="plain")
    shapes = {name: tuple(value.shape) for name, value in LipschitzConvNet((1, 8, 8), 10).state_dict().items()}
    assert {name: tuple(value.shape) for name, value in twin.state_dict().items()} == shapes


def test_refusals() -> None:
    with pytest.raises(InputError, match="width must be even and at least 3"):
        LipschitzConvNet((3, 8, 8), 10, width=2)
    with pytest.raises(InputError, match="Did you mean 'aol'"):
        LipschitzConvNet((1, 8, 8), 10, layer="aoll")
    with pytest.raises(InputError, match="blocks must be"):
        LipschitzConvNet((1, 8, 8), 10, depth=0)
    with pytest.raises(InputError, match="takes images"):
        LipschitzConvNet((64,), 10)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least the 64 inputs"):
        LipschitzMLP((1, 8, 8), 10, width=32)
    with pytest.raises(InputError, match="at least 8 x 8"):
        SimpleConvNet((1, 4, 4), 10)
