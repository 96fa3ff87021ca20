"""Certificates are about the values that the user's model returns in float32: networks whose arithmetic misleads.

Each network is ordinary torch code. Whatever is certified is compared with what the model itself returns at many
points of the ball; a refusal or a radius of 0 is as good. Every test goes through the public functions alone.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import radii
from radii.errors import InputError
from radii.models.heads import Headed, provable
from radii.threat import Ball

LINF = ("ibp", "crown-ibp", "crown", "alpha-crown", "complete", "auto")
L2 = ("margin", "ibp", "crown", "alpha-crown", "auto")
CASES = [(method, "linf") for method in LINF] + [(method, "l2") for method in L2]
every_method = pytest.mark.parametrize(("method", "norm"), CASES)


def answered(model: nn.Module, x: Tensor) -> Tensor:
    """The class of what the model returns, ties to the lowest; one output is the probability of class 1."""
    with torch.no_grad():
        values = model(x)
    values = values.reshape(len(x), -1)
    if values.shape[1] == 1:
        return (values[:, 0] > 0.5).long()
    wrong = values.isnan().any(1)
    return torch.where(wrong, -1, values.argmax(1))


def around(x: Tensor, ball: Ball, n: int = 400) -> Tensor:
    """Points of the ball around one input [1, …]: random ones, and those at the ends of single coordinates."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.rand(n, *x.shape[1:], generator=generator) * 2 - 1
    ends = torch.eye(x[0].numel()).view(-1, *x.shape[1:])
    steps = torch.cat([spread, spread.sign(), ends, -ends, *(share * spread.sign() for share in (0.9, 0.99, 0.999))])
    return ball.project(x + ball.radius * steps, x.expand(len(steps), *x.shape[1:]))


def check_true(model: nn.Module, x: Tensor, radius: float, method: str, norm: str) -> list[float]:
    """The certified radii, every one true of the values that the model returns."""
    try:
        proof = radii.certify(model, x, method, f"{norm}:{radius}", seconds=1)
    except InputError:
        return [0.0] * len(x)
    for row, (prediction, proved) in enumerate(zip(proof.prediction.tolist(), proof.radius.tolist(), strict=True)):
        if proved > 0:
            points = around(x[row : row + 1], Ball(norm, min(proved, 1.0)))  # type: ignore[arg-type]
            assert set(answered(model, points).tolist()) == {prediction}
    return proof.radius.tolist()


# --- what is computed on the way is larger than the result ----------------------------------------------


class Huge(nn.Module):
    """Class 1 while 1e-38 times an average of 1.6e38 x is below 1; the sum of the average overflows before that."""

    def __init__(self, average: Callable[[Tensor], Tensor], scale: float = 1.6e38, size: int = 4) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(1, size, bias=False), nn.Linear(1, 2)
        self.average = average
        with torch.no_grad():
            self.first.weight.fill_(scale)
            self.last.weight.copy_(torch.tensor([[1e-38], [0.0]]))
            self.last.bias.copy_(torch.tensor([0.0, 1.0]))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        side = int(hidden.shape[1] ** 0.5)
        return self.last(self.average(hidden.view(len(x), 1, side, side)).flatten(1))


AVERAGES: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda h: h.mean((2, 3)),
    "mean of a flat vector": lambda h: h.flatten(1).mean(1, keepdim=True),
    "mean of means": lambda h: h.mean(2).mean(2),
    "average pool": lambda h: F.avg_pool2d(h, 2),
    "padded average pool": lambda h: F.avg_pool2d(h, 2, padding=1, stride=2).mean((2, 3)),
    "average pool with a divisor": lambda h: F.avg_pool2d(h, 2, divisor_override=7),
    "adaptive average pool": lambda h: F.adaptive_avg_pool2d(h, 1),
    "a share of the sum": lambda h: h.sum((2, 3)) * 0.25,
    "the sum of shares": lambda h: (h * 0.25).sum((2, 3)),
}


@every_method
@pytest.mark.parametrize("average", AVERAGES)
def test_sums_of_averages_that_overflow(average: str, method: str, norm: str) -> None:
    x = torch.tensor([[0.45], [0.5], [0.1]])
    check_true(Huge(AVERAGES[average]).eval(), x, 0.15, method, norm)


@every_method
def test_layers_of_torch_whose_sums_overflow(method: str, norm: str) -> None:
    """The same as modules, which margins read layer by layer."""
    for pool in (nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1)):
        first, last = nn.Conv2d(1, 1, 1, bias=False), nn.Linear(1, 2)
        with torch.no_grad():
            first.weight.fill_(1.6e38)
            last.weight.copy_(torch.tensor([[1e-38], [0.0]]))
            last.bias.copy_(torch.tensor([0.0, 1.0]))
        model = nn.Sequential(first, pool, nn.Flatten(), last).eval()
        check_true(model, torch.full((1, 1, 2, 2), 0.45), 0.15, method, norm)


