"""Networks that would get false certificates: each is followed rightly or refused with the reason."""

from __future__ import annotations

import types
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from radii.bounds.provably_robust import Bounded
from radii.certificates import _graph_margin as graph_margin
from radii.certificates import bound_certificate, lipschitz
from radii.certificates.choose import certify
from radii.certificates.smoothing import randomized
from radii.errors import InputError
from radii.models.classifier import predict
from radii.models.layers.aol import AOLConv2d
from radii.models.lipschitz.network_bound import lipschitz_bound

BOUNDS = ("ibp", "crown-ibp", "crown", "alpha-crown")
RADII = (0.01, 0.05, 0.1, 0.2, 0.4)


def dense(seed: int = 0, width: int = 16) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3)).eval()


def inputs(n: int = 40) -> Tensor:
    return torch.rand(n, 6, generator=torch.Generator().manual_seed(1))


class InPlace(nn.Module):
    """Normalizes the caller's tensor, as ordinary preprocessing does."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x.sub_(0.4).div_(0.2))


class OutOfPlace(InPlace):
    def forward(self, x: Tensor) -> Tensor:
        return self.net((x - 0.4) / 0.2)


def clipped_in_place() -> nn.Module:
    return nn.Sequential(nn.Hardtanh(0.3, 0.7, inplace=True), *dense())


def clipped_out_of_place() -> nn.Module:
    return nn.Sequential(nn.Hardtanh(0.3, 0.7), *dense())


# --- 1. inputs changed in place --------------------------------------------------------------------


@pytest.mark.parametrize("method", BOUNDS)
@pytest.mark.parametrize(
    ("changing", "plain"),
    [(lambda: InPlace(dense()), lambda: OutOfPlace(dense())), (clipped_in_place, clipped_out_of_place)],
)
def test_in_place_preprocessing_gets_the_certificate_of_the_same_function(
    changing: Callable[[], nn.Module], plain: Callable[[], nn.Module], method: str
) -> None:
    x = inputs()
    before = x.clone()
    first = bound_certificate.certify(changing().eval(), x, RADII, "linf", method)
    second = bound_certificate.certify(plain().eval(), before, RADII, "linf", method)
    assert torch.equal(x, before)
    assert torch.equal(first.prediction, second.prediction)
    assert torch.equal(first.radius, second.radius)


def test_smoothing_and_predictions_leave_the_inputs_alone() -> None:
    x, model = inputs(4), InPlace(dense()).eval()
    before = x.clone()
    first = randomized.certify_sequential(model, x, 0.25, [0.1], most=1000)
    second = randomized.certify_sequential(OutOfPlace(dense()).eval(), before, 0.25, [0.1], most=1000)
    assert torch.equal(first.radius, second.radius)
    assert torch.equal(first.samples, second.samples)
    predict(model, x)
    assert torch.equal(x, before)


def test_margins_see_an_in_place_layer_on_a_copy() -> None:
    x = inputs()
    before = x.clone()
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(6, 3)).eval()
    found = lipschitz.certify(model, x - 0.5)
    assert torch.equal(x, before)
    assert torch.equal(found.prediction, predict(model, x - 0.5))


# --- 2. modules whose behavior is not their class's -------------------------------------------------


def with_instance_forward(place: int) -> nn.Module:
    net = dense()
    old = net[place].forward
    net[place].forward = lambda x: old(x) * 3 + 1  # as LoRA does
    return net


def with_bound_method() -> nn.Module:
    net = dense()
    net[0].forward = types.MethodType(lambda self, x: F.linear(x, 5 * self.weight, self.bias), net[0])
    return net


def with_hook(register: str) -> nn.Module:
    net = dense()
    getattr(net[1], register)(lambda *_: None)
    return net


class OwnCall(nn.Sequential):
    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x) * torch.tensor([1.0, -1.0, 1.0])


class OwnOrder(nn.Sequential):
    def __iter__(self):  # type: ignore[no-untyped-def]
        return reversed(list(self._modules.values()))


PATCHED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "instance forward of a layer": (lambda: with_instance_forward(0), "'0' (Linear) has a 'forward' of its own"),
    "instance forward of an activation": (lambda: with_instance_forward(1), "'1' (ReLU) has a 'forward' of its own"),
    "bound method": (with_bound_method, "'0' (Linear) has a 'forward' of its own"),
    "forward hook": (lambda: with_hook("register_forward_hook"), "'1' (ReLU) has forward hooks"),
    "pre hook": (lambda: with_hook("register_forward_pre_hook"), "'1' (ReLU) has forward hooks"),
    "backward hook": (lambda: with_hook("register_full_backward_hook"), "'1' (ReLU) has backward hooks"),
    "own call": (lambda: OwnCall(*dense()), "(OwnCall) has a '__call__' of its own"),
    "own order": (lambda: OwnOrder(*dense()), "(OwnOrder) has an '__iter__' of its own"),
}


@pytest.mark.parametrize("case", PATCHED)
def test_patched_modules_are_refused_by_name(case: str) -> None:
    make, said = PATCHED[case]
    for attempt in (lambda m: lipschitz.certify(m, inputs()), lambda m: bound_certificate.certify(m, inputs(), RADII)):
        with pytest.raises(InputError) as refused:
            attempt(make().eval())
        assert said in str(refused.value)


def test_global_hooks_are_refused() -> None:
    handle = nn.modules.module.register_module_forward_hook(lambda _module, _input, output: output * 2)
    try:
        for attempt in (
            lambda m: lipschitz.certify(m, inputs()),
            lambda m: bound_certificate.certify(m, inputs(), RADII),
        ):
            with pytest.raises(InputError, match="registered for all modules"):
                attempt(dense())
    finally:
        handle.remove()


def test_a_replaced_forward_of_a_torch_class_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, x: 3 * F.relu(x))
    with pytest.raises(InputError, match="replaces that of torch's ReLU"):
        lipschitz.certify(dense(), inputs())


class ScaledAOL(AOLConv2d):
    """Inherits the fold of its base and computes something else, by little enough for an absolute tolerance."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class ScaledNorm(nn.BatchNorm2d):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    ("layer", "said"), [(lambda: ScaledAOL(1, 2, 3, padding=1), "overrides"), (lambda: ScaledNorm(1), "ScaledNorm")]
)
def test_subclasses_with_their_own_forward_are_refused(layer: Callable[[], nn.Module], said: str) -> None:
    torch.manual_seed(0)
    head = nn.LazyLinear(3)
    model = nn.Sequential(layer(), nn.Flatten(), head).eval()
    model(torch.rand(1, 1, 4, 4))
    with torch.no_grad():
        head.weight.mul_(1e-6)
        head.bias.zero_()
    with pytest.raises(InputError, match=said):
        lipschitz_bound(model, (1, 4, 4))


