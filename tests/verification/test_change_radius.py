"""The true radius of changes, against closed forms, dense samples of strengths and other ways to the same number."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import radii
from radii.bounds.bound_engine import Engine
from radii.change import Change
from radii.errors import ContradictionError, InputError
from radii.networks.operations.activations import Relu
from radii.networks.read_torch import read_torch
from radii.verification._carried_rounding import carried_rounding
from radii.verification._linear_pieces import Line, TooManyPiecesError, is_piecewise_linear, traced
from radii.verification.answer import Limits
from radii.verification.change_radius import _Point, change_radii
from radii.verification.true_radius import RadiusBracket

Maker = Callable[[], nn.Module]


def convolutional() -> nn.Module:
    """Convolutions, batch norm, leaky ReLU, both pools."""
    net = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, stride=2),
        nn.LeakyReLU(0.1), nn.AvgPool2d(1), nn.Flatten(), nn.Linear(8, 12), nn.ReLU6(), nn.Linear(12, 4),
    )  # fmt: skip
    return _spread(net)


class Residual(nn.Module):
    """A block with a sum, overlapping max pooling with padding, and a hard sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.pool, self.out = nn.MaxPool2d(3, stride=2, padding=1), nn.Linear(6 * 16, 4)

    def forward(self, x: Tensor) -> Tensor:
        """[n, 3, 8, 8] -> [n, 4]."""
        first = torch.relu(self.stem(x))
        whole = nn.functional.hardsigmoid(first + torch.relu(self.conv(first)))
        return self.out(self.pool(whole).flatten(1))


def _spread(net: nn.Module) -> nn.Module:
    """Steeper random weights: predictions change on the way."""
    torch.manual_seed(3)
    for parameter in net.parameters():
        parameter.data = (
            torch.randn_like(parameter)
            * (0.4 if parameter.dim() == 1 else 1.0)
            / max(1.0, parameter[0].numel() ** 0.5 / 2.5)
        )
    return net.eval()


def images(count: int = 3) -> Tensor:
    return torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def first_error(model: nn.Module, x: Tensor, change: Change, label: int, samples: int) -> float:
    """The smallest sampled radius at which the float32 network errs."""
    low = [-s if both else 0.0 for s, both in zip(change.strengths, change.signed, strict=True)]
    draw = torch.rand(samples, change.parameters, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    t = torch.tensor(low) + draw * (torch.tensor(change.strengths, dtype=torch.float64) - torch.tensor(low))
    wrong = []
    for part in t.split(4096):
        wrong.append(model(change.path(x.expand(len(part), -1, -1, -1)).at(part)).argmax(1) != label)
    sizes = change.radius_of(t)[torch.cat(wrong)]
    return float(sizes.min()) if len(sizes) else np.inf


@pytest.mark.parametrize("net", [convolutional, lambda: _spread(Residual())])
@pytest.mark.parametrize(
    "text",
    ["brightness:0.4", "contrast:0.8", "blur:2", "motion:1.5,angle=30", "bias:1,angle=45", "gamma:1", "hue:20"],
)  # fmt: skip
def test_no_sampled_strength_errs_below_the_proved_one(net: Maker, text: str) -> None:
    model, x, change = net(), images(), Change.parse(text)
    found = change_radii(model, x, change)
    assert (found.proved <= found.broken).all()
    assert not found.measured.any()
    for i in range(len(x)):
        sampled = first_error(model, x[i : i + 1], change, int(found.prediction[i]), 5000)
        assert sampled >= float(found.proved[i]), (text, i)
        if np.isfinite(float(found.broken[i])):
            assert int(model(found.nearest[i : i + 1]).argmax(1)) != int(found.prediction[i])
            assert found.broken[i] - found.proved[i] <= 0.02 * found.broken[i], (text, i)
        else:
            assert sampled == np.inf
            assert found.proved[i] >= 0.97 * change.strength


def test_a_linear_network_has_a_closed_form() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(48, 3)).eval(), 0.3 + 0.4 * torch.rand(20, 3, 4, 4)
    found = change_radii(model, x, Change("brightness", 0.29))  # no pixel is clipped
    weight, bias = model[1].weight.detach().double(), model[1].bias.detach().double()
    logits = x.flatten(1).double() @ weight.T + bias
    for i, label in enumerate(found.prediction.tolist()):
        lead, slope = logits[i, label] - logits[i], (weight[label] - weight).sum(1)
        exact = min(float(abs(lead[c] / slope[c])) for c in range(3) if c != label and slope[c] != 0)
        if exact < 0.29:
            assert float(found.proved[i]) <= exact + 1e-9
            assert float(found.proved[i]) == pytest.approx(exact, rel=2e-3)
            assert float(found.broken[i]) == pytest.approx(exact, rel=1e-4)
        else:
            assert float(found.proved[i]) == 0.29
    assert (found.broken < 1).any()


