"""The isometric network: shapes, proofs, certificates that attacks cannot break, bundles and exports."""

from __future__ import annotations

import copy
import json
from math import prod
from pathlib import Path

import pytest
import torch
from torch import nn

from radii.attacks.pgd import PGD
from radii.certificates.lipschitz import certify
from radii.errors import InputError
from radii.models.io.bundle import Architecture, initialize, load_bundle, save_bundle
from radii.models.io.export import export
from radii.models.layers.isometry import IsometricLayer
from radii.models.layers.last_layers import UnitRows
from radii.models.layers.plain_layers import BlockedLinear, BlockedPointwise, TokenMix
from radii.models.layers.weightless import OverlappingPatches
from radii.models.lipschitz.layer_bounds import bound_layer
from radii.models.lipschitz.network_bound import lipschitz_bound
from radii.models.lipschitz.operators import matrix_operator, near_isometry_norm
from radii.models.zoo.isometric import Isometric
from radii.threat import Ball

SHAPES = [
    ((3, 32, 32), {}, (8, 8)),
    ((1, 28, 28), {"tokens": 2}, (2, 2)),
    ((1, 28, 28), {"tokens": 8}, (7, 7)),
    ((3, 20, 33), {"tokens": 8}, (4, 7)),
    ((1, 8, 8), {"tokens": 1}, (1, 1)),
    ((3, 16, 16), {"tokens": 8, "stages": 2, "shift": 4}, (4, 4)),
    ((3, 16, 16), {"tokens": 4, "mix": 4}, (4, 4)),
    ((1, 12, 20), {"tokens": 4, "stages": 2, "mix": 2}, (2, 2)),
    ((1, 8, 8), {"tokens": 1, "mix": 4}, (1, 1)),
    ((3, 16, 24), {"tokens": 6, "overlap": 1}, (4, 6)),
    ((1, 28, 28), {"tokens": 8, "overlap": 2, "mix": 4}, (7, 7)),
]


@pytest.mark.parametrize(("shape", "arguments", "grid"), SHAPES)
def test_any_image_becomes_tokens(shape: tuple[int, ...], arguments: dict[str, int], grid: tuple[int, int]) -> None:
    torch.manual_seed(0)
    model = Isometric(shape, 7, width=16, **arguments)
    features = nn.Sequential(*list(model)[:-2])(torch.rand(2, *shape))
    assert tuple(features.shape[2:]) == grid
    bound = lipschitz_bound(model, shape)
    assert bound.is_proved
    assert 1 - 1e-6 < bound.features < 1 + 1e-5
    assert float(bound.pairs.max()) <= 2 + 1e-5


def test_features_are_one_token() -> None:
    torch.manual_seed(0)
    model = Isometric((13,), 4, width=20, depth=3)
    assert model(torch.rand(5, 13)).shape == (5, 4)
    assert lipschitz_bound(model, (13,)).features < 1 + 1e-5


def test_a_wide_network_without_dropped_tokens_keeps_every_distance_of_its_linear_part() -> None:
    """Without shifts and with large biases the layers are an isometry: distances of features are those of pixels."""
    torch.manual_seed(1)
    model = Isometric((1, 8, 8), 3, width=32, depth=3, tokens=2, shift=0).double()
    for part in model:
        if hasattr(part, "position"):
            nn.init.constant_(part.bias, 50.0)
    features = nn.Sequential(*list(model)[:-1])
    x, y = torch.rand(2, 4, 1, 8, 8, dtype=torch.float64)
    assert torch.allclose((features(x) - features(y)).norm(dim=1), (x - y).flatten(1).norm(dim=1), rtol=1e-5)


def test_a_matrix_that_is_not_orthogonal_is_bounded_by_what_it_is() -> None:
    model = Isometric((6,), 3, width=8, depth=1)
    with torch.no_grad():
        model[0].weight.mul_(3)
    assert lipschitz_bound(model, (6,)).features == pytest.approx(3, rel=1e-5)


