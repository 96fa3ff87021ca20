"""AOL: the fast row sums are the textbook's, and the layers are 1-Lipschitz and never stale."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.models.layers import _autocorrelation as autocorrelation
from radii.models.layers._autocorrelation import row_sums
from radii.models.layers.aol import AOLConv2d, AOLLinear, rescaled


def textbook_sums(kernel: Tensor) -> Tensor:
    """The formula as the authors write it: the kernel padded and convolved with itself."""
    flipped = kernel.transpose(0, 1)
    padding = (kernel.shape[2] - 1, kernel.shape[3] - 1)
    return F.conv2d(flipped, flipped, padding=padding).abs().sum((1, 2, 3))


def textbook_rescaled(kernel: Tensor) -> Tensor:
    return kernel * (textbook_sums(kernel) + 1e-6).rsqrt()[None, :, None, None]


def kernel_of(out: int, into: int, height: int, width: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(out * 1000 + into * 100 + height * 10 + width)
    return torch.randn(out, into, height, width, generator=generator, dtype=torch.float64).to(dtype)


SHAPES = [
    (4, 6, 3, 3),
    (6, 4, 1, 3),
    (5, 5, 2, 2),
    (3, 2, 5, 5),
    (64, 64, 3, 3),
    (48, 80, 3, 3),
    (300, 270, 1, 1),
    (4, 4, 1, 7),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_row_sums_are_the_textbooks(shape: tuple[int, int, int, int]) -> None:
    kernel = kernel_of(*shape)
    torch.testing.assert_close(row_sums(kernel)[0], textbook_sums(kernel), rtol=1e-13, atol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_rescaled_weights_equal_the_textbook_in_float32(shape: tuple[int, int, int, int]) -> None:
    kernel = kernel_of(*shape, dtype=torch.float32)
    exact = textbook_rescaled(kernel.double())
    assert float((rescaled(kernel).double() - exact).abs().max()) < 1e-6
    assert (
        float(((row_sums(kernel)[0] - textbook_sums(kernel.double())) / textbook_sums(kernel.double())).abs().max())
        < 1e-6
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradient_is_autograds(shape: tuple[int, int, int, int]) -> None:
    kernel = kernel_of(*shape).requires_grad_()
    direction = kernel_of(*shape).flip(0)
    (expected,) = torch.autograd.grad((textbook_rescaled(kernel) * direction).sum(), kernel)
    (found,) = torch.autograd.grad((rescaled(kernel) * direction).sum(), kernel)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_second_backward_gives_the_same_gradient(shape: tuple[int, int, int, int]) -> None:
    """What backward reads it must not overwrite."""
    kernel = kernel_of(*shape).requires_grad_()
    total = (rescaled(kernel) * kernel_of(*shape).flip(0)).sum()
    first, second = (torch.autograd.grad(total, kernel, retain_graph=True)[0] for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    layer = AOLLinear(shape[1], shape[0]).double()
    layer.weight.data = kernel.detach()[:, :, 0, 0].clone()
    x = torch.randn(3, shape[1], dtype=torch.float64, requires_grad=True)
    total = layer(x).square().sum()
    first, second = (torch.autograd.grad(total, layer.weight, retain_graph=True)[0] for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


WIDE = [(520, 531), (20, 513), (530, 512)]


@pytest.mark.parametrize("shape", WIDE)
@pytest.mark.parametrize("columns", [0, 5])
def test_wide_layers_have_autograds_gradient_in_float32(shape: tuple[int, int], columns: int) -> None:
    """Signs by tables, and by a product where many are zero: the derivative of |0| is 0."""
    weight = kernel_of(*shape, 1, 1, torch.float32)
    weight[:10, columns:] *= columns == 0  # some columns are orthogonal to all others
    weight[10:, :columns] = 0
    exact = weight.double().requires_grad_()
    direction = kernel_of(*shape, 1, 1).flip(0)
    (expected,) = torch.autograd.grad((textbook_rescaled(exact) * direction).sum(), exact)
    weight.requires_grad_()
    (found,) = torch.autograd.grad((rescaled(weight) * direction.float()).sum(), weight)
    assert float((found - expected).norm() / expected.norm()) < 1e-5
    layer = AOLLinear(shape[1], shape[0], bias=False)
    layer.weight.data = weight.detach().flatten(1)
    (layer.compute_effective_weight() * direction.float().flatten(1)).sum().backward()
    torch.testing.assert_close(layer.weight.grad, found.flatten(1))


def test_a_wide_matrix_is_scaled_on_its_output_side_too() -> None:
    layer = AOLLinear(40, 530, side="output")
    nn.init.normal_(layer.weight)
    direction = torch.randn(530, 40)
    (found,) = torch.autograd.grad((layer.compute_effective_weight() * direction).sum(), layer.weight)
    exact = layer.weight.detach().double().T[:, :, None, None].requires_grad_()
    (expected,) = torch.autograd.grad((textbook_rescaled(exact) * direction.double().T[:, :, None, None]).sum(), exact)
    assert float((found.T - expected.flatten(1)).norm() / expected.norm()) < 1e-5


def test_both_algorithms_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of(8, 8, 3, 3)
    small = rescaled(kernel)
    monkeypatch.setattr(autocorrelation, "TOOM_FROM_CHANNELS", 2)
    torch.testing.assert_close(rescaled(kernel), small, rtol=1e-12, atol=1e-14)


@settings(max_examples=25, deadline=None)
@given(
    channels=st.integers(1, 3),
    out=st.integers(1, 3),
    groups=st.integers(1, 2),
    taps=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding=st.integers(0, 3),
    size=st.integers(4, 7),
    mode=st.sampled_from(["zeros", "circular"]),
)
def test_conv_is_one_lipschitz(
    channels: int, out: int, groups: int, taps: int, stride: int, padding: int, size: int, mode: str
) -> None:
    if mode == "circular":
        stride, padding = 1, (taps - 1) // 2
    layer = AOLConv2d(
        channels * groups, out * groups, taps, stride, padding, groups=groups, bias=False, padding_mode=mode
    ).double()
    nn.init.normal_(layer.weight)
    into = channels * groups
    columns = layer(torch.eye(into * size * size, dtype=torch.float64).view(-1, into, size, size)).flatten(1)
    assert float(torch.linalg.matrix_norm(columns.detach(), 2)) <= 1 + 1e-12


def test_linear_sides() -> None:
    for side in ("input", "output"):
        layer = AOLLinear(7, 4, side=side).double()
        nn.init.normal_(layer.weight)
        weight = layer.effective_weight()
        assert float(torch.linalg.matrix_norm(weight.detach(), 2)) <= 1
        used = layer.weight if side == "input" else layer.weight.T
        expected = used * ((used.T @ used).abs().sum(1) + 1e-6).rsqrt()
        torch.testing.assert_close(weight, expected if side == "input" else expected.T)


def test_wide_layers_can_be_exported() -> None:
    """Tracing has no numbers for compiled loops to read."""
    layer = AOLLinear(300, 290).eval()
    nn.init.normal_(layer.weight)
    x = torch.randn(2, 300)
    torch.testing.assert_close(torch.export.export(layer, (x,)).module()(x), layer(x))


def test_initialization_is_the_identity() -> None:
    x = torch.randn(2, 4, 5, 5)
    torch.testing.assert_close(AOLConv2d(4, 4, 3, padding=1)(x), x, rtol=1e-5, atol=1e-5)
    flat = torch.randn(3, 6)
    torch.testing.assert_close(AOLLinear(6, 6)(flat), flat, rtol=1e-5, atol=1e-5)


def test_nothing_is_ever_stale() -> None:
    """Each line fails in a peer: cached kernels after loading, writes in eval mode, copies, dtypes."""
    layer = AOLConv2d(4, 4, 3, padding=1).eval()
    x = torch.randn(2, 4, 5, 5)
    with torch.no_grad():
        layer(x)
        other = AOLConv2d(4, 4, 3, padding=1)
        nn.init.normal_(other.weight)
        fresh = other(x)
        layer.load_state_dict(other.state_dict())
        torch.testing.assert_close(layer(x), fresh)
        layer.weight.data.mul_(-1)  # does not even change the version counter
        torch.testing.assert_close(layer(x), -fresh, rtol=1e-5, atol=1e-5)
        clone = copy.deepcopy(layer)
        clone.weight.mul_(-1)
        torch.testing.assert_close(clone(x), fresh)
        torch.testing.assert_close(layer(x), -fresh)
        average = copy.deepcopy(layer)
        for slow, fast in zip(average.parameters(), other.parameters(), strict=True):
            slow.lerp_(fast, 1.0)
        torch.testing.assert_close(average(x), fresh)
        double = layer.double()(x.double())
        torch.testing.assert_close(double.float(), -fresh)
        assert double.dtype == torch.float64
        assert layer(torch.randn(1, 4, 9, 3).double()).shape == (1, 4, 9, 3)


def test_a_second_backward_in_eval_mode_works() -> None:
    layer = AOLConv2d(4, 4, 3, padding=1).eval()
    for _ in range(2):
        x = torch.randn(1, 4, 5, 5, requires_grad=True)
        layer(x).square().sum().backward()
        assert x.grad is not None
        assert layer.weight.grad is not None


def test_folding_gives_the_same_outputs() -> None:
    layer = AOLConv2d(4, 6, 3, 2, 1, groups=2)
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    x = torch.randn(3, 4, 7, 7)
    plain = layer.folded()
    assert type(plain) is nn.Conv2d
    torch.testing.assert_close(plain(x), layer(x), rtol=0, atol=1e-6)


def test_padding_that_stretches_is_refused() -> None:
    with pytest.raises(InputError, match="padding_mode must be zeros or circular"):
        AOLConv2d(2, 2, 3, padding=1, padding_mode="reflect")
    with pytest.raises(InputError, match="side must be"):
        AOLLinear(2, 2, side="both")


def test_orthogonium_computes_the_same_rescaling() -> None:
    """An independent library, which rescales outputs: ours of the transposed kernel."""
    peer = pytest.importorskip("orthogonium.layers.conv.AOL.aol")
    kernel = kernel_of(6, 6, 3, 3)
    theirs = peer.AOLReparametrizer(6, 1).double()(kernel)
    ours = rescaled(kernel.transpose(0, 1)).transpose(0, 1)
    torch.testing.assert_close(ours, theirs.detach(), rtol=0, atol=1e-8)  # they have no guard of 1e-6
