"""Networks behind a threshold: what does not cross it changes nothing, and the clipping one is Wong & Kolter's."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from radii.bounds.provably_robust import Bounded, domain_of
from radii.certificates.bound_certificate import certify
from radii.errors import InputError
from radii.models.zoo.convnets import ClippingConvNet, ThresholdConvNet, WongKolterConvNet
from radii.threat import Ball


def binary(n: int = 6) -> torch.Tensor:
    return (torch.rand(n, 1, 8, 8, generator=torch.Generator().manual_seed(0)) > 0.5).float()


def test_clipping_is_wong_and_kolters_net_with_a_given_first_layer() -> None:
    torch.manual_seed(0)
    for channels in (1, 2):
        ours = ClippingConvNet((channels, 8, 12), 4).eval()
        theirs = ours.as_wong_kolter()
        assert type(theirs) is WongKolterConvNet
        assert not theirs.training
        x = torch.rand(20, channels, 8, 12)
        assert torch.allclose(ours(x), theirs(x), atol=1e-5)


def test_what_stays_on_its_side_of_the_threshold_changes_nothing() -> None:
    torch.manual_seed(0)
    x = binary()
    near = (x - 0.3 * torch.rand(x.shape) * (2 * x - 1)).clamp(0, 1)
    for model in (ThresholdConvNet((1, 8, 8), 3, widen=0.25), ClippingConvNet((1, 8, 8), 3)):
        assert torch.equal(model(x), model(near))


def test_proofs_reach_the_clip_and_no_further() -> None:
    """Intervals on the kept form, lines on Wong & Kolter's form: every prediction, up to radius r."""
    torch.manual_seed(1)
    model, x = ClippingConvNet((1, 8, 8), 3).eval(), binary()
    assert (certify(model, x, [0.3, 0.34, 0.64], "linf", "ibp").radius == 0.34).all()
    assert (certify(model.as_wong_kolter(), x, [0.3, 0.34, 0.64], "linf", "crown").radius == 0.34).all()
    assert (certify(ThresholdConvNet((1, 8, 8), 3, widen=0.25).eval(), x, [0.49], "linf", "ibp").radius == 0.49).all()


def hidden_of(net: WongKolterConvNet, x: torch.Tensor) -> torch.Tensor:
    """Values after the second ReLU."""
    return net.relu2(net.conv2(net.relu1(net.conv1(x))))


def test_a_start_from_pixels_holds_them_exactly_in_the_ball() -> None:
    """Sixteen channels after the second ReLU are the pixels of 4x4 blocks, and their intervals have no width."""
    torch.manual_seed(0)
    x, net = binary(), WongKolterConvNet((1, 8, 8), 3, widen=0.5, start="pixels")
    with torch.no_grad():
        pixels = hidden_of(net, x)[:, :16]
    blocks = F.pixel_unshuffle(x, 4)
    for channel in range(16):
        (row, column), (down, right) = divmod(channel // 4, 2), divmod(channel % 4, 2)
        assert torch.equal(pixels[:, channel], blocks[:, 4 * (2 * down + row) + 2 * right + column])
    engine, shape = Bounded(net, (1, 8, 8)).engine, hidden_of(net, x).shape[1:]
    known = engine.intervals(domain_of(x, Ball("linf", 0.3)))
    number = [number for number, step in engine.program.steps.items() if step.out_shape == tuple(shape)][-1]
    low, high = (end[number].unflatten(1, shape)[:, :16] for end in (known.lower, known.upper))
    assert torch.equal(low > 0.5, pixels > 0.5)
    assert float((high - low).max()) < 1e-4
    with pytest.raises(InputError, match="grey"):
        WongKolterConvNet((3, 8, 8), 3, start="pixels")
    with pytest.raises(InputError, match="random or pixels"):
        WongKolterConvNet((1, 8, 8), 3, start="zeros")  # type: ignore[arg-type]


@pytest.mark.parametrize(("shape", "clip", "said"), [((1, 9, 8), 0.3, "multiples of 4"), ((1, 8, 8), 0.5, "1/2")])
def test_bad_arguments_are_said(shape, clip, said) -> None:
    with pytest.raises(InputError, match=said):
        ClippingConvNet(shape, 3, clip)
