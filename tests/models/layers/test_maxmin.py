"""MaxMin: values and gradients."""

from __future__ import annotations

import pytest
import torch

from radii.errors import InputError
from radii.models.layers.weightless import MaxMin


@pytest.mark.parametrize("shape", [(3, 6), (2, 4, 5, 3), (2, 2, 7)])
def test_maxmin_sorts_neighbors(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, requires_grad=True)
    pairs = x.unflatten(1, (-1, 2))
    expected = torch.stack((pairs.amax(2), pairs.amin(2)), 2).flatten(1, 2)
    torch.testing.assert_close(MaxMin()(x), expected, rtol=0, atol=0)
    direction = torch.randn(shape)
    (found,) = torch.autograd.grad((MaxMin()(x) * direction).sum(), x)
    (wanted,) = torch.autograd.grad((expected * direction).sum(), x)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    torch.testing.assert_close(found.norm(), direction.norm())


def test_maxmin_passes_the_whole_gradient_at_ties() -> None:
    x = torch.zeros(1, 2, requires_grad=True)
    (gradient,) = torch.autograd.grad((MaxMin()(x) * torch.tensor([[3.0, 5.0]])).sum(), x)
    assert gradient.tolist() == [[3.0, 5.0]]


def test_maxmin_refuses_odd_channels() -> None:
    with pytest.raises(InputError, match="even number of channels, got 3"):
        MaxMin()(torch.zeros(1, 3))
