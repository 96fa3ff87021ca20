"""Summaries list what ran, with shapes and parameters."""

from __future__ import annotations

from torch import nn

from radii.models.summary import summary
from radii.models.zoo.convnets import LeNet5
from radii.models.zoo.lipschitz_networks import LipschitzConvNet


def test_summary_of_a_small_network() -> None:
    model = LipschitzConvNet((1, 8, 8), 3, width=4, depth=1).train()
    found = summary(model, (1, 8, 8))
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert [row.name for row in found.rows] == [name for name, _ in model.named_children()]
    assert found.rows[-1].output == (3,)
    stem = next(row for row in found.rows if row.name == "stem")
    assert (stem.kind, stem.output, stem.parameters) == ("AOLConv2d", (4, 8, 8), 16)
    shown = {line[0]: line for line in found.table().cells}
    assert shown["stem"][1:4] == ("AOLConv2d", "4x8x8", "16")
    assert model.training


def test_multiply_adds_are_counted_by_hand() -> None:
    found = summary(LeNet5((1, 28, 28), 10), (1, 28, 28))
    conv1, conv2, fc1, fc2 = (row.multiply_adds for row in found.rows if row.multiply_adds)
    assert conv1 == 28 * 28 * 25 * 32
    assert conv2 == 14 * 14 * 25 * 32 * 64
    assert (fc1, fc2) == (3136 * 1024, 1024 * 10)
    assert found.multiply_adds == conv1 + conv2 + fc1 + fc2
    assert found.table().cells[-1][-1] == f"{found.multiply_adds:,}"


def test_grouped_and_strided_convolutions() -> None:
    net = nn.Sequential(nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2), nn.BatchNorm2d(8), nn.Flatten())
    assert summary(net, (4, 6, 6)).multiply_adds == 3 * 3 * 8 * 2 * 9