# --- 3. agreement, views, state -----------------------------------------------------------------------


class Written(nn.Module):
    """A network as one function of the hidden values."""

    def __init__(self, between: Callable[[Tensor, Tensor], Tensor], scale: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.between, self.scale = nn.Linear(6, 16), nn.Linear(16, 3), between, scale
        self.register_buffer("count", torch.zeros(()))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.between(x, self.first(x))) * self.scale


def through_a_view(_x: Tensor, h: Tensor) -> Tensor:
    h[:, :8].relu_()
    return h


def through_a_chunk(_x: Tensor, h: Tensor) -> Tensor:
    h.chunk(2, 1)[0].clamp_(min=0.0)
    return h


def copied_into(_x: Tensor, h: Tensor) -> Tensor:
    out = torch.zeros_like(h)
    out[:, 8:] = h[:, 8:].relu()
    return out


def by_numpy(x: Tensor, h: Tensor) -> Tensor:
    return h.relu() if x.detach().numpy().sum() < 1e9 else h


def by_list(x: Tensor, h: Tensor) -> Tensor:
    return h.relu() if sum(x[0].tolist()) < 1e9 else h


def by_item(x: Tensor, h: Tensor) -> Tensor:
    return h.relu() if float(x.sum()) < 1e9 else h


def bools_added(x: Tensor, h: Tensor) -> Tensor:
    return h * 0 + F.pad(((x > 0.3) + (x > 0.6)).to(h.dtype), (0, 10))


def by_batch_size(_x: Tensor, h: Tensor) -> Tensor:
    return h.relu() if len(h) in (2, 4) else h


def random_by_little(_x: Tensor, h: Tensor) -> Tensor:
    return h + 1e-3 * torch.randn_like(h)


