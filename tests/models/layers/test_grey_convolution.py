"""The gradient of a grey image in blocks of pixels is the gradient that torch computes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from radii.models.layers.grey_convolution import GreyConvolution, has_fast_gradient


def constant(convolution: nn.Conv2d) -> nn.Conv2d:
    return convolution.requires_grad_(False)


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("sides", [(8, 12), (28, 28), (9, 8), (16, 10)])
def test_equals_the_ordinary_convolution(kernel: int, sides: tuple[int, int]) -> None:
    """Any kernel and padding, also on sides that blocks do not divide, in both orders of memory."""
    torch.manual_seed(kernel)
    for padding in range(kernel):
        if min(sides) + 2 * padding < kernel:
            continue
        plain = constant(nn.Conv2d(1, 6, kernel, padding=padding, bias=padding % 2 == 0))
        assert has_fast_gradient(plain)
        for order in (torch.contiguous_format, torch.channels_last):
            x = torch.rand(3, 1, *sides).to(memory_format=order).requires_grad_()
            expected, ours = plain(x), GreyConvolution(plain)(x)
            toward = torch.randn_like(expected)
            (slope,) = torch.autograd.grad(expected, x, toward)
            (gradient,) = torch.autograd.grad(ours, x, toward)
            assert torch.equal(ours, expected)
            assert gradient.shape == x.shape
            assert torch.allclose(gradient, slope, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "other",
    [
        nn.Conv2d(2, 4, 3),
        nn.Conv2d(1, 4, 3, stride=2),
        nn.Conv2d(1, 4, 3, dilation=2),
        nn.Conv2d(1, 4, 3, padding=3),
        nn.Conv2d(1, 4, (3, 5)),
        nn.Conv2d(1, 4, 3, padding="same"),
        nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect"),
        nn.Linear(4, 4),
        nn.ConvTranspose2d(1, 4, 3),
    ],
)
def test_other_layers_are_left_alone(other: nn.Module) -> None:
    assert not has_fast_gradient(other.requires_grad_(False))


def test_weights_in_training_are_left_alone() -> None:
    """Their gradient would not be computed."""
    assert not has_fast_gradient(nn.Conv2d(1, 4, 3))
    assert not has_fast_gradient(None)


def test_a_second_derivative_is_refused_not_wrong() -> None:
    fast = GreyConvolution(constant(nn.Conv2d(1, 4, 3, padding=1)))
    x = torch.rand(1, 1, 8, 8, requires_grad=True)
    (slope,) = torch.autograd.grad(fast(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()
