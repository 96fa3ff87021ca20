"""Every family of layers: its constant is what it states, it folds exactly, and it has no hidden state."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from math import prod

import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from radii.certificates.lipschitz import certify
from radii.errors import InputError
from radii.models.layers.aol import AOLConv2d, AOLLinear
from radii.models.layers.last_layers import MarginHead
from radii.models.layers.orthogonal import OrthogonalConv2d, OrthogonalLinear, SOCConv2d
from radii.models.layers.plain_layers import residual_step
from radii.models.layers.residual import CPLConv2d, CPLLinear, LinearResidualConv2d, SLLConv2d, SLLLinear
from radii.models.layers.weightless import MaxMin
from radii.models.lipschitz._folding import fold
from radii.models.lipschitz.network_bound import lipschitz_bound
from radii.models.zoo.lipschitz_networks import FAMILIES, LipschitzConvNet

LAYERS = {
    "cpl": (lambda: CPLConv2d(3, 3), (3, 5, 4)),
    "cpl-wide": (lambda: CPLConv2d(3, 3, hidden_channels=5), (3, 5, 4)),
    "cpl-linear": (lambda: CPLLinear(6, 4), (6,)),
    "sll": (lambda: SLLConv2d(3, 3), (3, 5, 4)),
    "sll-linear": (lambda: SLLLinear(6, 9), (6,)),
    "orthogonal": (lambda: OrthogonalConv2d(4, 4, 3, padding=1), (4, 5, 4)),
    "orthogonal-strided": (lambda: OrthogonalConv2d(4, 8, 3, 2, 1), (4, 6, 4)),
    "orthogonal-linear": (lambda: OrthogonalLinear(6, 4), (6,)),
    "soc": (lambda: SOCConv2d(3, 3), (3, 5, 4)),
}


def randomized(layer: nn.Module, shape: tuple[int, ...], seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    layer(torch.rand(2, *shape, generator=generator))  # a training forward, as layers with a warm start get
    return layer


def steepest(layer: nn.Module, shape: tuple[int, ...]) -> float:
    """The largest norm of the derivative at some points."""
    generator = torch.Generator().manual_seed(1)
    largest = 0.0
    for scale in (0.1, 1.0, 10.0):
        x = scale * torch.randn(shape, generator=generator, dtype=torch.float64)
        jacobian = torch.autograd.functional.jacobian(lambda flat: layer(flat.view(1, *shape)).flatten(), x.flatten())
        largest = max(largest, float(torch.linalg.matrix_norm(jacobian, 2)))
    return largest


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_one_lipschitz_in_eval_mode(name: str) -> None:
    make, shape = LAYERS[name]
    layer = randomized(make(), shape).double().eval()
    assert steepest(layer, shape) <= 1 + 3e-6
    bound = lipschitz_bound(nn.Sequential(layer, nn.Flatten()), shape)
    assert bound.is_proved
    assert steepest(layer, shape) <= bound.value <= 1 + 1e-5


def _any_layer(data: st.DataObject) -> tuple[nn.Module, tuple[int, ...]]:
    """A layer that states the constant 1, and the shape of its inputs, which may be smaller than its kernel."""
    channels, hidden, taps = (
        data.draw(st.integers(1, 4)),
        data.draw(st.integers(1, 9)),
        data.draw(st.sampled_from([1, 3, 5])),
    )
    image, flat = (channels, data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))), (channels * 3,)
    stride, padding = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 2))
    mode = data.draw(st.sampled_from(["zeros", "circular"]))
    makers: dict[str, Callable[[], tuple[nn.Module, tuple[int, ...]]]] = {
        "cpl": lambda: (CPLConv2d(channels, taps, hidden_channels=hidden), image),
        "cpl-linear": lambda: (CPLLinear(channels * 3, hidden), flat),
        "sll": lambda: (SLLConv2d(channels, taps, hidden_channels=hidden), image),
        "sll-linear": lambda: (SLLLinear(channels * 3, hidden), flat),
        "soc": lambda: (SOCConv2d(channels, taps, terms=12), image),
        "orthogonal": lambda: (OrthogonalConv2d(channels, hidden, taps, stride, padding, padding_mode=mode), image),
        "orthogonal-linear": lambda: (OrthogonalLinear(channels * 3, hidden), flat),
        "aol": lambda: (AOLConv2d(channels, hidden, taps, stride, padding, padding_mode=mode), image),
        "aol-linear": lambda: (
            AOLLinear(channels * 3, hidden, side=data.draw(st.sampled_from(["input", "output"]))),
            flat,
        ),
    }
    return makers[data.draw(st.sampled_from(sorted(makers)))]()


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_layer_on_any_image_is_one_lipschitz(data: st.DataObject) -> None:
    try:
        layer, shape = _any_layer(data)
        layer = randomized(layer, shape, seed=data.draw(st.integers(0, 1000))).double().eval()
    except (InputError, RuntimeError):  # a setting that is refused, or an image with no output
        reject()
    found = steepest(layer, shape)
    assert found <= 1 + 3e-6
    for prove in (True, False):
        assert lipschitz_bound(nn.Sequential(layer, nn.Flatten()), shape, prove=prove).value >= found * (1 - 1e-12)


@pytest.mark.parametrize("name", LAYERS)
def test_folding_gives_the_same_outputs(name: str) -> None:
    make, shape = LAYERS[name]
    layer = randomized(make(), shape).eval()
    x = torch.rand(4, *shape)
    torch.testing.assert_close(fold(layer, shape)(x), layer(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_nothing_is_hidden(name: str) -> None:
    """Loading, copying, casting, saving, moving averages, second backwards, other sizes: all give right answers."""
    make, shape = LAYERS[name]
    layer, other = randomized(make(), shape).eval(), randomized(make(), shape, seed=7).eval()
    x = torch.rand(3, *shape)
    with torch.no_grad():
        before, fresh = layer(x), other(x)
        assert not torch.allclose(before, fresh)
        clone = copy.deepcopy(layer)
        layer.load_state_dict(other.state_dict())
        torch.testing.assert_close(layer(x), fresh)
        torch.testing.assert_close(clone(x), before)
        average = copy.deepcopy(clone)
        for slow, fast in zip(
            [*average.parameters(), *average.buffers()], [*other.parameters(), *other.buffers()], strict=True
        ):
            slow.lerp_(fast, 1.0)
        torch.testing.assert_close(average(x), fresh)
        torch.testing.assert_close(copy.deepcopy(clone).double()(x.double()).float(), before, rtol=1e-4, atol=1e-5)
        file = io.BytesIO()
        torch.save(other, file)
        file.seek(0)
        torch.testing.assert_close(torch.load(file, weights_only=False)(x), fresh)
    for _ in range(2):
        leaf = x.clone().requires_grad_()
        other(leaf).square().sum().backward()
        assert leaf.grad is not None
    if len(shape) == 3:  # a larger image than was ever seen; a peer's layer is 3.8-Lipschitz there
        larger = (shape[0], shape[1] + 2, shape[2] + 4)
        assert steepest(copy.deepcopy(clone).double(), larger) <= 1 + 3e-6


def operator_matrix(layer: nn.Module, shape: tuple[int, ...]) -> Tensor:
    size = torch.Size(shape).numel()
    basis = torch.eye(size, dtype=torch.float64).view(size, *shape)
    with torch.no_grad():
        return (layer(basis) - layer(torch.zeros_like(basis))).flatten(1)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (OrthogonalConv2d(4, 4, 3, padding=1, padding_mode="circular"), (4, 5, 6)),
        (OrthogonalConv2d(3, 12, 2, 2), (3, 4, 6)),
        (OrthogonalConv2d(2, 8, 4, 2, 1, padding_mode="circular"), (2, 6, 4)),
        (OrthogonalLinear(5, 5), (5,)),
        (SOCConv2d(3, 3, terms=12), (3, 4, 5)),
    ],
    ids=["bcop", "patches", "strided", "cayley", "soc"],
)
def test_orthogonal_layers_keep_all_norms(layer: nn.Module, shape: tuple[int, ...]) -> None:
    """All singular values are 1; in a peer one layer's are all 0.707."""
    values = torch.linalg.svdvals(operator_matrix(randomized(layer, shape).double().eval(), shape))
    torch.testing.assert_close(values, torch.ones_like(values), rtol=0, atol=1e-8)


