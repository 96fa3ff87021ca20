"""Fast bounds hold for the float32 network: on random networks of every shape, with samples of their regions."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from tests.oracles.plain_crown import crown
from torch import Tensor, nn
from torch.nn import functional as F

from radii.bounds.bound_engine import Engine
from radii.bounds.regions import Domain, ValueBounds, gamma
from radii.networks.operations.activations import Relu
from radii.networks.read_torch import read_torch


class Residual(nn.Module):
    """The input is read twice, and so is a hidden value."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 9), nn.Linear(9, 9), nn.Linear(15, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x))
        h = h + F.relu(self.second(h))
        return self.last(F.pad(h, (0, 6)) + F.pad(x, (9, 0)))


class Skip(nn.Module):
    """The input comes back behind the last ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.side = nn.Linear(6, 12), nn.Linear(12, 4), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(F.relu(self.first(x))) - self.side(x)


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 15), nn.LeakyReLU(0.1), nn.Linear(15, 4))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 5, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(5, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 4),
    )


NETWORKS = {"dense": (dense, (6,)), "residual": (Residual, (6,)), "skip": (Skip, (6,)), "images": (images, (2, 8, 8))}


def prepared(name: str, seed: int, dtype: torch.dtype) -> tuple[nn.Module, Engine, tuple[int, ...]]:
    torch.manual_seed(seed)
    make, shape = NETWORKS[name]
    model = make().eval()
    with torch.no_grad():
        return model, Engine(read_torch(model, shape, dtype)), shape


def both_ends(engine: Engine, known: ValueBounds) -> tuple[Tensor, Tensor]:
    """Bounds of every output of every domain, by rows."""
    size, count = engine.program.sizes[engine.program.output], len(known.domain)
    rows = torch.eye(size, dtype=engine.program.dtype).repeat(count, 1)
    dom = torch.arange(count).repeat_interleave(size)
    low = engine.lower(known, engine.program.output, rows, dom)
    return low.view(count, size), -engine.lower(known, engine.program.output, -rows, dom).view(count, size)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("seed", range(4))
@torch.no_grad()
def test_no_sample_leaves_its_bounds(name: str, dtype: torch.dtype, seed: int) -> None:
    model, engine, shape = prepared(name, seed, dtype)
    inputs = engine.program.sizes[0]
    center, reach = torch.rand(5, inputs).double(), torch.tensor([0.0, 1e-3, 0.02, 0.1, 0.5])[:, None].double()
    domain = Domain(center - reach, center + reach)
    low, high = both_ends(engine, engine.bounds(domain))
    x = (domain.lower + (domain.upper - domain.lower) * torch.rand(300, 5, inputs)).float()
    x[:32] = torch.where(torch.rand(32, 5, inputs) < 0.5, domain.lower, domain.upper).float()
    y = model(x.view(-1, *shape)).view(300, 5, -1)
    assert (y >= low).all()
    assert (y <= high).all()
    assert (high[0] - low[0]).max() < 1e-4  # a point: nothing but rounding


@pytest.mark.parametrize("name", ["dense", "images", "skip"])
@torch.no_grad()
def test_they_equal_plain_crown(name: str) -> None:
    _, engine, _ = prepared(name, 1, torch.float64)
    center = torch.rand(3, engine.program.sizes[0]).double()
    lower, upper = center - 0.05, center + 0.05
    rows = torch.eye(engine.program.outputs, dtype=torch.float64).expand(3, -1, -1)
    plain = crown(engine.program, lower, upper, rows)
    known = engine.bounds(Domain(lower, upper))
    torch.testing.assert_close(both_ends(engine, known)[0], plain, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("seed", range(3))
@torch.no_grad()
def test_an_l2_ball_holds_its_samples(seed: int) -> None:
    model, engine, shape = prepared("dense", seed, torch.float32)
    center, radius = torch.rand(3, 6).double(), 0.2
    domain = Domain(center - radius, center + radius, center, radius)
    low, high = both_ends(engine, engine.bounds(domain))
    step = F.normalize(torch.randn(400, 3, 6), dim=2) * radius * 0.999999
    y = model((center + step).float().view(-1, *shape)).view(400, 3, -1)
    assert (y >= low).all()
    assert (y <= high).all()


@torch.no_grad()
def test_slopes_and_multipliers_of_any_size_keep_bounds_true() -> None:
    model, engine, shape = prepared("dense", 5, torch.float32)
    domain = Domain(torch.full((1, 6), 0.2).double(), torch.full((1, 6), 0.8).double())
    known = engine.bounds(domain)
    x = (0.2 + 0.6 * torch.rand(4000, 6)).float()
    y = model(x.view(-1, *shape))
    rows = torch.eye(4)
    first = next(iter(engine.relus))
    source = engine.program.steps[first].inputs[0]
    hidden = model[0](x)  # type: ignore[index]
    place = int(((hidden > 0).float().mean(0) - 0.5).abs().argmin())
    active = hidden[:, place] >= 0
    for _ in range(30):
        alphas = {}
        for relu, layer in engine.relus.items():
            size = engine.program.sizes[relu]
            alphas[relu] = layer.slope + (1 - layer.slope) * torch.rand(4, size)
        beta = torch.zeros(4, engine.program.sizes[source])
        beta[:, place] = -torch.rand(4)  # for the half in which the coordinate is not negative
        low = engine.lower(known, engine.program.output, rows.clone(), None, alphas, {source: beta})
        assert (y[active] >= low).all()


@torch.no_grad()
def test_values_beyond_float32_are_not_bounded() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    for layer in (model[0], model[2]):
        layer.weight.fill_(1e30)
    engine = Engine(read_torch(model, (2,), torch.float64))
    low, _ = both_ends(engine, engine.bounds(Domain(torch.zeros(1, 2).double(), torch.ones(1, 2).double())))
    assert (low == -torch.inf).all()


def striped() -> nn.Module:
    """Convolutions with padding, strides and factors of channels, and normalization before the first one."""
    return nn.Sequential(
        nn.BatchNorm2d(2),
        nn.Conv2d(2, 4, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 5, (3, 2), padding=(1, 0)),
        nn.BatchNorm2d(5),
        nn.ReLU(),
        nn.Conv2d(5, 3, 3, stride=2, padding=2),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(27, 4),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("radius", [None, 0.3])
@pytest.mark.parametrize("seed", range(3))
@torch.no_grad()
def test_windows_bound_as_whole_rows_do(seed: int, radius: float | None, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    model = striped().eval()
    for layer in model:
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
            layer.weight.normal_()
            layer.bias.normal_()
    engine = Engine(read_torch(model, (2, 9, 8), dtype))
    assert len(engine.windowed) >= 2
    center = torch.rand(1, 144).double()
    domain = Domain(center - 0.04, center + 0.04, None if radius is None else center, radius)
    windows = engine.bounds(domain)
    engine.windowed = set()
    whole = engine.bounds(domain)
    for number in engine.bent:
        torch.testing.assert_close(windows.lower[number], whole.lower[number], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(windows.upper[number], whole.upper[number], rtol=1e-4, atol=1e-4)
    x = (domain.lower + (domain.upper - domain.lower) * torch.rand(500, 144)).float()
    if radius is not None:
        step = x - center
        x = (center + step / step.norm(dim=1, keepdim=True).clamp_min(radius) * radius * 0.99999).float()
    y = model(x.view(-1, 2, 9, 8))
    low, high = both_ends(engine, windows)
    assert (y >= low).all()
    assert (y <= high).all()


def test_gamma_bounds_a_product_of_roundings() -> None:
    """(1 + u)^n - 1 <= gamma_n, by fractions (Higham 2002, Lemma 3.1)."""
    for terms in (1, 2, 7, 300, 4000):
        for unit in (2.0**-24, 2.0**-53):
            assert (1 + Fraction(unit)) ** terms - 1 <= Fraction(gamma(terms, unit)) <= Fraction(1.001 * terms * unit)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_a_point_has_room_for_every_order_of_every_sum(dtype: torch.dtype) -> None:
    """A sum of n products and a bias may be off by (1 + u)^(n + 1) - 1 of its size: bounds leave it room."""
    torch.manual_seed(0)
    linear = nn.Linear(40, 6)
    norm = nn.BatchNorm1d(5, eps=0.0).eval()  # 100 (x - mean) / 1: what is rounded is as large as 100 mean
    norm.running_mean.copy_(torch.linspace(5, 9, 5))
    norm.weight.fill_(100.0)
    x, z = torch.rand(3, 40), torch.linspace(5, 9, 5)[None] + 1e-3
    exact = x.double() @ linear.weight.double().T + linear.bias.double()
    size = x.double() @ linear.weight.double().abs().T + linear.bias.double().abs()
    for model, point, value, room in (
        (linear, x, exact, size * ((1 + 2.0**-24) ** 41 - 1)),
        (norm, z, 100 * (z.double() - norm.running_mean.double()), 2.0**-24 * 100 * norm.running_mean.double()),
    ):
        engine = Engine(read_torch(model, tuple(point.shape[1:]), dtype))
        known = engine.intervals(Domain(point.double(), point.double()))
        ends = [end[engine.program.output].double() for end in (known.lower, known.upper)]
        for low, high in (ends, both_ends(engine, known)):
            assert (low <= value - room).all()
            assert (high >= value + room).all()


@torch.no_grad()
def test_equal_slopes_are_slopes_of_a_relu() -> None:
    """The chord is rounded up and may be steeper than 1; the line below a ReLU may not."""
    low, high = -(10.0 ** -torch.arange(4.0, 24.0))[None], torch.full((1, 20), 3.0)
    known = ValueBounds(Domain(low, high), {1: low}, {1: high}, equal_slopes=True)
    under, over, _ = known.lines(Relu("f", (1,), (20,)), 1)
    assert (over > 1).any()
    assert ((under >= 0) & (under <= 1)).all()


class Factors(nn.Module):
    """Many factors, each of which rounds, before a matrix with one column."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(1, 1, bias=False)
        self.last.weight.data.fill_(1.0)

    def forward(self, x: Tensor) -> Tensor:
        for factor in (0.1, 10.3) * 20:
            x = x * factor
        return self.last(x)