FOREIGN = [
    (through_a_view, "overwritten in place"),
    (through_a_chunk, "overwritten in place"),
    (copied_into, "overwritten in place"),
    (by_numpy, "numpy reads values"),
    (by_list, "tolist reads values"),
    (by_item, "item reads values|mixes the inputs|cannot be bounded"),
    (bools_added, "computes in torch.bool"),
    (by_batch_size, "different things"),
    (random_by_little, "random numbers"),
]


@pytest.mark.parametrize("scale", [1.0, 1e-5])
@pytest.mark.parametrize(("between", "said"), FOREIGN)
def test_what_cannot_be_followed_is_refused(
    between: Callable[[Tensor, Tensor], Tensor], said: str, scale: float
) -> None:
    with pytest.raises(InputError, match=said):
        bound_certificate.certify(Written(between, scale).eval(), inputs(), RADII)


def test_a_whole_value_may_be_changed_in_place() -> None:
    def whole(_x: Tensor, h: Tensor) -> Tensor:
        return h.view(len(h), 4, 4).flatten(1).relu_()

    first = bound_certificate.certify(Written(whole).eval(), inputs(), RADII)
    second = bound_certificate.certify(Written(lambda _x, h: h.relu()).eval(), inputs(), RADII)
    assert torch.equal(first.radius, second.radius)


class Counting(Written):
    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return super().forward(x)


class CountingCalls(Written):
    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x)


@pytest.mark.parametrize(
    ("kind", "said"), [(Counting, "changes a weight, a buffer"), (CountingCalls, "changes itself")]
)
def test_a_model_with_a_state_is_refused_and_not_advanced(kind: type[Written], said: str) -> None:
    model = kind(lambda _x, h: h.relu()).eval()
    with pytest.raises(InputError, match=said):
        bound_certificate.certify(model, inputs(), RADII)
    assert float(model.count) == 0


def test_a_negative_divisor_is_refused() -> None:
    class Pool(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.avg_pool2d(x, 2, divisor_override=-1).flatten(1)

    with pytest.raises(InputError, match="avg_pool2d"):
        bound_certificate.certify(Pool().eval(), torch.rand(4, 1, 4, 4), RADII)


def test_small_logits_are_compared_by_their_spread() -> None:
    """The layers of a small head differ by less than any absolute tolerance."""

    class Branching(Written):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * (1.0 if len(x) == 2 else -1.0)

    with pytest.raises(InputError, match="different things"):
        bound_certificate.certify(Branching(lambda _x, h: h.relu(), scale=1e-7).eval(), inputs(), RADII)


def test_tiny_float64_weights_are_no_traceback() -> None:
    model = dense().double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1e-170)
    for attempt in (
        lambda: lipschitz.certify(model, inputs().double()),
        lambda: bound_certificate.certify(model, inputs().double(), RADII),
    ):
        try:
            found = attempt()
        except InputError:
            continue
        assert float(found.radius.max()) <= 0.4


# --- 4. overflow and empty regions --------------------------------------------------------------------


@pytest.mark.parametrize("method", BOUNDS)
def test_nothing_is_proved_where_a_hidden_value_may_overflow(method: str) -> None:
    """A unit of 3e38 at 0.19 that is read with weight 0: its float32 value is infinity, and the logits NaN."""
    first, second = nn.Linear(1, 2, bias=False), nn.Linear(2, 2, bias=False)
    model = nn.Sequential(first, nn.ReLU(), second).eval()
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[3.3e38], [1.0]]).float() * torch.tensor([[1.0], [1.0]]))
        second.weight.copy_(torch.tensor([[0.0, 1.0], [0.0, -1.0]]))
    model = nn.Sequential(Times(2.0), *model).eval()
    x = torch.tensor([[0.4]])
    assert bool(model(torch.tensor([[0.6]])).isnan().any())
    assert float(bound_certificate.certify(model, x, [0.05, 0.2], "linf", method).radius) == 0.05