@every_method
@pytest.mark.parametrize(
    ("weight", "variance", "mean"),
    [
        (1e-30, 1e30, 0.0),
        (1.0, 3e38, -3e38),
        (1e-38, 1e38, 3e38),
        (1e30, 1e-10, 0.0),
        (1e-25, 1e-12, 1e20),
        (3e38, 1e38, 1.0),
    ],
)
def test_batch_norms_at_the_ends_of_float32(
    weight: float, variance: float, mean: float, method: str, norm: str
) -> None:
    """Convolution, batch norm and head whose product is of ordinary size."""
    first, middle, last = nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1, eps=1e-12), nn.Linear(4, 2)
    scale = weight / (variance + 1e-12) ** 0.5
    with torch.no_grad():
        first.weight.fill_(1.0)
        first.bias.fill_(mean)
        middle.weight.fill_(weight)
        middle.running_var.fill_(variance)
        middle.running_mean.fill_(mean)
        last.weight.copy_(torch.tensor([[1.0] * 4, [-1.0] * 4]) * min(1e30, 1 / max(scale, 1e-38)))
        last.bias.copy_(torch.tensor([-1.5, 1.5]))
    model = nn.Sequential(first, middle, nn.ReLU(), nn.Flatten(), last).eval()
    check_true(model, torch.rand(4, 1, 2, 2, generator=torch.Generator().manual_seed(0)), 0.1, method, norm)


class Through(nn.Module):
    """A network with one function between its layers."""

    def __init__(self, between: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.between = nn.Linear(4, 8), nn.Linear(8, 3), between

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.between(self.first(x)))


NORMALIZED: dict[str, Callable[[Tensor], Tensor]] = {
    "layer norm": lambda h: F.layer_norm(h, (8,)),
    "group norm": lambda h: F.group_norm(h, 2),
    "unit length": lambda h: F.normalize(h),
    "division by the variance": lambda h: h / h.var(1, keepdim=True),
    "division by the deviation": lambda h: h / h.std(1, keepdim=True),
    "logarithm of a sum of exponentials": lambda h: h - h.logsumexp(1, keepdim=True),
    "distances": lambda h: torch.cdist(h[:, None], torch.ones(1, 8, 8))[:, 0],
    "norm": lambda h: h - h.norm(dim=1, keepdim=True),
    "softmax inside": lambda h: h.softmax(1),
    "products": lambda h: h * h,
}


@every_method
@pytest.mark.parametrize("between", NORMALIZED)
def test_what_is_normalized_by_its_own_values_is_refused_or_true(between: str, method: str, norm: str) -> None:
    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(1))
    for scale in (1.0, 1e19, 1e-25):
        model = Through(NORMALIZED[between]).eval()
        with torch.no_grad():
            model.first.weight.mul_(scale)
        check_true(model, x, 0.05, method, norm)


@every_method
def test_ordinary_averages_and_batch_norms_are_certified(method: str, norm: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)),
    )
    model(torch.rand(64, 1, 4, 4))
    with torch.no_grad():
        model[-1].bias.copy_(torch.tensor([1.0, -1.0]))
    assert max(check_true(model.eval(), torch.rand(3, 1, 4, 4), 0.02, method, norm)) > 0


# --- heads: the prediction is the argmax of what is returned ---------------------------------------------


def headed(weight: list[list[float]], bias: list[float], head: nn.Module) -> nn.Sequential:
    linear = nn.Linear(len(weight[0]), len(weight))
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(weight))
        linear.bias.copy_(torch.tensor(bias))
    return nn.Sequential(linear, head).eval()


class Half(nn.Softmax):
    """A head of one's own that torch's class does not describe."""

    def forward(self, x: Tensor) -> Tensor:
        return 1 - super().forward(x)


def with_hook(model: nn.Module) -> nn.Module:
    model.register_forward_hook(lambda _module, _input, output: -output)
    return model


