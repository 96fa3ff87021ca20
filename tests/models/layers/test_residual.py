"""The residual step: its hand-written backward against what autograd makes of the formula."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from radii.models.layers.plain_layers import residual_step


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
