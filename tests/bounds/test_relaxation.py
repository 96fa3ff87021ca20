"""Bound propagation against closed forms, the published dual, sampling, attacks and float32 itself."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from radii.attacks.pgd import PGD
from radii.bounds.bound_engine import Engine
from radii.bounds.provably_robust import Bounded, domain_of, interval_margins, margin_rows, margins
from radii.bounds.regions import Domain
from radii.certificates.bound_certificate import certify
from radii.certificates.methods import bound_methods
from radii.errors import InputError
from radii.models.classifier import Classifier, predict
from radii.models.zoo.convnets import LeNet5
from radii.networks.operations.pooling import MaxPool
from radii.networks.read_torch import read_torch
from radii.threat import Ball

SHAPE = (2, 6, 6)


class Residual(nn.Module):
    """Two branches that meet again, once added and once subtracted."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.head = nn.Linear(3 * 36, 4)

    def forward(self, x):
        x = self.first(x)
        x = torch.relu(x + self.second(torch.relu(x))) - 0.5 * x
        return self.head(x.flatten(1))


class Steps(nn.Module):
    """A classifier behind a threshold: h(x) = f(1[x >= 1/2])."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net((x >= 0.5).float())


def networks() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(4)
    norm.running_mean.uniform_(-1, 1)
    norm.running_var.uniform_(0.5, 2)
    return {
        "dense": nn.Sequential(
            nn.Flatten(), nn.Linear(72, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 4)
        ),
        "convolution": nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2, padding=1), norm, nn.ReLU(),
            nn.Conv2d(4, 4, 2, dilation=1, groups=2), nn.LeakyReLU(0.1), nn.Flatten(), nn.Linear(16, 4),
        ),
        "pooling": nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.MaxPool2d(3, stride=1, padding=1), nn.ReLU(),
            nn.AvgPool2d(2), nn.Flatten(), nn.Linear(12, 4),
        ),
        "residual": Classifier(Residual(), mean=(0.3, 0.4), std=(0.5, 0.8)),
        "steps": Steps(nn.Sequential(nn.Flatten(), nn.Linear(72, 4))),
        "clamped": nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.Hardtanh(-0.2, 0.3), nn.ReLU6(), nn.Flatten(), nn.Linear(48, 4)
        ),
        "lenet5": LeNet5((2, 6, 6), 4, widen=0.1),
    }  # fmt: skip


NETWORKS = networks()


def inputs(n: int = 3, seed: int = 1) -> torch.Tensor:
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed))


def true_margins(model: nn.Module, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    logits = model(x)
    own = logits.gather(1, label[:, None])
    return (own - logits).scatter(1, label[:, None], torch.inf)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_sampled_or_attacked_point_is_below_a_bound(name, norm) -> None:
    model, x = NETWORKS[name].eval(), inputs()
    ball = Ball(norm, 0.06 if norm == "linf" else 0.3)
    label = predict(model, x)
    bounded = Bounded(model, SHAPE)
    generator = torch.Generator().manual_seed(2)
    reached = torch.full((len(x),), torch.inf)
    with torch.no_grad():
        for round_ in range(40):
            point = ball.random_start(x, generator)
            if round_ % 2:  # far corners and rims, where the least values are
                away = x + 9 * (point - x)
                point = ball.project(away, x)
            reached = torch.minimum(reached, true_margins(model, point, label).amin(1))
    for method in bound_methods():
        least = bounded.margins(x, label, ball, method, steps=5).amin(1)
        assert (least <= reached).all(), method


@pytest.mark.parametrize("name", ["dense", "convolution", "residual", "lenet5"])
def test_tighter_methods_are_tighter(name) -> None:
    model, x = NETWORKS[name].eval(), inputs()
    bounded, label = Bounded(model, SHAPE), predict(NETWORKS[name], inputs())
    found = {m: bounded.margins(x, label, Ball("linf", 0.05), m).amin(1) for m in bound_methods()}
    assert (found["alpha-crown"] >= found["crown"] - 1e-9).all()
    assert (found["crown"] >= found["ibp"] - 1e-9).all()
    assert (found["alpha-crown"] >= found["wong-kolter"] - 0.05).all()


@pytest.mark.parametrize("method", bound_methods())
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_linear_networks_are_exact(method, norm) -> None:
    torch.manual_seed(1)
    layer = nn.Linear(10, 3)
    model, x, radius = nn.Sequential(layer), torch.rand(4, 10), 0.1
    label = predict(model, x)
    w = layer.weight.double()
    rows = w[label][:, None] - w[None]
    dual = rows.abs().sum(2) if norm == "linf" else rows.norm(dim=2)
    exact = true_margins(layer.double(), x.double(), label) - radius * dual
    layer.float()
    found = margins(model, x, Ball(norm, radius, None), method)
    assert torch.allclose(found.amin(1), exact.amin(1), atol=1e-5)
    assert (found.amin(1) <= exact.amin(1)).all()


def test_equal_slopes_are_the_dual_of_wong_and_kolter() -> None:
    """J(nu) of Wong & Kolter 2018 for one hidden layer, written out."""
    torch.manual_seed(3)
    first, second, eps = nn.Linear(5, 20).double(), nn.Linear(20, 3).double(), 0.3
    x = torch.rand(1, 5, dtype=torch.float64)
    with torch.no_grad():
        z, reach = first(x)[0], eps * first.weight.abs().sum(1)
        low, high = z - reach, z + reach
        label = int(second(torch.relu(z)).argmax())
        for other in set(range(3)) - {label}:
            nu3 = torch.zeros(3, dtype=torch.float64)
            nu3[label], nu3[other] = -1.0, 1.0
            hat = second.weight.T @ nu3
            unstable = (low < 0) & (high > 0)
            nu2 = torch.where(low >= 0, 1.0, torch.where(unstable, high / (high - low), 0.0)) * hat
            back = first.weight.T @ nu2
            bias = -(nu3 @ second.bias) - nu2 @ first.bias
            kinks = (low * nu2.clamp_min(0))[unstable].sum()
            dual = float(bias - back @ x[0] - eps * back.abs().sum() + kinks)
            model = nn.Sequential(first, nn.ReLU(), second).float()
            column = other if other < label else other - 1
            ours = float(margins(model, x.float(), Ball("linf", eps, None), "wong-kolter")[0, column])
            first.double(), second.double()
            assert ours == pytest.approx(dual, abs=1e-4)


@given(seed=st.integers(0, 10_000), radius=st.floats(0.01, 0.8))
@settings(max_examples=25, deadline=None)
def test_brute_force_over_a_line(seed, radius) -> None:
    """One input coordinate: a fine grid of the ball against every method."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(1, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    x = torch.rand(1, 1)
    label = predict(model, x)
    with torch.no_grad():
        line = x + radius * torch.linspace(-1, 1, 801)[:, None]
        exact = float(true_margins(model, line, label.expand(801)).min())
    for method in bound_methods():
        assert float(margins(model, x, Ball("linf", radius, None), method).min()) <= exact


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_float32_values_lie_within_bounds_at_radius_zero(dtype: torch.dtype) -> None:
    """With rounding accounted for, a point's interval holds what float32 computes; without, it does not."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 10))
    x = torch.rand(200, 300)
    with torch.no_grad():
        logits, exact = model(x).double(), model.double()(x.double())
        engine = Engine(read_torch(model.float(), (300,), dtype))
        known, output = engine.intervals(Domain(x.double(), x.double())), engine.program.output
        low, high = known.lower[output], known.upper[output]
        bare = engine.program.run(x.to(dtype))
    for value in (logits, exact):
        assert ((low <= value) & (value <= high)).all()
    other = logits if dtype == torch.float64 else exact  # not the arithmetic of the bare value itself
    assert not torch.equal(bare.double(), other)
    assert float((high - low).max()) < 1e-2


def test_intervals_in_float32_are_as_sound_and_nearly_as_high() -> None:
    """They stay below those in float64, by about the rounding that both account for."""
    for name, model in NETWORKS.items():
        bounded, x = Bounded(model.eval(), SHAPE), inputs(20)
        label, ball = predict(model, x), Ball("linf", 0.02)
        rows = margin_rows(label, bounded.classes)
        slow = interval_margins(Engine(bounded.exact), domain_of(x, ball), rows, deep=False)
        quick = bounded.margins(x, label, ball, "ibp")
        assert (quick <= slow).all(), name
        assert float((slow - quick).max()) < 3e-3 * float(slow.abs().max()), name


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_no_attack_breaks_a_proof(norm) -> None:
    model, x = NETWORKS["convolution"].eval(), inputs(30)
    radii = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3]
    proof = certify(model, x, radii, norm, "crown")
    assert proof.kind == "deterministic"
    assert int((proof.radius > 0).sum()) > 10
    for radius in radii:
        rows = proof.covers(radius)
        if rows.any():
            generator = torch.Generator().manual_seed(0)
            found = PGD(20, 0.2)(model, x[rows], proof.prediction[rows], Ball(norm, radius), generator)
            assert not found.broken.any()


def test_bisection_finds_the_largest_proved_radius() -> None:
    model, x = NETWORKS["dense"].eval(), inputs(12)
    radii = [0.005 * k for k in range(1, 12)]
    found = certify(model, x, radii, "linf", "crown-ibp").radius
    label, bounded = predict(model, x), Bounded(model, SHAPE)
    proved = torch.zeros(len(x), dtype=torch.float64)
    for radius in radii:
        for method in ("ibp", "crown-ibp"):
            proved[(bounded.margins(x, label, Ball("linf", radius), method) > 0).all(1)] = radius
    assert torch.equal(found, proved)


@pytest.mark.parametrize(
    "pool",
    [
        nn.MaxPool2d(2, stride=1),
        nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
        nn.MaxPool2d((2, 3), stride=(1, 2), dilation=(2, 1), padding=(1, 0)),
        nn.MaxPool2d(2, stride=3, ceil_mode=True),
    ],
)
def test_windows_of_a_pool(pool: nn.MaxPool2d) -> None:
    """The largest of a window's members is what the pool gives; lines hold at every point, overlapping or not."""
    layer = next(iter(read_torch(nn.Sequential(pool, nn.Flatten()), (2, 7, 8), torch.float64).steps.values()))
    assert isinstance(layer, MaxPool)
    x = torch.randn(3, 2, 7, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    members = layer.members
    taken = x.flatten(2)[:, :, members.clamp_min(0)].masked_fill(members < 0, -torch.inf).amax(3)
    assert torch.equal(taken.view_as(pool(x)), pool(x))
    width = torch.rand(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(1))
    A = torch.randn(3, 5, *pool(x).shape[1:], dtype=x.dtype, generator=torch.Generator().manual_seed(2))
    (back,), constant = layer.lines(A, [(x - width, x + width)])
    assert back is not None
    for seed in range(200):
        share = torch.rand(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(seed))
        point = x + width * (2 * share - 1).sign() * share.sqrt()
        value, line = (A * pool(point)[:, None]).flatten(2).sum(2), (back * point[:, None]).flatten(2).sum(2)
        assert (line + constant <= value + 1e-12).all()


def test_a_pool_with_an_empty_window_is_refused() -> None:
    model = nn.Sequential(nn.MaxPool2d(2, stride=1, dilation=2, padding=1), nn.Flatten(), nn.Linear(2, 3))
    with pytest.raises(InputError, match=r"0 \(MaxPool2d\).*windows without a single pixel"):
        Bounded(model, (1, 1, 2))


def test_a_threshold_is_proved_to_half_its_step() -> None:
    """h(x) = f(1[x >= 1/2]) on binary inputs: nothing changes below radius 1/2, and everything may beyond."""
    model = Steps(nn.Sequential(nn.Flatten(), nn.Linear(72, 4))).eval()
    x = (inputs(8) > 0.5).float()
    proof = certify(model, x, [0.3, 0.49, 0.51], "linf", "ibp")
    assert (proof.radius == 0.49).all()


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(72, 5), nn.Hardshrink(), nn.Linear(5, 3)), r"2 \(Hardshrink\)"),
        (nn.Sequential(nn.Flatten(), nn.LogSigmoid()), r"1 \(LogSigmoid\)"),
        (nn.Sequential(nn.Conv2d(2, 3, 3), nn.AdaptiveMaxPool2d(2), nn.Flatten()), r"1 \(AdaptiveMaxPool2d\)"),
    ],
)
def test_a_layer_without_bounds_is_named(model, named) -> None:
    with pytest.raises(InputError, match=named):
        certify(model, inputs(), [0.1])