@torch.no_grad()
def test_what_factors_round_reaches_the_ends_over_a_ball() -> None:
    x = torch.rand(3000, 1, generator=torch.Generator().manual_seed(0))
    engine = Engine(read_torch(Factors().eval(), (1,), torch.float64))
    known = engine.intervals(Domain(x.double(), x.double(), x.double(), 0.0))
    y = Factors()(x)
    low, high = known.lower[engine.program.output], known.upper[engine.program.output]
    assert ((low <= y) & (y <= high)).all()
    assert ((high - low) < 1e-3 * y + 1e-6).all()


@torch.no_grad()
def test_one_value_beyond_float32_leaves_none_bounded() -> None:
    """Of a result, or on the way to it: four numbers of 2e38 have a mean, and a sum that is infinite."""
    wide = nn.Linear(2, 2, bias=False)
    wide.weight.copy_(torch.tensor([[1e38, 0.0], [0.0, 1.0]]))
    mean = nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.AvgPool2d(2), nn.Flatten())
    for model, point in ((wide, torch.tensor([[10.0, 1.0]])), (mean, torch.full((1, 4), 2e38))):
        for scale, bounded in ((1.0, False), (1e-3, True)):
            engine = Engine(read_torch(model.eval(), (point.shape[1],), torch.float64))
            known = engine.intervals(Domain(scale * point.double(), scale * point.double()))
            assert known.finite.tolist() == [bounded]
            low, high = both_ends(engine, known)
            assert bool(low.isfinite().all() and high.isfinite().all()) is bounded


