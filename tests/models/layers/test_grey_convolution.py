"""The gradient of a grey image in blocks of pixels is the gradient that torch computes, whatever a network does."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.training._frozen_for_attack import fast_grey_gradients


def constant(net: nn.Module) -> nn.Module:
    return net.requires_grad_(False)


def slope(net: nn.Module, x: Tensor) -> Tensor:
    """The gradient of a sum of squares."""
    x = x.detach().requires_grad_()
    return torch.autograd.grad(net(x).float().square().sum(), x)[0]


def both(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """torch's gradient and the fast one."""
    expected = slope(net, x)
    with fast_grey_gradients(net):
        return expected, slope(net, x)


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("sides", [(8, 12), (28, 28), (9, 8), (16, 10)])
def test_equals_the_ordinary_convolution(kernel: int, sides: tuple[int, int]) -> None:
    """Any kernel and padding, also on sides that blocks do not divide, in both orders of memory."""
    torch.manual_seed(kernel)
    for padding in range(kernel):
        plain = nn.Conv2d(1, 6, kernel, padding=padding, bias=padding % 2 == 0).requires_grad_(False)
        for order in (torch.contiguous_format, torch.channels_last):
            x = torch.rand(3, 1, *sides).to(memory_format=order)
            expected, fast = both(plain, x)
            assert fast.shape == x.shape
            assert torch.allclose(fast, expected, rtol=1e-4, atol=1e-4)
            with fast_grey_gradients(plain):
                assert "forward" in vars(plain)
                assert torch.equal(plain(x.requires_grad_()), F.conv2d(x, plain.weight, plain.bias, padding=padding))
        assert "forward" not in vars(plain)


class ReadsItsLayers(nn.Module):
    """Uses its convolution as a module, and its weight and sizes as well."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        direct = F.conv2d(x, 2 * self.conv.weight, padding=self.conv.padding)
        return self.conv(x) * direct / self.conv.out_channels


class ClampsItsWeights(ReadsItsLayers):
    """Changes its weights in place before it uses them."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.conv.weight.mul_(0.9)
        return self.conv(x)


class Autocast(ReadsItsLayers):
    """Computes in bfloat16."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.conv(x)


class Potential(ReadsItsLayers):
    """Its output is the gradient of another network."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x if x.requires_grad else x.requires_grad_()
            (force,) = torch.autograd.grad(self.conv(x).tanh().sum(), x, create_graph=True)
        return force.flatten(1)


@pytest.mark.parametrize("kind", [ReadsItsLayers, Autocast, Potential])
def test_networks_of_any_style(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    expected, fast = both(constant(kind()), torch.rand(3, 1, 8, 8))
    assert fast.dtype == expected.dtype
    assert torch.allclose(fast, expected, rtol=0.02 if kind is Autocast else 1e-4, atol=0.02)


def test_the_gradient_is_that_of_the_weights_of_the_pass() -> None:
    torch.manual_seed(0)
    one, other = constant(ClampsItsWeights()), constant(ClampsItsWeights())
    other.load_state_dict(one.state_dict())
    x = torch.rand(2, 1, 8, 8)
    expected = slope(one, x)
    with fast_grey_gradients(other):
        assert torch.allclose(slope(other, x), expected, atol=1e-5)


def test_a_hook_sees_what_goes_through() -> None:
    net, seen = constant(nn.Conv2d(1, 4, 3, padding=1)), []
    net.register_forward_hook(lambda *_: seen.append(True))
    expected, fast = both(net, torch.rand(2, 1, 8, 8))
    assert len(seen) == 2
    assert torch.allclose(fast, expected, atol=1e-5)


def test_empty_batches_and_single_images() -> None:
    net = constant(nn.Conv2d(1, 4, 5, padding=2))
    for shape in ((0, 1, 8, 8), (1, 8, 8)):
        expected, fast = both(net, torch.rand(shape))
        assert fast.shape == expected.shape
        assert torch.allclose(fast, expected, atol=1e-5)


def test_weights_in_training_get_their_gradient() -> None:
    net = nn.Conv2d(1, 4, 3, padding=1)
    with fast_grey_gradients(net):
        net(torch.rand(2, 1, 8, 8, requires_grad=True)).sum().backward()
    assert net.weight.grad is not None
    assert net.bias is not None
    assert net.bias.grad is not None


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
        nn.utils.parametrizations.weight_norm(nn.Conv2d(1, 4, 3)),
        nn.ConvTranspose2d(1, 4, 3),
    ],
)
def test_other_layers_are_left_alone(other: nn.Module) -> None:
    with fast_grey_gradients(other):
        assert "forward" not in vars(other)


def test_a_forward_of_somebody_else_stays() -> None:
    net = nn.Conv2d(1, 4, 3)
    own = net.forward = torch.nn.Identity().forward  # type: ignore[method-assign]
    with fast_grey_gradients(net):
        assert net.forward is own
    assert net.forward is own


def test_everything_is_put_back_after_an_error() -> None:
    net = nn.Conv2d(1, 4, 3)

    def fail() -> None:
        with fast_grey_gradients(net):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert "forward" not in vars(net)
