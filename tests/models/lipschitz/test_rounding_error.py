"""The bound on float32's error covers what float32 does, in the worst order too, and is of use."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from radii.models.classifier import Classifier
from radii.models.lipschitz._folding import fold
from radii.models.lipschitz.layer_bounds import LayerBound
from radii.models.lipschitz.network_bound import certified_network, lipschitz_bound
from radii.models.lipschitz.operators import convolution_operators, matrix_operator
from radii.models.lipschitz.rounding_error import LARGEST, Float32Error, float32_error
from radii.models.zoo.lipschitz_networks import FAMILIES, LipschitzConvNet


@pytest.mark.parametrize("layer", sorted(set(FAMILIES) - {"plain"}))
def test_every_family_is_covered(layer: str) -> None:
    torch.manual_seed(0)
    model = Classifier(LipschitzConvNet((1, 8, 8), 4, width=4, layer=layer, depth=1), mean=0.3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    model(torch.rand(2, 1, 8, 8))
    model.eval()
    bound, exact = lipschitz_bound(model, (1, 8, 8)), certified_network(model, (1, 8, 8))
    allowed = float32_error(exact, bound)
    x = torch.rand(500, 1, 8, 8)
    x[::2] = x[::2].round()
    with torch.no_grad():
        seen = float((fold(model, (1, 8, 8))(x).double() - exact(x.double())).norm(dim=1).max())
    assert 0 < seen <= allowed
    if layer == "aol":
        assert allowed < 0.005  # a radius of 36/255 loses 5% to it


def test_one_sum_in_the_worst_order() -> None:
    """Small terms after a large one are rounded away one by one: half of the bound is reached."""
    terms = 4097
    weight = torch.full((2, terms), 2.0**-25)
    weight[:, 0] = 1.0
    model = nn.Sequential(nn.Linear(terms, 2, bias=False))
    model[0].weight.data = weight
    exact = certified_network(model, (terms,))
    allowed = float32_error(exact, lipschitz_bound(model, (terms,)))
    total = np.float32(0)
    for term in weight[0].numpy():
        total += term
    lost = 2**0.5 * (float(weight[0].double().sum()) - float(total))  # both logits alike
    assert 1e-4 < lost <= allowed
    here = Float32Error.around(exact, lipschitz_bound(model, (terms,)).layers, torch.ones(1, terms).double())
    assert lost <= float(here.fixed) <= 2.1 * lost


def test_nothing_on_the_way_overflows_within_the_distance() -> None:
    """Neither a sum, whose size grows with the distance, nor what a layer computes before it, as an average's total."""
    most, inputs = torch.finfo(torch.float32).max, torch.tensor([0.0, 3.0, 1e37]).double()
    for peak, offset in ((0.0, 0.0), (9.0, 2e38), (1e9, 0.0)):
        layer = LayerBound(1.0, absolute=2.0, terms=4, peak=peak, peak_offset=offset)
        error = Float32Error.none(inputs[:, None]).after(layer, 2 * inputs, 1.5, inputs)
        assert (2 * inputs + 2 * 1.5 * error.most <= most).all()
        there = peak * (inputs + 1.5 * error.most) + offset
        assert (there <= most)[error.most > 0].all()
        reached = (LARGEST - 2 * inputs) / 3
        reached = torch.minimum(reached, (LARGEST - peak * inputs - offset) / (1.5 * peak)) if peak else reached
        torch.testing.assert_close(error.most, reached.clamp_min(0), rtol=1e-6, atol=0)


def test_too_long_sums_have_no_bound() -> None:
    model = nn.Sequential(nn.Linear(170_000, 1, bias=False))
    bound = lipschitz_bound(model, (170_000,), prove=False)
    assert float32_error(certified_network(model, (170_000,)), bound) == float("inf")


def test_the_norm_of_absolute_values_is_bounded_closely() -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(30, 20, generator=generator, dtype=torch.float64)
    truth = float(torch.linalg.matrix_norm(weight.abs(), 2))
    assert truth <= matrix_operator(weight).absolute <= truth * (1 + 1e-4)
    kernel = torch.randn(3, 2, 3, 3, generator=generator, dtype=torch.float64)
    basis = torch.eye(2 * 25, dtype=torch.float64).view(-1, 2, 5, 5)
    unrolled = nn.functional.conv2d(basis, kernel.abs(), padding=1).flatten(1)
    (operator,) = convolution_operators(kernel, (5, 5), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    assert float(torch.linalg.matrix_norm(unrolled, 2)) <= operator.absolute
    assert matrix_operator(torch.zeros(3, 4)).absolute == 0.0