class Secretive(nn.Module):
    """Does different things to different inputs, which a trace does not show."""

    def forward(self, x):
        flat = x.flatten(1)[:, :3]
        return flat if torch.equal(flat[0], flat[1]) else -flat


class Batchwise(nn.Module):
    """Mixes the inputs of a batch."""

    def forward(self, x):
        return x.flatten(1)[:, :3] - x.flatten(1)[:, :3].mean(0, keepdim=True)


@pytest.mark.parametrize("model", [Secretive(), Batchwise()])
def test_what_is_no_function_of_one_input_is_refused(model) -> None:
    with pytest.raises(InputError, match="cannot be bounded"):
        certify(model, inputs(), [0.1])


def test_float64_models_are_bounded_and_float16_refused() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(72, 3))
    double = margins(model.double(), inputs().double(), Ball("linf", 0.01))
    assert torch.allclose(double, margins(model.float(), inputs(), Ball("linf", 0.01)), atol=1e-4)
    with pytest.raises(InputError, match="float16"):
        margins(model.half(), inputs().half(), Ball("linf", 0.01))


def test_nan_proves_nothing() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(72, 3))
    with torch.no_grad():
        model[1].weight[0, 0] = torch.nan
    with pytest.raises(InputError):
        certify(model, inputs(), [0.1])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"radii": []}, "positive"),
        ({"radii": [0.0]}, "positive"),
        ({"method": "magic"}, "No method of bounds is called 'magic'"),
    ],
)
def test_bad_input_is_said(change, said) -> None:
    given = {"radii": [0.1], "norm": "linf", "method": "ibp"} | change
    with pytest.raises(InputError, match=said):
        certify(NETWORKS["dense"], inputs(), **given)


def test_results_that_nobody_reads_are_left_out() -> None:
    """A pool's indices, which the logits do not depend on; a model that reads them is refused."""

    class Pooled(nn.Module):
        def __init__(self, indices: bool) -> None:
            super().__init__()
            self.inner, self.head, self.indices = nn.Linear(6, 8), nn.Linear(4, 3), indices

        def forward(self, x: Tensor) -> Tensor:
            pooled, places = nn.functional.max_pool1d(self.inner(x)[:, None], 2, return_indices=True)
            return self.head((places.float() if self.indices else pooled).flatten(1))

    torch.manual_seed(0)
    model, x = Pooled(False).eval(), torch.rand(4, 6)
    proof = certify(model, x, [0.001, 0.01], "linf", "crown")
    assert (proof.radius > 0).any()
    for corner in (-1, 1):
        moved = (x + corner * proof.radius[:, None].float()).clamp(0, 1)
        assert torch.equal(model(moved).argmax(1), model(x).argmax(1))
    with pytest.raises(InputError, match="cannot be bounded"):
        certify(Pooled(True).eval(), x, [0.001])