@pytest.mark.parametrize("shape", [(40, 12), (12, 40), (30, 30)])
def test_the_defect_bounds_the_norm(shape: tuple[int, int]) -> None:
    torch.manual_seed(2)
    for noise in (0.0, 1e-7, 1e-5):
        weight = nn.init.orthogonal_(torch.empty(shape)) + noise * torch.randn(shape)
        bound = near_isometry_norm(matrix_operator(weight))
        assert bound is not None
        assert float(torch.linalg.matrix_norm(weight.double(), 2)) <= bound <= 1 + 1e-6 + 200 * noise
    assert near_isometry_norm(matrix_operator(torch.randn(shape))) is None
    assert near_isometry_norm(matrix_operator(torch.full(shape, torch.nan))) is None


def test_a_mixture_of_tokens_is_one_matrix_for_every_mixed_channel() -> None:
    torch.manual_seed(5)
    layer = TokenMix(3, nn.Parameter(torch.randn(12, 12, dtype=torch.float64)))
    x = torch.rand(2, 8, 3, 4, dtype=torch.float64)
    mixed = layer(x)
    assert torch.equal(mixed[:, :5], x[:, :5])
    by_hand = torch.einsum("ts,ncs->nct", layer.weight, x[:, 5:].flatten(2)).view(2, 3, 3, 4)
    torch.testing.assert_close(mixed[:, 5:], by_hand)
    norm = float(torch.linalg.matrix_norm(layer.weight.detach(), 2))
    assert bound_layer("mix", layer, (8, 3, 4), True).value == pytest.approx(norm, rel=1e-3)
    nn.init.zeros_(layer.weight)
    assert bound_layer("mix", layer, (8, 3, 4), True).value == 1.0  # the other channels stay
    with pytest.raises(InputError, match="12 tokens and at least 3 channels"):
        layer(torch.rand(1, 8, 4, 4))