@torch.no_grad()
def test_constants_and_refined_ends_are_rounded_outward() -> None:
    """In float32: the constant of a row through ReLUs, and ends of float64 that a refinement gives."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2000), nn.ReLU(), nn.Linear(2000, 2))
    engine = Engine(read_torch(model, (3,), torch.float32))
    domain = Domain(torch.zeros(1, 3, dtype=torch.float64), torch.ones(1, 3, dtype=torch.float64))
    known = engine.intervals(domain)
    relu, rows = next(iter(engine.relus.values())), -torch.rand(40, 2000)
    _, constants = engine.through(relu, rows, known, torch.zeros(40, dtype=torch.int64))
    exact = rows.double() @ known.lines(relu, relu.inputs[0])[2][0].double()
    assert (constants <= exact).all()
    assert (constants > exact * (1 + 1e-2)).all()
    given, places = dict[int, tuple[Tensor, Tensor]](), dict[int, Tensor]()

    def refine(held: ValueBounds, number: int, dom: Tensor, spot: Tensor) -> tuple[Tensor, Tensor]:
        low, high = held.lower[number][dom, spot].double(), held.upper[number][dom, spot].double()
        share = 0.3 * torch.rand(len(spot), dtype=torch.float64)
        given[number] = low + share * (high - low), high - share * (high - low)
        places[number] = spot
        return given[number]

    found = engine.bounds(Domain(domain.lower, domain.upper, 0.5 * domain.upper, 2.0), refine=refine)
    assert given
    for number, (low, high) in given.items():
        assert (found.lower[number][0, places[number]].double() <= low).all()
        assert (found.upper[number][0, places[number]].double() >= high).all()


def test_the_ends_of_inputs_are_rounded_outward() -> None:
    """Numbers of float64 that float32 rounds up and down."""
    ends = torch.tensor([[0.1, 0.7, -0.3, -0.9, 1e-45, 0.0]], dtype=torch.float64)
    known = Engine(read_torch(nn.Linear(6, 2), (6,), torch.float32)).start(Domain(ends, ends))
    assert (known.lower[0].double() <= ends).all()
    assert (known.upper[0].double() >= ends).all()
