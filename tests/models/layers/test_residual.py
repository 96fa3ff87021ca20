"""The residual step: its hand-written backwards, and products of taps, against what autograd makes of the formula."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from radii.models.layers import residual, taps
from radii.models.layers.residual import residual_step


def formula(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    padding = weight.shape[2] // 2, weight.shape[3] // 2
    return x - F.conv_transpose2d(F.relu(F.conv2d(x, weight, bias, padding=padding)), weight, padding=padding)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("images", "size", "kernel", "hidden"),
    [
        (40, (2, 2), (3, 3), 6),
        (33, (4, 3), (3, 3), 8),
        (32, (1, 1), (3, 3), 5),
        (32, (4, 4), (5, 3), 4),
        (32, (1, 16), (1, 1), 3),
        (3, (2, 2), (3, 3), 6),
        (40, (5, 6), (3, 3), 4),
    ],
)
def test_step_and_gradients(images, size, kernel, hidden, bias) -> None:
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)

    inputs = drawn(images, 4, *size), drawn(hidden, 4, *kernel), drawn(hidden) if bias else None
    wanted, found = formula(*inputs), residual_step(*inputs)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    outward = torch.randn(wanted.shape, generator=generator, dtype=torch.float64)
    leaves = [tensor for tensor in inputs if tensor is not None]
    for ours, theirs in zip(
        torch.autograd.grad(found, leaves, outward), torch.autograd.grad(wanted, leaves, outward), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


def test_small_images_take_the_taps(monkeypatch) -> None:
    assert taps.worthwhile(torch.zeros(32, 3, 4, 4))
    assert not taps.worthwhile(torch.zeros(31, 3, 4, 4))
    assert not taps.worthwhile(torch.zeros(32, 3, 5, 4))
    monkeypatch.setattr(residual._ResidualTaps, "apply", lambda *_: "taps")
    weight = torch.zeros(3, 3, 3, 3, requires_grad=True)
    assert residual_step(torch.zeros(32, 3, 2, 2), weight, None) == "taps"
    assert torch.is_tensor(residual_step(torch.zeros(32, 3, 8, 8), weight, None))


def test_pixels_outside_are_not_multiplied() -> None:
    """On 2 x 2 images 16 of the 36 pairs of pixel and tap are inside, on 4 x 4 100 of 144."""
    for size, pairs in ((2, 16), (4, 100)):
        assert sum(outputs[1].stop - outputs[1].start for _, outputs, _ in taps._meetings(size, size, 3, 3)) == pairs
