"""Convolution weights in channels_last: put back whatever happens, and never where torch is wrong."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import nn

from radii.models.classifier import channels_last


def test_channels_last_puts_everything_back() -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3))
    weight = net[2].weight
    before, values, place = weight.stride(), weight.detach().clone(), weight.data_ptr()
    layout = channels_last(net)
    seen = []

    def fail() -> None:
        with layout():
            seen.append((weight.stride() != before, torch.equal(weight, values)))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen == [(True, True)]
    assert net[2].weight is weight
    assert weight.stride() == before
    assert weight.data_ptr() == place


def test_strided_pointwise_convolutions_keep_their_order() -> None:
    """torch 2.13 writes out of bounds there in channels_last."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1, stride=2))
    with channels_last(net)():
        assert all(part.weight.is_contiguous() for part in net)


def test_training_keeps_the_weights_that_it_changes() -> None:
    net = nn.Sequential(OrderedDict(conv1=nn.Conv2d(3, 4, 3), relu=nn.ReLU(), conv2=nn.Conv2d(4, 2, 3)))
    x, before = torch.rand(4, 3, 8, 8), {name: value.clone() for name, value in net.state_dict().items()}
    expected = net(x)
    with channels_last(net, trained=True)():
        assert net.conv1.weight.is_contiguous(memory_format=torch.channels_last)
        assert torch.allclose(net(x), expected, atol=1e-6)
        assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
        with torch.no_grad():
            net.conv1.weight.add_(1.0)
    assert net.conv1.weight.is_contiguous()
    assert torch.equal(net.conv1.weight, before["conv1.weight"] + 1), "training changes weights, which must be kept"