def test_clipping_belongs_to_the_network() -> None:
    """One bright pixel of 0.9 against a constant 0.95: brightness can never pass it, for it is clipped at 1."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2)).eval()
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([[0.0], [1.0]]))
        model[1].bias.copy_(torch.tensor([1.01, 0.0]))
    found = change_radii(model, torch.full((1, 1, 1, 1), 0.9), Change("brightness", 0.5))
    assert float(found.proved[0]) == 0.5
    with torch.no_grad():
        model[1].bias.copy_(torch.tensor([0.95, 0.0]))
    found = change_radii(model, torch.full((1, 1, 1, 1), 0.9), Change("brightness", 0.5))
    assert float(found.proved[0]) == pytest.approx(0.05, rel=1e-3)
    assert float(found.broken[0]) == pytest.approx(0.05, rel=1e-3)


def test_an_error_just_beyond_the_strength_closes_the_bracket() -> None:
    """At the strength the lead is smaller than the rounding of a float32 image: neither proved nor broken there."""
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(1, 2)).eval(), torch.full((1, 1, 1, 1), 0.2)
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([[0.0], [1.0]]))
        model[1].bias.copy_(torch.tensor([0.2 + 0.3 + 3e-8, 0.0]))
    found = change_radii(model, x, Change("brightness", 0.3))
    assert 0.2999 < float(found.proved[0]) < 0.3 < float(found.broken[0]) < 0.3001
    assert int(model(found.nearest).argmax(1)) == 1
    scores = radii.evaluate(model, x, torch.zeros(1, dtype=torch.int64), "brightness:0.3")
    assert scores.radius_known().value == 1
    assert not scores.points.changed[0]  # no error within the strength
    assert not scores.points.proved[0]
    assert torch.equal(scores.x_adv, x)


@pytest.mark.parametrize("net", [convolutional, lambda: _spread(Residual())])
def test_pieces_are_the_network_in_float64(net: Maker) -> None:
    model, path = net(), Change("contrast", 1.0).path(images(1))
    program = read_torch(model, (3, 8, 8), torch.float64)
    ends = torch.tensor([-0.7, 0.9], dtype=torch.float64)
    line = Line(ends, torch.cat([path.before_clip(t.view(1, 1)).flatten(1) for t in ends]), torch.zeros(192))
    with torch.no_grad():
        pieces = traced(program, line, Engine(program), lambda: None)
        t = torch.linspace(-0.7, 0.9, 3000, dtype=torch.float64)
        exact = program.run(torch.cat([path.before_clip(s.view(1, 1)) for s in t]).clamp(0, 1))
        own = model(torch.cat([path.at(s.view(1, 1)) for s in t]))
    assert len(pieces.nodes) > 30
    assert pieces.slack is not None
    for c in range(4):
        between = np.interp(t.numpy(), pieces.nodes.numpy(), pieces.outputs[:, c].numpy())
        assert np.abs(between - exact[:, c].numpy()).max() < 1e-12
        assert np.abs(between - own[:, c].double().numpy()).max() <= float(pieces.slack[c])


@pytest.mark.parametrize("order", ["as given", "large first", "positive first"])
def test_slack_covers_the_sums_in_any_order(order: str) -> None:
    """Sums that cancel: half of n u (|W| |x| + |b|) suffices, and no order of the terms exceeds it."""
    torch.manual_seed(1)
    layer = nn.Linear(768, 8)
    layer.weight.data = torch.randn(8, 768) * torch.rand(8, 768) ** 4
    model, path = nn.Sequential(nn.Flatten(), layer).eval(), Change("brightness", 0.1).path(torch.rand(1, 3, 16, 16))
    program = read_torch(model, (3, 16, 16), torch.float64)
    ends = torch.tensor([0.0, 1e-6], dtype=torch.float64)
    line = Line(ends, torch.cat([path.before_clip(t.view(1, 1)).flatten(1) for t in ends]), torch.zeros(768))
    with torch.no_grad():
        pieces = traced(program, line, Engine(program), lambda: None)
        x = path.at(torch.zeros(1, 1)).flatten()
        terms = torch.cat([layer.weight * x, layer.bias[:, None]], 1).numpy()
    keys = {"as given": 0 * terms, "large first": -np.abs(terms), "positive first": -np.sign(terms)}
    terms = np.take_along_axis(terms, np.argsort(keys[order], 1, kind="stable"), 1)
    own = np.zeros(8, np.float32)
    for term in terms.T:
        own = own + term
    assert pieces.slack is not None
    slack = pieces.slack.numpy()
    assert own.dtype == np.float32
    assert (np.abs(own - pieces.outputs[0].numpy()) <= slack).all()
    assert (slack < 0.65 * 769 * 2.0**-24 * np.abs(terms).sum(1)).all()


@pytest.mark.parametrize("activation", [nn.LeakyReLU(0.9), nn.LeakyReLU(0.97), nn.Hardsigmoid()])
def test_the_rounding_of_activations_counts(activation: nn.Module) -> None:
    """Many in a row behind one product: their own rounding is nearly all there is."""
    start = nn.Conv2d(1, 1, 1)
    start.weight.data[:], start.bias.data[:] = -1.0, 0.0
    model = nn.Sequential(start, *[activation] * 24, nn.Flatten()).eval()
    path = Change("brightness", 0.1).path(torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(0)))
    program = read_torch(model, (1, 8, 8), torch.float64)
    ends = torch.tensor([0.0, 1e-9], dtype=torch.float64)
    line = Line(ends, torch.cat([path.before_clip(t.view(1, 1)).flatten(1) for t in ends]), torch.zeros(64))
    with torch.no_grad():
        pieces = traced(program, line, Engine(program), lambda: None)
        off = (model(path.at(torch.zeros(1, 1)))[0].double() - pieces.outputs[0]).abs()
    assert pieces.slack is not None
    assert (off <= pieces.slack).all()
    assert (off <= carried_rounding(program, pieces, torch.eye(64, dtype=torch.float64))).all()


def test_moderately_deep_networks_have_bounded_rounding() -> None:
    """Where most ReLUs are surely on or off, rounding is carried through them exactly, and none is measured."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()]
    for _ in range(5):
        layers += [nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 3)).eval()
    for part in model:
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight)
    found = change_radii(model, images(3), Change("brightness", 0.1))
    assert not found.measured.any()
    assert (found.proved > 0).all()