@pytest.mark.parametrize("stride", [2, 3])
def test_patches_that_do_not_tile_a_circular_image_are_refused(stride: int) -> None:
    """They overlap after one turn: with stride 2 on 5 x 7 pixels the norm would be up to 2."""
    layer = randomized(OrthogonalConv2d(2, 8, 3, stride, 1, padding_mode="circular"), (2, 6, 6)).double().eval()
    assert float(torch.linalg.matrix_norm(operator_matrix(layer, (2, 6, 12)), 2)) <= 1 + 1e-9
    bound = lipschitz_bound(nn.Sequential(layer, nn.Flatten()), (2, 6, 12))
    assert bound.is_proved
    assert bound.value <= 1 + 1e-6
    with pytest.raises(InputError, match=f"multiples of {stride}, got \\(5, 7\\)"):
        layer(torch.rand(1, 2, 5, 7, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(4, 3, 2), (4, 6, 6)])
def test_layers_can_be_differentiated_twice(shape: tuple[int, ...]) -> None:
    """As gradient penalties and Hessians need; on small images and larger ones, where the backward differs.

    Of CPL only in x: its norm holds the singular vector fixed, which is exact for one derivative in the weights.
    """
    torch.manual_seed(0)
    large = prod(shape) > 100  # along random directions, not along every coordinate
    layers = [MaxMin(), SLLConv2d(4, 3), AOLConv2d(4, 4, 3, padding=1)]
    flat = [MaxMin(), AOLLinear(4, 6), SLLLinear(4)]
    for parts, size in ((layers, shape), (flat, shape[:1])):
        for layer in parts:
            layer = layer.double().eval()
            x = torch.randn(2, *size, dtype=torch.float64, requires_grad=True)
            names = [name for name, _ in layer.named_parameters()]

            def called(x: Tensor, *values: Tensor, layer: nn.Module = layer, names: list[str] = names) -> Tensor:
                return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x,)).tanh()

            values = [torch.randn_like(value).requires_grad_() for value in layer.parameters()]
            assert torch.autograd.gradgradcheck(called, (x, *values), fast_mode=large), layer
    for potential, size in ((CPLConv2d(4, 3), shape), (CPLLinear(4), shape[:1])):
        x = torch.randn(2, *size, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradgradcheck(nn.Sequential(potential, nn.Tanh()).double().eval(), x, fast_mode=large)


def test_a_hessian_through_maxmin_is_not_lost() -> None:
    x = torch.tensor([[1.0, 3.0, 2.0, -1.0]])
    hessian = torch.autograd.functional.hessian(lambda v: MaxMin()(v).square().sum(), x)
    torch.testing.assert_close(hessian.view(4, 4), 2 * torch.eye(4))


class _Upper(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight.triu()


def test_parametrized_weights_are_trained_and_never_stale() -> None:
    layer, x = AOLLinear(6, 6, bias=False, side="output"), torch.rand(2, 6)
    nn.utils.parametrize.register_parametrization(layer, "weight", _Upper())
    assert layer(x).requires_grad
    with torch.no_grad():
        before = layer(x)
        layer.parametrizations.weight.original.add_(1)  # type: ignore[operator,union-attr]
        assert not torch.equal(layer(x), before)


def test_what_inference_mode_computed_can_be_used_in_a_backward() -> None:
    layer = AOLConv2d(4, 4, 3, padding=1).eval().requires_grad_(False)
    x = torch.rand(2, 4, 5, 5)
    with torch.inference_mode():
        layer(x)
    layer(x.requires_grad_()).sum().backward()
    assert x.grad is not None


def test_export_leaves_nothing_behind() -> None:
    layer, x = AOLConv2d(4, 4, 3, padding=1).eval(), torch.rand(2, 4, 5, 5)
    with torch.no_grad():
        before = layer(x)
        program = torch.export.export(layer, (x,))
        torch.testing.assert_close(program.module()(x), before)
        torch.testing.assert_close(layer(x), before)


@pytest.mark.parametrize("name", [*LAYERS, "aol", "aol-linear"])
@pytest.mark.parametrize("mode", [True, False])
def test_autocast_costs_digits_and_nothing_else(name: str, mode: bool) -> None:
    more = {
        "aol": (lambda: AOLConv2d(3, 4, 3, padding=1), (3, 5, 4)),
        "aol-linear": (lambda: AOLLinear(300, 6), (300,)),
    }
    make, shape = {**LAYERS, **more}[name]
    layer = randomized(make(), shape)
    layer(torch.rand(2, *shape))
    layer.train(mode)
    other, x = copy.deepcopy(layer), torch.rand(3, *shape)
    full = layer(x)
    full.square().sum().backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = other(x)
    rough.float().square().sum().backward()
    torch.testing.assert_close(rough.float(), full, rtol=0.1, atol=0.1)
    for exact, found in zip(layer.parameters(), other.parameters(), strict=True):
        assert exact.grad is not None
        assert found.grad is not None
        assert float((found.grad - exact.grad).norm()) <= 0.1 * float(exact.grad.norm()) + 1e-2


def test_the_gradient_of_soc_is_exact() -> None:
    """Also of the divisor that keeps the exponent small."""
    torch.manual_seed(0)
    layer = SOCConv2d(2, 3).double()
    weight = 3 * layer.weight.detach()
    x = torch.randn(1, 2, 3, 3, dtype=torch.float64)
    called = lambda weight: torch.func.functional_call(layer, {"weight": weight}, (x,))  # noqa: E731
    assert torch.autograd.gradcheck(called, weight.requires_grad_())


@pytest.mark.parametrize("layer", [CPLConv2d(3, 3), LinearResidualConv2d(3, 3)])
def test_weights_from_before_the_first_forward_can_be_loaded(layer: nn.Module) -> None:
    before = copy.deepcopy(layer.state_dict())
    layer(torch.rand(2, 3, 5, 5))
    layer.load_state_dict(before)
    fresh = copy.deepcopy(layer).eval()
    torch.testing.assert_close(layer.eval()(torch.ones(1, 3, 5, 5)), fresh(torch.ones(1, 3, 5, 5)))


def test_shapes_and_settings_that_do_not_fit_are_named() -> None:
    with pytest.raises(InputError, match="SLLConv2d takes"):
        SLLConv2d(3, 3)(torch.rand(3, 5, 5))
    with pytest.raises(InputError, match="whole numbers"):
        OrthogonalConv2d(4, 4, (3, 3))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the stride at least 1"):
        OrthogonalConv2d(4, 4, 3, 0)
    with pytest.raises(InputError, match="an odd number"):
        CPLConv2d(3, (3, 3))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="blocks must be at most 4 for 8 x 8"):
        LipschitzConvNet((1, 8, 8), 10, blocks=5)
    assert AOLLinear(4, 3)(torch.rand(4)).shape == (3,)


def test_layers_print_what_they_are() -> None:
    assert repr(CPLLinear(6, 4, bias=False)) == "CPLLinear(weight=(4, 6))"
    assert repr(OrthogonalConv2d(4, 8, 3, 2, 1)).startswith("OrthogonalConv2d(4, 8, kernel_size=3, stride=2, padding=1")


def test_sll_with_the_papers_q() -> None:
    """Weights q in T_i = sum_j |W W^T|_ij q_j / q_i are rows of W rescaled, as the module says."""
    generator = torch.Generator().manual_seed(0)
    weight, q = torch.randn(5, 4, generator=generator).double(), torch.rand(5, generator=generator).double() + 0.1
    x = torch.randn(7, 4, generator=generator).double()
    T = ((weight @ weight.T).abs() * q[None, :] / q[:, None]).sum(1)
    paper = x - 2 * (torch.relu(x @ weight.T) / T) @ weight
    layer = SLLLinear(4, 5, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(q[:, None] * weight)
    torch.testing.assert_close(layer(x), paper, rtol=1e-4, atol=1e-4)  # up to the guard 1e-6


def test_cpl_by_its_formula() -> None:
    layer = randomized(CPLLinear(4, 4), (4,)).double().eval()
    x = torch.randn(6, 4, dtype=torch.float64)
    sigma = torch.linalg.matrix_norm(layer.weight, 2) * (1 + 1e-5)
    expected = x - 2 / sigma**2 * torch.relu(x @ layer.weight.T + layer.bias) @ layer.weight
    torch.testing.assert_close(layer(x), expected, rtol=1e-8, atol=1e-10)


def test_the_residual_step_has_autograds_gradients() -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in [(3, 4, 5, 6), (2, 4, 3, 3), (2,)]
    )
    direction = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    hidden = nn.functional.conv2d(x, weight, bias, padding=1).relu()
    plain = x - nn.functional.conv_transpose2d(hidden, weight, padding=1)
    found = residual_step(x, weight, bias)
    torch.testing.assert_close(found, plain)
    wanted = torch.autograd.grad((plain * direction).sum(), (x, weight, bias))
    torch.testing.assert_close(torch.autograd.grad((found * direction).sum(), (x, weight, bias)), wanted)
    (alone,) = torch.autograd.grad((residual_step(x, weight.detach(), None) * direction).sum(), x)
    assert alone.shape == x.shape


def test_the_warm_norm_follows_training() -> None:
    """Within 1% here; one weight in ten has singular values so close that sixty steps leave up to 6%."""
    torch.manual_seed(0)
    layer = CPLConv2d(4, 3, input_size=(6, 6))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.05)
    x = torch.rand(8, 4, 6, 6)
    for _ in range(60):
        optimizer.zero_grad()
        layer(x).square().mean().backward()
        optimizer.step()
    warm = layer.norm((4, 6, 6)).item()
    settled = layer.eval().norm((4, 6, 6)).item()
    assert 0.99 * settled <= warm <= settled * (1 + 1e-5)


