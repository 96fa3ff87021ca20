"""Layers that only move numbers."""

from __future__ import annotations

import pytest
import torch

from radii.errors import InputError
from radii.models.layers.weightless import FirstChannels, ZeroBorder, ZeroChannels


def test_embeddings_keep_norms_and_can_be_undone() -> None:
    x = torch.randn(2, 3, 5, 4)
    wide = ZeroChannels(8)(x)
    assert wide.shape == (2, 8, 5, 4)
    torch.testing.assert_close(FirstChannels(3)(wide), x, rtol=0, atol=0)
    assert float(wide.norm()) == pytest.approx(float(x.norm()))
    bordered = ZeroBorder((8, 8))(x)
    torch.testing.assert_close(bordered[:, :, 1:6, 2:6], x, rtol=0, atol=0)
    assert float(bordered.norm()) == pytest.approx(float(x.norm()))
    assert ZeroChannels(6)(torch.ones(2, 4)).tolist() == [[1, 1, 1, 1, 0, 0]] * 2


def test_what_does_not_fit_is_refused() -> None:
    x = torch.zeros(1, 3, 4, 4)
    for layer in (ZeroChannels(2), FirstChannels(4), ZeroBorder((3, 4))):
        with pytest.raises(InputError):
            layer(x)