def test_an_error_at_strength_0_is_no_contradiction() -> None:
    """Two equal classes: which of them is said depends on rounding, and nothing is proved."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 64), nn.ReLU(), nn.Linear(64, 2)).eval()
    with torch.no_grad():
        model[3].weight[1], model[3].bias[1] = model[3].weight[0], model[3].bias[0]
        model[1].weight.mul_(30)
    x, label = images(2), torch.zeros(2, dtype=torch.int64)
    known = RadiusBracket(label, torch.zeros(2).double(), torch.zeros(2).double(), x)
    found = change_radii(model, x, Change("bias", 1.0), start=known)
    assert (found.proved == 0).all()


def test_too_many_pieces_are_said() -> None:
    model, path = convolutional(), Change("brightness", 0.5).path(images(1))
    program = read_torch(model, (3, 8, 8), torch.float64)
    ends = torch.tensor([0.0, 0.5], dtype=torch.float64)
    line = Line(ends, torch.cat([path.before_clip(t.view(1, 1)).flatten(1) for t in ends]), torch.zeros(192))
    with torch.no_grad(), pytest.raises(TooManyPiecesError):
        traced(program, line, None, lambda: None, numbers=2000)


def test_a_limit_of_pieces_ends_early_and_proves_less() -> None:
    model, x, change = convolutional(), images(2), Change("brightness", 0.4)
    few, all_of_them = change_radii(model, x, change, pieces=40), change_radii(model, x, change)
    assert (few.proved <= all_of_them.proved).all()
    assert (few.pieces < all_of_them.pieces).any()


def test_a_wrong_error_is_a_contradiction() -> None:
    model, x, change = convolutional(), images(3), Change("brightness", 0.4)
    own = change_radii(model, x, change)
    row = int(own.proved.argmax())
    assert own.proved[row] > 0.02
    wrong = RadiusBracket(own.prediction[[row]], torch.zeros(1).double(), torch.tensor([0.01]).double(), x[[row]])
    with pytest.raises(ContradictionError, match="is proved for strengths"):
        change_radii(model, x[[row]], change, start=wrong)


def test_deep_networks_have_measured_rounding_and_say_so() -> None:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(192, 32)]
    for _ in range(24):
        layers += [nn.ReLU(), nn.Linear(32, 32)]
    model = nn.Sequential(*layers, nn.ReLU(), nn.Linear(32, 3)).eval()
    for part in model:
        if isinstance(part, nn.Linear):
            nn.init.orthogonal_(part.weight, 2**0.5)
    x, change = images(3), Change("brightness", 0.2)
    found = change_radii(model, x, change)
    assert found.measured.all()
    assert "rounding was measured" in found.note
    certificate = radii.certify(model, x, threat="brightness:0.2")
    assert certificate.arithmetic == "exact"
    assert torch.equal(certificate.radius, found.proved)
    for i in range(3):
        assert first_error(model, x[i : i + 1], change, int(found.prediction[i]), 4000) >= float(found.proved[i])


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
def test_two_parameters_and_smooth_activations(activation: type[nn.Module]) -> None:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), activation(), nn.Linear(8, 3)).eval()
    model[1].weight.data *= 3
    x = images(2)
    for text in ("blur:1+brightness:0.2", "brightness:0.3"):
        change = Change.parse(text)
        found = change_radii(model, x, change)
        assert (found.proved <= found.broken).all()
        assert (found.proved > 0).all()
        for i in range(2):
            assert first_error(model, x[i : i + 1], change, int(found.prediction[i]), 5000) >= float(found.proved[i])


def test_what_cannot_be_proved_is_said() -> None:
    x = images(1)
    smooth = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.GELU(), nn.Linear(8, 3)).eval()
    assert is_piecewise_linear(read_torch(smooth, (3, 8, 8))) is not None
    with pytest.raises(InputError, match="gamma is proved for piecewise linear networks"):
        change_radii(smooth, x, Change("gamma", 0.5))
    with pytest.raises(InputError, match="For rotate there is no proof"):
        change_radii(smooth, x, Change("rotate", 5))


def test_a_head_is_part_of_the_network() -> None:
    model = nn.Sequential(convolutional(), nn.Softmax(1)).eval()
    x, y = images(3), torch.zeros(3, dtype=torch.int64)
    for text in ("brightness:0.4", "brightness:0.1+contrast:0.2"):
        scores = radii.evaluate(model, x, y, text, complete=0.0)
        plain = radii.evaluate(model[0], x, y, text, complete=0.0)
        assert scores.points.proved_radius == pytest.approx(plain.points.proved_radius, rel=0.05)


def test_a_lead_must_exceed_the_rounding_of_both_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what the model's last operation asks beside; measured rounding is that of a lead already."""
    carried = torch.tensor([float("nan"), 0.2], dtype=torch.float64)  # the rounding of a lead, where it is known better
    monkeypatch.setattr("radii.verification.change_radius.carried_rounding", lambda *_: carried)
    bounded_network = SimpleNamespace(margin=0.01, exact=None)
    own = SimpleNamespace(label=1, slack=0.5, bounded=bounded_network, _rows=lambda: None)
    outputs, slack = torch.zeros(2, 3), torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    bounded = _Point._slacks(own, SimpleNamespace(outputs=outputs, slack=slack))  # type: ignore[arg-type]
    measured = _Point._slacks(own, SimpleNamespace(outputs=outputs, slack=None))  # type: ignore[arg-type]
    assert bounded.tolist() == pytest.approx([0.31, 0.21])
    assert measured.tolist() == pytest.approx([0.51, 0.51])


