"""Hand-written gradients of boxes: against finite differences, and against torch's elementary operations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.training._interval_forward import BatchNormalization, Boxes, Rectification, UnitSums, pass_box

SHAPES = [(6, 3), (5, 2, 4, 3)]


def drawn(*shape: int, channels_last: bool = False) -> Tensor:
    value = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape)))
    if channels_last and len(shape) == 4:
        value = value.to(memory_format=torch.channels_last)
    return value.requires_grad_()


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_finite_differences(shape: tuple[int, ...], channels_last: bool) -> None:
    center = drawn(*shape, channels_last=channels_last)
    reach = (0.7 * drawn(*shape, channels_last=channels_last).detach().flip(0).abs()).requires_grad_()
    weight, bias = drawn(shape[1]), drawn(shape[1])
    check: Callable[..., bool] = torch.autograd.gradcheck
    assert check(lambda v, w, b: BatchNormalization.apply(v, w, b, 1e-3), (center, weight, bias))
    assert check(lambda v: BatchNormalization.apply(v, None, None, 1e-3), (center,))
    assert check(Rectification.apply, (center, reach))
    assert check(lambda c: UnitSums.apply(c, reach.detach()), (center,))


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_over_units_are_those_of_masks(shape: tuple[int, ...], channels_last: bool) -> None:
    center = drawn(*shape, channels_last=channels_last).detach()
    reach = torch.full(shape, 0.4, dtype=torch.float64)  # another order in memory than the center
    sums = UnitSums.apply(center, reach)
    masks = [center > reach, center < -reach]
    for row, weight in zip(sums, (center.abs(), (center - center.mean(0)).square()), strict=True):
        torch.testing.assert_close(row, torch.stack([(weight * mask).sum() for mask in masks]))


def test_relu_of_boxes_is_exact_at_its_ends() -> None:
    """Dead, surely active, and open units; the ends are where ReLU puts the ends."""
    center, reach = torch.tensor([-2.0, 2.0, 0.5, -0.5]), torch.tensor([1.0, 1.0, 1.0, 1.0])
    middle, width = Rectification.apply(center, reach)
    torch.testing.assert_close(middle + width, F.relu(center + reach))
    torch.testing.assert_close(middle - width, F.relu(center - reach))


@pytest.mark.parametrize("carries", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_a_box_of_no_width_passes_like_a_point(carries: bool, affine: bool) -> None:
    """In train mode, statistics and gradients included: the same network on the same points."""
    torch.manual_seed(0)
    parts = [nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, affine=affine), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8)]
    model = nn.Sequential(*parts, nn.BatchNorm1d(8, affine=affine), nn.ReLU(), nn.Linear(8, 3)).double()
    x = torch.rand(7, 2, 6, 6, dtype=torch.float64)
    expected, kept = [], [part for part in model if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d)]
    logits = model(x)
    logits.square().sum().backward()
    expected = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    statistics = [(part.running_mean.clone(), part.running_var.clone()) for part in kept]
    for part in kept:
        part.reset_running_stats()
    model.zero_grad()
    passage = pass_box(model, Boxes(x, torch.zeros_like(x), x if carries else None))
    torch.testing.assert_close(passage.logits, logits)
    torch.testing.assert_close(passage.features.reach, torch.zeros_like(passage.features.reach))
    passage.logits.square().sum().backward()
    for gradient, parameter in zip(expected, model.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    for part, (mean, variance) in zip(kept, statistics, strict=True):
        torch.testing.assert_close(part.running_mean, mean)
        torch.testing.assert_close(part.running_var, variance)


def test_second_derivatives_are_refused() -> None:
    center, reach = drawn(3, 2), torch.ones(3, 2, dtype=torch.float64)
    middle, _ = Rectification.apply(center, reach)
    (gradient,) = torch.autograd.grad(middle.square().sum(), center, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