class Times(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def test_empty_regions_and_nan_prove_nothing() -> None:
    from radii.bounds.provably_robust import margin_rows
    from radii.bounds.regions import Domain

    bounded = Bounded(dense(), (6,))
    x = inputs(3).double()
    rows = margin_rows(bounded.predict(x.float()).clamp_min(0), 3)
    lower, upper = x - 1e-6, x + 1e-6
    lower[0, 2], upper[1, 3] = x[0, 2] + 1e-3, torch.nan
    for method in BOUNDS:
        margins = bounded._margins(Domain(lower, upper), rows, method, 5)
        assert not bool((margins[:2] > 0).any())


# --- 5. detector neurons (Szász et al. 2025, arXiv 2506.01054) ------------------------------------------


def detector(kind: str, dtype: torch.dtype = torch.float32) -> tuple[nn.Sequential, Tensor, float]:
    """A network whose float32 answer flips within the ball and whose real-valued answer does not.

    Order1 to Order3 sum large numbers that cancel, in three orders; Precision adds a small number to a large one.
    """
    big = 2.0**25
    columns = {"order1": [big, 1.0, -big], "order2": [1.0, big, -big], "order3": [big, -big, 1.0]}.get(kind, [big, 1.0])
    first = nn.Linear(1, len(columns), bias=True)
    second, third = nn.Linear(len(columns), 1), nn.Linear(1, 2)
    with torch.no_grad():
        first.weight.zero_()
        first.bias.copy_(torch.tensor([abs(value) for value in columns]))
        second.weight.copy_(torch.tensor([[1.0 if value > 0 else -1.0 for value in columns]]))
        second.bias.fill_(0.0 if kind != "precision" else -big)
        third.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        third.bias.copy_(torch.tensor([-0.5, 0.5]))
    return nn.Sequential(first, nn.ReLU(), second, third).to(dtype).eval(), torch.tensor([[0.5]], dtype=dtype), 0.1


@pytest.mark.parametrize("kind", ["order1", "order2", "order3", "precision"])
def test_detector_neurons_get_no_certificate(kind: str) -> None:
    model, x, radius = detector(kind)
    methods = [lambda method=method: bound_certificate.certify(model, x, [radius], "linf", method) for method in BOUNDS]
    for attempt in (
        *methods,
        lambda: certify(model, x, "complete", norm="linf", radii=[radius], seconds=20),
        lambda: certify(model, x, "complete", radii=[radius], seconds=20),
        lambda: lipschitz.certify(model, x),
        lambda: graph_margin.certify(model, x),
        lambda: lipschitz.certify(model.double(), x.double()),
    ):
        try:
            found = attempt()
        except InputError:
            continue
        assert float(found.radius) == 0, found.method


def test_exact_arithmetic_says_so() -> None:
    found = lipschitz.certify(dense(), inputs(), arithmetic="exact")
    assert found.arithmetic == "exact"
    assert "exact arithmetic" in found.method
    assert any("exact arithmetic" in line for line in found.assumptions)
    assert lipschitz.certify(dense(), inputs()).arithmetic == "float32"


def test_the_float32_margin_covers_every_order_of_summation() -> None:
    """Sums of 4,000 products in a bad order: the logits' error is within what the certificate takes off."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4000, 2, bias=False)).eval()
    x = torch.rand(8, 4000)
    exact, safe = (lipschitz.certify(model, x, arithmetic=kind).radius for kind in ("exact", "float32"))
    weight = model[0].weight.detach()
    slow = torch.stack([torch.tensor(np.cumsum((weight * row).numpy(), 1, dtype=np.float32)[:, -1]) for row in x])
    off = (slow.double() - x.double() @ weight.double().T).abs().sum(1)
    pair = (weight[0] - weight[1]).double().norm()
    assert bool((off <= (exact - safe) * pair + 1e-12).all() or (safe == 0).any())
    assert bool((safe <= exact).all())


# --- 7. a certificate belongs to a state of the model -----------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m[0].weight.data.mul_(1.001), "weights"),
        (lambda m: m.double(), "data type"),
        (lambda m: m.train(), "training mode"),
        (lambda m: m[1].register_forward_hook(lambda *_: None), "hooks"),
        (lambda m: setattr(m[0], "forward", lambda x: x), "hooks"),
        (lambda m: setattr(m, "1", nn.LeakyReLU()), "modules"),
    ],
)
def test_a_changed_model_is_noticed(change: Callable[[nn.Module], object], said: str) -> None:
    model, x = dense(), inputs()
    found = bound_certificate.certify(model, x, RADII, "linf", "ibp")
    found.check(model)
    change(model)
    with pytest.raises(InputError, match=f"not as it was when it was certified.*{said}"):
        found.check(model)