COUNT = 4
SATURATED: dict[str, Callable[[], nn.Sequential]] = {
    "two sigmoids at 1": lambda: headed([[40.0, 0, 0, 0], [40.0, 0, 0, 0]], [-10.0, -9.0], nn.Sigmoid()),
    "ten sigmoids at 1": lambda: headed([[0.1] * 4] * 10, [20.0 + 2 * k for k in range(10)], nn.Sigmoid()),
    "sigmoids at 0": lambda: headed([[-1.0] * 4] * 3, [-120.0, -110.0, -100.0], nn.Sigmoid()),
    "sigmoids at the last steps below 1": lambda: headed([[2.0, 0, 0, 0], [2.0, 0, 0, 0]], [15.0, 15.05], nn.Sigmoid()),
    "one sigmoid at 1/2": lambda: headed([[1e-9] * 4], [1e-10], nn.Sigmoid()),
    "one sigmoid near 1/2": lambda: headed([[1e-7, 0, 0, 0]], [2e-8], nn.Sigmoid()),
    "a softmax of equals": lambda: headed(
        [[0.0, 0, 0, 1e-9], [1e-9] * 4, [0.0, 0, 0, 0]], [0.0, 1e-8, 0.0], nn.Softmax(1)
    ),
    "a softmax of near equals": lambda: headed([[1e-6, 0, 0, 0], [0.0, 1e-6, 0, 0]], [0.0, 2e-8], nn.Softmax(-1)),
    "a softmax that underflows": lambda: headed(
        [[0.0] * 4, [1e-9] * 4, [50.0] * 4], [-200.0, -199.99999, 0.0], nn.Softmax(1)
    ),
    "a softmax over the batch": lambda: headed([[1.0] * 4, [0.5] * 4], [0.0, 0.5], nn.Softmax(0)),
    "a softmax of a class of its own": lambda: headed([[1.0] * 4, [0.5] * 4], [0.0, 0.5], Half(1)),
    "a hook on the head": lambda: headed([[1.0] * 4, [0.5] * 4], [0.0, 0.5], with_hook(nn.Softmax(1))),
    "a hook on all": lambda: with_hook(headed([[1.0] * 4, [0.5] * 4], [0.0, 0.5], nn.Softmax(1))),  # type: ignore[dict-item]
    "a sigmoid behind huge logits": lambda: headed([[3e38] * 4, [1e38] * 4], [0.0, 0.0], nn.Sigmoid()),
}


@every_method
@pytest.mark.parametrize("case", SATURATED)
def test_saturated_heads_get_no_false_certificate(case: str, method: str, norm: str) -> None:
    x = torch.tensor([[0.5] * 4, [0.45, 0.5, 0.5, 0.55], [0.2] * 4])
    check_true(SATURATED[case](), x, 0.2, method, norm)


@pytest.mark.parametrize("case", SATURATED)
def test_evaluations_count_what_the_model_returns(case: str) -> None:
    """Clean accuracy, proofs and successes of attacks are about the argmax of the returned values."""
    model, x = SATURATED[case](), torch.tensor([[0.5] * 4, [0.45, 0.5, 0.5, 0.55], [0.2] * 4])
    if "batch" in case or "hook" in case or "of its own" in case:
        return  # attacked as they are
    y = answered(model, x)
    scores = radii.evaluate(model, x, y.clamp_min(0), "linf:0.2", suite="fast", alarms=False)
    assert scores.points.prediction.tolist() == y.tolist()
    assert scores.clean.correct == len(x)
    found = answered(model, scores.x_adv)
    assert (found != y)[torch.from_numpy(scores.points.changed)].all()


@every_method
@pytest.mark.parametrize("head", [nn.Softmax(1), nn.Softmax(-1), nn.Softmax(), nn.Sigmoid()], ids=str)
@pytest.mark.parametrize("classes", [1, 2, 5])
def test_ordinary_heads_are_certified(head: nn.Module, classes: int, method: str, norm: str) -> None:
    if classes == 1 and isinstance(head, nn.Softmax):
        return
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, classes))
    with torch.no_grad():
        net[2].bias.copy_(torch.linspace(2.0, -2.0, classes))
    x = torch.rand(4, 4, generator=torch.Generator().manual_seed(2))
    plain = check_true(nn.Sequential(*net).eval(), x, 0.01, method, norm) if classes > 1 else [0.01]
    proved = check_true(nn.Sequential(*net, head).eval(), x, 0.01, method, norm)
    assert sum(radius > 0 for radius in proved) >= sum(radius >= 0.01 for radius in plain) - 1
    assert max(proved) > 0


