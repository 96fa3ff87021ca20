"""Summaries list what ran, with shapes and parameters."""

from __future__ import annotations

from radii.models.lipschitz_convnet import LipschitzConvNet
from radii.models.summary import summary


def test_summary_of_a_small_network() -> None:
    model = LipschitzConvNet((1, 8, 8), 3, width=4, depth=1).train()
    found = summary(model, (1, 8, 8))
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert [row.name for row in found.rows] == [name for name, _ in model.named_children()]
    assert found.rows[-1].output == (3,)
    stem = next(row for row in found.rows if row.name == "stem")
    assert (stem.kind, stem.output, stem.parameters) == ("AOLConv2d", (4, 8, 8), 16)
    assert "stem" in str(found)
    assert "4x8x8" in str(found)
    assert model.training
