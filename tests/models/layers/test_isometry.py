"""The isometric layer: its fused function, its parts, its gradients of all kinds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck

from radii.errors import InputError
from radii.models.layers.isometry import IsometricLayer
from radii.models.layers.orthogonal import (
    OrthogonalParameter,
    orthogonality_defect,
    polar_factor,
    retract,
    tangent,
)
from radii.models.layers.weightless import FlattenTokens, HalfAbs, TokenShift, shift_tokens_


def _by_loops(layer: IsometricLayer, x: Tensor) -> Tensor:
    """The layer's definition, number by number."""
    n, _, rows, columns = x.shape
    d, s = layer.out_channels, layer.shift
    z = torch.zeros(n, d, rows, columns, dtype=x.dtype)
    for r in range(rows):
        for c in range(columns):
            value = x[:, :, r, c] @ layer.weight.T + layer.bias
            if layer.position is not None:
                value = value + layer.position[:, r, c]
            z[:, :, r, c] = torch.cat((value[:, : d // 2].abs(), value[:, d // 2 :]), 1)
    result = z.clone()
    for place, (down, right) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
        part = slice(d - (4 - place) * s, d - (3 - place) * s)
        result[:, part] = 0
        for r in range(rows):
            for c in range(columns):
                if 0 <= r - down < rows and 0 <= c - right < columns:
                    result[:, part, r, c] = z[:, part, r - down, c - right]
    return result


@pytest.mark.parametrize(("shift", "size"), [(0, None), (1, (3, 4)), (2, None)])
def test_the_fused_layer_is_its_definition(shift: int, size: tuple[int, int] | None) -> None:
    torch.manual_seed(0)
    layer = IsometricLayer(5, 8, shift=shift, size=size)
    nn.init.normal_(layer.bias)
    if layer.position is not None:
        nn.init.normal_(layer.position)
    x = torch.randn(2, 5, 3, 4)
    torch.testing.assert_close(layer(x), _by_loops(layer, x))
    torch.testing.assert_close(layer.folded_for((5, 3, 4))(x), _by_loops(layer, x))


@pytest.mark.parametrize("shape", [(2, 3, 2, 3), (2, 3)])
def test_first_and_second_derivatives(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    images = len(shape) == 4
    layer = IsometricLayer(3, 8, shift=2 if images else 0, size=(2, 3) if images else None).double()
    x = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    parameters = dict(layer.named_parameters())

    def function(x: Tensor, *values: Tensor) -> Tensor:
        # plain attributes, so that the fused function runs, which torch.func would replace
        for name, value in zip(parameters, values, strict=True):
            layer._parameters.pop(name, None)
            setattr(layer, name, value)
        return layer(x)

    values = [value.detach().clone().requires_grad_() for value in parameters.values()]
    assert gradcheck(function, (x, *values))
    assert gradgradcheck(function, (x, *values))


def test_torch_func_sees_the_same_function() -> None:
    torch.manual_seed(2)
    layer = IsometricLayer(3, 8, shift=1, size=(2, 2))
    x = torch.randn(4, 3, 2, 2)
    parameters = {name: value.detach() for name, value in layer.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(layer, parameters, (x[None],)).square().sum()

    per_sample = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
    layer(x).square().sum().backward()
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(per_sample[name].sum(0), parameter.grad)
    jacobian = torch.func.jacrev(lambda x: layer(x[None])[0])(x[0])
    assert jacobian.shape == (8, 2, 2, 3, 2, 2)


def test_inputs_and_gradients_of_others_are_left_alone() -> None:
    torch.manual_seed(3)
    layer = IsometricLayer(4, 4, shift=1)
    x = torch.randn(2, 4, 3, 3, requires_grad=True)
    kept = x.detach().clone()
    result = layer(x)
    gradient = torch.randn_like(result)
    before = gradient.clone()
    result.backward(gradient)
    assert torch.equal(gradient, before)
    assert torch.equal(x, kept)


def test_autocast_does_not_lower_the_precision() -> None:
    torch.manual_seed(4)
    layer = IsometricLayer(4, 4)
    x = torch.randn(2, 4, 3, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer(x), layer(x.clone()))
        inside = layer(x)
    assert torch.equal(inside, layer(x))


@pytest.mark.parametrize(("rows", "columns"), [(8, 5), (5, 8), (6, 6)])
def test_steps_on_the_manifold(rows: int, columns: int) -> None:
    torch.manual_seed(5)
    weight = torch.linalg.qr(torch.randn(max(rows, columns), min(rows, columns), dtype=torch.float64))[0]
    weight = weight if rows >= columns else weight.T
    direction = tangent(weight, torch.randn(rows, columns, dtype=torch.float64))
    # moving along the tangent changes the Gram matrix in second order only
    for step in (1e-3, 1e-4):
        assert orthogonality_defect(weight + step * direction) < 40 * step**2
        assert orthogonality_defect(retract(weight + step * direction)) < 1000 * step**4 + 1e-14
    singular = torch.linalg.svdvals(polar_factor(torch.randn(rows, columns)))
    assert float(singular.min()) > 0.6
    assert float(singular.max()) < 1.3


def test_the_start_is_orthogonal_and_copies_stay_marked() -> None:
    import copy

    layer = IsometricLayer(6, 10)
    assert orthogonality_defect(layer.weight) < 1e-5
    assert isinstance(copy.deepcopy(layer).weight, OrthogonalParameter)
    assert isinstance(copy.deepcopy(layer).double().weight, OrthogonalParameter)


def test_parts_are_what_they_say() -> None:
    x = torch.randn(2, 9, 4, 5)
    moved = TokenShift(2)(x)
    shift_tokens_(in_place := x.clone(), 2)
    assert torch.equal(in_place, moved)
    y = torch.randn_like(x)
    shift_tokens_(back := y.clone(), 2, back=True)
    torch.testing.assert_close((moved * y).sum(), (x * back).sum())  # the transpose
    assert torch.equal(HalfAbs()(x[:, :8])[:, 4:], x[:, 4:8])
    assert FlattenTokens()(x).shape == (2, 180)
    assert torch.equal(FlattenTokens()(x)[:, :9], x[:, :, 0, 0])


def test_refusals() -> None:
    with pytest.raises(InputError, match="even number of channels, got 5"):
        IsometricLayer(3, 5)
    with pytest.raises(InputError, match="a quarter of the channels, got 3"):
        IsometricLayer(3, 8, shift=3)
    with pytest.raises(InputError, match="takes 3 channels, got 4"):
        IsometricLayer(3, 8)(torch.zeros(1, 4))
    with pytest.raises(InputError, match="needs images with 8 channels"):
        TokenShift(2)(torch.zeros(1, 4, 2, 2))