def test_what_is_proved_holds_in_every_direction() -> None:
    for reach, stuck, broken, proved in (
        ({1.0: 0.3, -1.0: 0.1}, inf, inf, 0.1),
        ({1.0: 0.3}, inf, inf, 0.3),
        ({1.0: 0.3, -1.0: 0.3}, 0.2, inf, 0.2),
        ({1.0: 0.3, -1.0: 0.3}, 0.25, 0.2, 0.2),
    ):
        own = SimpleNamespace(reach=reach, stuck=stuck, broken=broken)
        assert _Point.proved.fget(own) == proved  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["gamma:0.7", "hue:40", "brightness:0.5"])
def test_curved_changes_stay_near_their_chords(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two nodes a pixel leaves the line by at most what is said, which is little beside the whole change."""
    monkeypatch.setattr("radii.verification.change_radius.traced", lambda _program, line, _engine, _check: line)
    path = Change.parse(text).path(torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(0)))
    bounded = SimpleNamespace(exact=None, engine=SimpleNamespace(program=None))
    own = SimpleNamespace(path=path, bounded=bounded, engine=None)
    strength = path.change.strength
    line = _Point._trace(own, 0.2 * strength, strength, Limits())  # type: ignore[arg-type]
    assert isinstance(line, Line)
    t = (line.nodes[:-1] + line.nodes[1:]) / 2
    middle = torch.cat([path.before_clip(own_t[None, None]).flatten(1) for own_t in t[:: max(1, len(t) // 50)]])
    chords = ((line.images[:-1] + line.images[1:]) / 2)[:: max(1, len(t) // 50)]
    assert ((middle - chords).abs() <= line.off + 1e-12).all()
    assert float(line.off.max()) < 1e-5


@torch.no_grad()
def test_carried_rounding_covers_a_relu_that_bends() -> None:
    """Where a value may have both signs all of its error may pass: half of it in the center, half in the radius."""
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)).eval()
    for layer, weight, bias in ((model[0], 3.0, -1.5), (model[2], 2.0, 0.0)):
        layer.weight.fill_(weight)
        layer.bias.fill_(bias)
    program = read_torch(model, (1,), torch.float64)
    nodes = torch.tensor([0.0, 1.0], dtype=torch.float64)
    pieces = traced(program, Line(nodes, nodes[:, None], torch.zeros(1)), Engine(program), lambda: None)
    before = next(step.inputs[0] for step in program.steps.values() if isinstance(step, Relu))
    last = float(pieces.trail[program.output].error)
    for sign in (1.0, -1.0):
        carried = carried_rounding(program, pieces, torch.tensor([[sign]], dtype=torch.float64))
        assert float(carried) >= 2 * float(pieces.trail[before].error) + last