def test_the_linear_residual_block_is_bounded_and_estimated() -> None:
    layer = randomized(LinearResidualConv2d(3, 3, gain=0.3, input_size=(5, 4)), (3, 5, 4))
    estimate = layer.eval().lipschitz_estimate().item()
    matrix = operator_matrix(copy.deepcopy(layer).double(), (3, 5, 4))
    truth = float(torch.linalg.matrix_norm(matrix, 2))
    assert truth * (1 - 1e-4) <= estimate <= truth * (1 + 1e-6)
    assert lipschitz_bound(nn.Sequential(layer, nn.Flatten()), (3, 5, 4)).value >= truth * (1 - 1e-9)


def test_the_bottom_logit_wins_exactly_where_nothing_is_certified() -> None:
    head = MarginHead(6, 4).double()
    x = torch.rand(300, 6, dtype=torch.float64)
    found = certify(nn.Sequential(head), x)
    radius = float(found.radius.sort().values[149:151].mean())
    extended = head.with_bottom(head(x), 1.0, radius)
    assert extended.shape == (300, 5)
    torch.testing.assert_close(extended[:, :4], head(x))
    assert bool(((extended.argmax(1) == 4) == (found.radius < radius)).all())


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "plain"])
def test_networks_of_every_family_train_and_certify(name: str) -> None:
    torch.manual_seed(0)
    model = LipschitzConvNet((1, 8, 8), 3, width=4, layer=name, depth=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    x, y = torch.rand(30, 1, 8, 8), torch.arange(30) % 3
    x[torch.arange(30), 0, y * 2] += 2.0
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(8 * model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    model.eval()
    bound = lipschitz_bound(model, (1, 8, 8))
    if name != "liresnet":
        assert bound.value <= 1 + 1e-4
    found = certify(model, x, bound)
    assert float(found.radius.max()) > 0
    saved = LipschitzConvNet((1, 8, 8), 3, width=4, layer=name, depth=1).eval()
    saved.load_state_dict(model.state_dict())
    torch.testing.assert_close(saved(x), model(x), rtol=1e-4, atol=1e-5)


def test_refusals() -> None:
    with pytest.raises(InputError, match="kernel_size must be an odd number"):
        CPLConv2d(2, 2)
    with pytest.raises(InputError, match=r"CPLConv2d takes \[n, 2, h, w\]"):
        CPLConv2d(2, 3)(torch.zeros(1, 3, 4, 4))
    with pytest.raises(InputError, match="at least the stride"):
        OrthogonalConv2d(2, 2, 1, stride=2)
    with pytest.raises(InputError, match="without repeating outputs"):
        OrthogonalConv2d(2, 2, 1, padding=1, padding_mode="circular")