def test_overlapping_patches_keep_lengths() -> None:
    """An image whose edge is black keeps its norm; the bound is what the matrix of the whole map has."""
    torch.manual_seed(6)
    for patch, border, size in ((4, 1, (8, 12)), (4, 2, (8, 8)), (3, 1, (6, 6)), (2, 0, (4, 4))):
        layer = OverlappingPatches(patch, border).double()
        x = torch.zeros(3, 2, *size, dtype=torch.float64)
        inside = (slice(None), slice(None), *(slice(border, side - border) for side in size))
        x[inside] = torch.rand_like(x[inside])
        tokens = layer(x)
        assert tokens.shape == (3, 2 * (patch + 2 * border) ** 2, size[0] // patch, size[1] // patch)
        torch.testing.assert_close(tokens.flatten(1).norm(dim=1), x.flatten(1).norm(dim=1), rtol=1e-6, atol=0)
        units = torch.eye(prod(size), dtype=torch.float64).view(-1, 1, *size)
        norm = float(torch.linalg.matrix_norm(layer(units).flatten(1), 2))
        value = bound_layer("patches", layer, (1, *size), True).value
        assert norm <= value <= 1 + 1e-6
    with pytest.raises(InputError, match="half of a patch, got 2"):
        OverlappingPatches(3, 2)
    with pytest.raises(InputError, match="must divide the image"):
        OverlappingPatches(3, 1)(torch.rand(1, 1, 8, 8))


@pytest.mark.parametrize("arguments", [{}, {"mix": 2}, {"overlap": 1}])
def test_no_attack_breaks_the_certificate(arguments: dict[str, int]) -> None:
    torch.manual_seed(3)
    model = Isometric((1, 8, 8), 4, width=32, tokens=4, shift=4, **arguments)
    for part in model:
        if isinstance(part, TokenMix):
            nn.init.orthogonal_(part.weight)
    x = torch.rand(60, 1, 8, 8)
    certificate = certify(model, x)
    assert float(certificate.radius.median()) > 1e-4
    broken = {0.999: 0, 30.0: 0}
    for share in broken:
        for row in range(0, 60, 6):
            ball = Ball("l2", share * float(certificate.radius[row]), None)
            point, label = x[row : row + 1], certificate.prediction[row : row + 1]
            broken[share] += int(PGD(20, 0.2)(model, point, label, ball, torch.Generator().manual_seed(0)).broken)
    assert broken[0.999] == 0
    assert broken[30.0] > 0  # the attack can break something


def test_bundle_and_export(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    card = Architecture(
        name="isometric",
        arguments={"width": 16, "tokens": 4, "shift": 4, "depth": 2, "mix": 4, "overlap": 1},
        input_shape=(3, 10, 10),
        classes=tuple("abc"),
        mean=(0.4, 0.5, 0.6),
    )
    model = initialize(card, 0)
    save_bundle(tmp_path, model, card)
    again, _ = load_bundle(tmp_path)
    x = torch.rand(5, 3, 10, 10)
    assert torch.equal(again(x), model.eval()(x))
    told = export(again, tmp_path / "net.onnx", (3, 10, 10))
    assert told["certificate"]["features"] < 1 + 1e-5
    session = runtime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    logits = session.run(None, {"pixels": x.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(logits), model(x).detach(), rtol=1e-4, atol=1e-5)
    stored = json.loads(onnx.load(tmp_path / "net.onnx").metadata_props[0].value)
    assert stored["certificate"]["digest"] == lipschitz_bound(again, (3, 10, 10)).digest


def test_sums_over_blocks_are_the_same_function_with_less_rounding() -> None:
    torch.manual_seed(4)
    head = BlockedLinear(60, 7, block=12)
    x = torch.randn(5, 60)
    torch.testing.assert_close(head(x), nn.functional.linear(x, head.weight, head.bias))
    unit = UnitRows(60, 7, block=12)
    assert torch.equal(unit.folded()(x), unit(x))
    torch.testing.assert_close(unit.effective_weight().norm(dim=1), torch.ones(7))
    # the counted terms bound the error that float32 really makes, on sums without cancellation
    wide = UnitRows(8192, 3, block=128)
    with torch.no_grad():
        wide.weight.uniform_(0.5, 1)
    plain, x = wide.folded(), torch.rand(4, 8192)
    layer = bound_layer("head", plain.double(), (8192,), True)
    assert layer.terms == 128 + 64 + 2
    exact = plain(x.double()) - plain.bias
    error = (plain.float()(x) - plain.bias).double() - exact
    assert bool((error.abs() <= 1.01 * layer.terms * 2.0**-24 * exact.abs()).all())
    with pytest.raises(InputError, match="block must divide the 60 inputs"):
        BlockedLinear(60, 7, block=7)


@pytest.mark.parametrize("shape", [(192, 4, 4), (192,)])
def test_eval_mode_sums_over_blocks_of_channels(shape: tuple[int, ...]) -> None:
    """The same function with less rounding: float32 errs by less than is counted, in the fused layer too."""
    torch.manual_seed(7)
    layer = IsometricLayer(192, 32, shift=0)
    x = torch.rand(3, *shape)
    trained = layer(x)
    torch.testing.assert_close(layer.eval()(x), trained)
    plain = layer.folded_for(shape)
    torch.testing.assert_close(plain(x), trained)
    matrix = plain[0]
    assert bound_layer("matrix", copy.deepcopy(matrix).double(), shape, True).terms == 64 + 3 + 2
    with torch.no_grad():  # positive terms, so that sizes are sums
        for part in (layer, matrix):
            part.weight.uniform_(0.5, 1, generator=torch.Generator().manual_seed(1))
    exact = copy.deepcopy(matrix).double()(x.double())
    for computed in (matrix(x), layer(x)):
        error = (computed.double() - exact).abs()
        assert bool((error <= 1.01 * (64 + 3 + 2) * 2.0**-24 * exact).all())
    with pytest.raises(InputError, match="block must divide the 192 channels"):
        BlockedPointwise(192, 32, 7)


def test_sizes_and_refusals() -> None:
    model = Isometric((3, 32, 32), 10)
    matrices = 48 * 128 + 3 * 128 * 128 + 4 * 128 + 64 * 128
    assert sum(value.numel() for value in model.parameters()) == matrices + 10 * (prod((8, 8, 128)) + 1)
    for wrong, message in (
        ({"tokens": 40}, "tokens must be at most 32"),
        ({"tokens": 9, "stages": 2}, "a multiple of 2"),
        ({"shift": 3}, "shift 0 or at least 4"),
        ({"mix": -1}, "mix at least 0"),
        ({"width": 15}, "even number of channels"),
    ):
        with pytest.raises(InputError, match=message):
            Isometric((3, 32, 32), 10, **wrong)
    with pytest.raises(InputError, match="no second stage"):
        Isometric((7,), 2, stages=2)
    with pytest.raises(InputError, match=r"images \[c, h, w\] or features"):
        Isometric((7, 7), 2)