def test_the_margin_of_a_head_is_enough_for_its_float32_values() -> None:
    """Over float32 logits: softmax from 2^-16 on, sigmoid from 2^-7 on between -80 and 8, one sigmoid from 2^-16 on."""
    generator = torch.Generator().manual_seed(0)
    size = 10.0 ** torch.empty(200_000, 1).uniform_(-3, 4, generator=generator)
    logits = torch.randn(200_000, 5, generator=generator) * size
    top = logits.amax(1, keepdim=True)
    step = torch.maximum(torch.tensor(2.0**-16), top.abs() * 2.0**-23)  # no smaller step is a float32 number
    near = torch.cat([top + step, torch.minimum(logits, top)], 1)
    values = near.softmax(1)
    assert bool((values[:, :1] > values[:, 1:]).all())
    z = torch.cat([torch.linspace(-80, 8 - 2.0**-7, 2_000_000), 8 - 2.0**-7 - torch.logspace(-7, 1, 200_000)])
    above = z + torch.maximum(torch.tensor(2.0**-7), z.abs() * 2.0**-23)
    assert bool((above.sigmoid() > z.sigmoid()).all())
    assert bool((torch.linspace(8, 200, 100_000).sigmoid() >= torch.tensor(8.0).sigmoid()).all())
    assert float(torch.tensor(-90.0).sigmoid()) < float(torch.tensor(-80.0).sigmoid())
    one = torch.logspace(-16 * 0.30103, 2, 200_000).clamp_min(2.0**-16)
    assert bool((one.sigmoid() > 0.5).all())
    assert bool(((-one).sigmoid() < 0.5).all())


def test_certificates_of_headed_models_can_be_checked_and_used() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(1)).eval()
    x = torch.rand(6, 4)
    proof = radii.certify(model, x, "crown", "linf:0.01")
    proof.check(model)
    radii.evaluate(model, x, answered(model, x), "linf:0.01", certificate=proof, suite="fast", alarms=False)
    with torch.no_grad():
        model[0].weight.mul_(-1)
    with pytest.raises(InputError, match="Certify it again"):
        proof.check(model)


class Changing(nn.Module):
    """Returns its logits in a tuple, negated for the inputs that it is certified on."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net, self.asked = nn.Linear(4, 3), 0

    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (self.net(x),)


def test_a_rewritten_network_that_differs_is_refused_with_the_first_input(monkeypatch: pytest.MonkeyPatch) -> None:
    from radii.models import adapter

    x, model = torch.rand(5, 4, generator=torch.Generator().manual_seed(0)), Changing().eval()
    said = model(x)[0].argmax(1).tolist()
    monkeypatch.setattr(adapter.Adapted, "forward", lambda self, x: -self.net(x)[0])
    other = (-model(x)[0]).argmax(1).tolist()
    sentence = f"returns class {said[0]} for input 0, and the network that was made of it .* class {other[0]}"
    with pytest.raises(InputError, match=sentence):
        radii.evaluate(model, x, torch.tensor(said), "linf:0.01")


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-6])
def test_attacks_on_probabilities_break_what_is_returned(scale: float) -> None:
    """Logarithms of neighboring float32 probabilities are equal, and a success must not rest on that."""

    class Probabilities(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = nn.Linear(4, 40)

        def forward(self, x: Tensor) -> Tensor:
            return (self.net(x) * scale).softmax(1)

    x = torch.rand(20, 4, generator=torch.Generator().manual_seed(0))
    model = Probabilities().eval()
    y = answered(model, x)
    scores = radii.evaluate(model, x, y, "linf:0.05", suite="fast", alarms=False)
    assert scores.points.prediction.tolist() == y.tolist()
    assert (answered(model, scores.x_adv) != y)[torch.from_numpy(scores.points.changed)].all()


@every_method
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_narrow_arithmetic_is_not_taken_for_float32(kind: torch.dtype, method: str, norm: str) -> None:
    """As the type of the weights, or by autocast around the certificate."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)).eval()
    with torch.autocast("cpu", kind), pytest.raises(InputError):
        radii.certify(model, torch.rand(3, 4), method, f"{norm}:0.01")
    with pytest.raises(InputError):
        radii.certify(model.to(kind), torch.rand(3, 4).to(kind), method, f"{norm}:0.01")


@torch.no_grad()
def test_the_lead_that_is_asked_for_shows_in_float32() -> None:
    """At every size of the logits: those that lead by half more than it, behind its clamp, return a larger value."""
    for head, raw in ((nn.Sigmoid(), torch.zeros(1, 3)), (nn.Softmax(1), torch.zeros(1, 3))):
        network, least = provable(Headed(nn.Identity(), head, raw).eval())
        top = torch.cat([torch.linspace(-79, 8, 20_000), torch.linspace(7, 8, 20_000)])
        logits = torch.stack([top, top - 1.5 * least, torch.full_like(top, -90.0)], 1)
        kept = network(logits)
        leads = kept[:, 0].double() - kept[:, 1].double() > least
        assert leads.float().mean() > 0.4
        values = head(logits)
        assert (values[leads, 0] > values[leads, 1]).all()
