"""A network under attack computes what it computed before, and is left as it was found."""

from __future__ import annotations

from functools import reduce

import pytest
import torch
from torch import nn

from radii.errors import InputError
from radii.models.zoo.convnets import CNN1, LeNet5
from radii.models.zoo.wide_resnet import WideResNet
from radii.training._frozen_for_attack import attackable, couples_rows, same_in_both_modes


def seasoned(net: nn.Module) -> nn.Module:
    """Batch norms with statistics and scales (negative ones too) that are not those of a fresh network."""
    torch.manual_seed(1)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return net


def norms(net: nn.Module) -> int:
    return sum(isinstance(module, nn.BatchNorm2d) for module in net.modules())


@pytest.mark.parametrize(("kind", "left"), [("sequence", 1), ("wide-resnet", 4)])
def test_folding_keeps_the_function_and_its_gradient(kind: str, left: int) -> None:
    """WRN-10 has 7 batch norms, of which the 3 inside blocks follow a convolution."""
    torch.manual_seed(0)
    if kind == "sequence":
        convolutions = (nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3, bias=False))
        tail = (nn.MaxPool2d(2), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3))
        net = seasoned(nn.Sequential(*convolutions, *tail)).train()
    else:
        net = seasoned(WideResNet((2, 8, 8), 3, depth=10, widen=0.5)).train()
    x = torch.rand(5, 2, 8, 8, requires_grad=True)
    before = [name for name, _ in net.named_modules()]
    net.eval()
    expected = net(x)
    (slope,) = torch.autograd.grad(expected.sum(), x)
    net.train()
    with attackable(net) as frozen:
        assert norms(frozen) == left
        assert not any(parameter.requires_grad for parameter in frozen.parameters())
        logits = frozen(x)
        (gradient,) = torch.autograd.grad(logits.sum(), x)
    assert torch.allclose(logits, expected, rtol=1e-4, atol=1e-4)
    assert torch.allclose(gradient, slope, rtol=1e-3, atol=1e-3)
    assert [name for name, _ in net.named_modules()] == before
    assert net.training
    assert all(parameter.requires_grad for parameter in net.parameters())


def test_it_is_left_as_found_even_after_an_error() -> None:
    net = WideResNet((2, 8, 8), 3, depth=10, widen=0.5).train()
    with pytest.raises(RuntimeError, match="boom"), attackable(net):
        raise RuntimeError("boom")
    assert norms(net) == 7
    assert net.training
    with pytest.raises(InputError, match="Did you mean 'train'"), attackable(net, "trains"):  # type: ignore[arg-type]
        pass


class Own(nn.Module):
    """A user's module, which may do anything in train mode."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_which_networks_are_one_function_in_both_modes() -> None:
    assert same_in_both_modes(LeNet5((1, 8, 8), 3))
    assert not same_in_both_modes(LeNet5((1, 8, 8), 3, dropout=0.1))
    assert not same_in_both_modes(CNN1((1, 8, 8), 3))
    assert not same_in_both_modes(nn.Sequential(Own()))
    assert not couples_rows(CNN1((1, 8, 8), 3))
    assert couples_rows(WideResNet((1, 8, 8), 3, depth=10))
    assert couples_rows(Own())


def test_grey_convolutions_keep_the_function_and_its_gradient() -> None:
    """Also a convolution that two parents share, and one whose batch norm was folded into it."""
    torch.manual_seed(0)
    shared = nn.Conv2d(1, 3, 5, padding=2)
    folded = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3))

    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other, self.third = nn.Sequential(shared, nn.ReLU()), nn.Sequential(shared), folded

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.one(x) - self.other(x).tanh() + self.third(x)).flatten(1)

    net = seasoned(Branches()).eval()
    x = torch.rand(4, 1, 12, 8, requires_grad=True)
    expected = net(x)
    (slope,) = torch.autograd.grad(expected.square().sum(), x)
    before = [(name, id(module)) for name, module in net.named_modules(remove_duplicate=False)]
    with attackable(net) as attacked:
        assert "forward" in vars(shared)
        logits = attacked(x)
        (gradient,) = torch.autograd.grad(logits.square().sum(), x)
    assert torch.allclose(logits, expected, atol=1e-5)
    assert torch.allclose(gradient, slope, rtol=1e-4, atol=1e-4)
    assert [(name, id(module)) for name, module in net.named_modules(remove_duplicate=False)] == before
    assert "forward" not in vars(shared)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("kind", ["spectral_norm", "weight_norm", "parametrizations.spectral_norm", "hook"])
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:DeprecationWarning")
def test_weights_that_a_hook_computes_are_computed(kind: str, channels: int) -> None:
    """After an optimizer step the weight of a normalized convolution is an old one until its hook is called."""
    torch.manual_seed(0)
    convolution, seen = nn.Conv2d(channels, 4, 3, padding=1), []
    if kind == "hook":
        convolution.register_forward_hook(lambda *_: seen.append(True))
    else:
        convolution = reduce(getattr, kind.split("."), nn.utils)(convolution)
    net = seasoned(nn.Sequential(convolution, nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(256, 3)))
    x = torch.rand(5, channels, 8, 8)
    net.train()(x)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    seen.clear()
    with attackable(net) as attacked:
        logits = attacked(x.requires_grad_())
    assert bool(seen) == (kind == "hook")
    assert torch.allclose(logits, net.eval()(x), atol=1e-5)
