# ruff: noqa: E501
"""Networks as users write them: random forward functions, patches, hooks, subclasses, state and dtypes.

A program is drawn from a grammar of statements and compiled. Most forms mean
what a reader expects; some depend on the batch, on values or on earlier calls.
A certificate may be refused, but where it is given it must hold.
"""

from __future__ import annotations

from random import Random

import torch
from torch import Tensor, nn

from campaign.tally import Tally, try_certificates

FEATURES, HIDDEN, CLASSES = 6, 8, 3
PREPROCESSING = (
    "pass", "pass", "x = (x - 0.5) / 0.25", "x = x.sub_(0.5).div_(0.25)", "x.mul_(2).sub_(1)", "x -= 0.4",
    "x = x.clone(); x -= 0.4", "x = torch.clamp(x, 0.1, 0.9)", "x.clamp_(0.1, 0.9)", "x = x.flatten(1)",
    "x = F.hardtanh(x, 0.2, 0.8, inplace=True)", "x = x.contiguous().view(x.size(0), -1)", "x[:, 0] = 0.5",
    "x = x.float()", "x.data.mul_(3)", "x = 2 * x - 1", "x = x[:, torch.arange(6).flip(0)]", "x = x.detach()",
)  # fmt: skip
LINEAR = (
    "h = self.a(x)", "h = self.a(x)", "h = F.linear(x, self.a.weight, self.a.bias)", "h = x @ self.a.weight.T + self.a.bias",
    "h = torch.addmm(self.a.bias, x, self.a.weight.t())", "h = self.first(x)", "h = torch.einsum('ni,oi->no', x, self.a.weight)",
    "h = self.a(x) - self.a(0.5 * x)",
)  # fmt: skip
ACTIVATION = (
    "h = F.relu(h)", "h = self.act(h)", "F.relu_(h)", "h.relu_()", "h = torch.relu(h)", "h = h.clamp(min=0)", "h.clamp_(min=0)",
    "h = torch.maximum(h, torch.zeros_like(h))", "h = h * (h > 0)", "h[:, :4].relu_()", "h[:, ::2] = h[:, ::2].relu()",
    "v = h.view(-1, 2, 4); v[:, 0].relu_()", "h = torch.cat([h[:, :3].relu(), h[:, 3:]], 1)",
    "h = torch.where(h > 0, h, 0.1 * h)", "h = F.leaky_relu(h, 0.1)", "h = h.abs()", "h = torch.max(h, 0.3 * h)",
    "h = h.sigmoid()", "h = h.tanh()", "h = F.hardtanh(h, -0.5, 0.5)", "h = (h > 0).float()", "h = h.round()",
    "g = h.t(); g.clamp_(min=0)", "h = h + (h > 0) + (h > 1)", "h = F.avg_pool1d(h[:, None], 2)[:, 0].repeat(1, 2)",
    "h = F.max_pool1d(h[:, None], 2)[:, 0].repeat(1, 2)", "h = torch.nn.functional.gelu(h)", "a, b = h.chunk(2, 1); a.neg_()",
    "h = h.sort(1).values", "h = F.normalize(h)", "h = h / (1 + h.abs())", "h.index_fill_(1, torch.tensor([0]), 0.0)",
)  # fmt: skip
MIXING = (
    "pass", "pass", "h = h + F.relu(self.b(h))", "h += self.b(h)", "h = torch.add(h, self.b(h), alpha=0.5)", "h = self.b(self.b(h))",
    "h = self.b(h).relu(); h = self.b(h)", "h = h - h.mean(0)", "h = -h if x.shape[0] > 3 else h", "h = h * h.shape[0]",
    "h = 2 * h if float(h.sum()) > 0 else h", "h = -h if x.detach().numpy().mean() > 0.5 else h", "h = h + self.shift",
    "self.shift.add_(0.1); h = h + self.shift", "self.calls += 1; h = h * (1 + self.calls % 2)", "h = F.dropout(h, 0.3)",
    "h = h + 1e-3 * torch.randn_like(h)", "h = self.norm(h)", "h = h * 1e30; h = h * 1e-30", "h = self.drop(h)",
    "h = h.roll(1, 0)", "h = h.double()", "h = h.half().float()", "h = torch.stack([h, -h]).amax(0)",
)  # fmt: skip
HEAD = (
    "return self.c(h.to(self.c.weight.dtype))", "return self.c(h.to(self.c.weight.dtype))", "return 1e-3 * self.c(h.float())",
    "return 1e-5 * self.c(h.float())", "return 1e4 * self.c(h.float())", "return F.log_softmax(self.c(h.float()), 1)",
    "return self.c(h.float()) + 100", "return self.c(h.float()).softmax(1)", "y = self.c(h.float()); y[:, 0] += 0.2; return y",
)  # fmt: skip


class OwnLinear(nn.Linear):
    """A subclass whose forward is not its class's."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).abs()


class OwnCall(nn.Sequential):
    """A Sequential with a call of its own."""

    def __call__(self, x: Tensor) -> Tensor:
        return -super().__call__(x)


def drawn_network(seed: int) -> tuple[nn.Module, str]:
    """A network of the grammar and its program."""
    draw = Random(seed)
    torch.manual_seed(seed)
    pick = draw.choice
    body = [pick(PREPROCESSING), pick(LINEAR), pick(ACTIVATION), pick(MIXING), pick(ACTIVATION), pick(HEAD)]
    if draw.random() < 0.4:  # an ordinary network with one odd statement
        plain = ["pass", "h = self.a(x)", "h = F.relu(h)", "pass", "pass", HEAD[0]]
        odd = draw.randrange(len(body))
        body = [body[k] if k == odd else plain[k] for k in range(len(body))]
    program = "def forward(self, x):\n" + "".join(f"    {line}\n" for line in body)
    names: dict[str, object] = {"torch": torch, "F": nn.functional}
    exec(program, names)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            linear = pick((nn.Linear, nn.Linear, OwnLinear))
            self.a, self.b, self.c = linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, CLASSES)
            self.first = pick((nn.Sequential, OwnCall))(nn.Linear(FEATURES, HIDDEN))
            self.act = pick((nn.ReLU(), nn.ReLU(inplace=True), nn.LeakyReLU(0.2), nn.Hardtanh(inplace=True)))
            self.norm, self.drop = nn.BatchNorm1d(HIDDEN), nn.Dropout(0.5)
            self.norm.running_mean, self.norm.running_var = torch.rand(HIDDEN), 0.2 + torch.rand(HIDDEN)
            self.register_buffer("shift", 0.1 * torch.randn(HIDDEN))
            self.calls = 0

        forward = names["forward"]

    model: nn.Module = Net()
    decoration = draw.randrange(12)
    if decoration == 0:
        kept = model.a.forward
        model.a.forward = lambda x: kept(x) + 0.3 * x.sum(1, keepdim=True)  # as adapters patch layers
    elif decoration == 1:
        model.act.forward = lambda x: 1 - x
    elif decoration == 2:
        model.c.register_forward_hook(lambda module, args, output: -output)
    elif decoration == 3:
        model.register_forward_pre_hook(lambda module, args: (1 - args[0],))
    elif decoration == 4:
        model = nn.Sequential(nn.Hardtanh(0.2, 0.8, inplace=True), model)
    elif decoration == 5:
        nn.utils.parametrizations.weight_norm(model.b)
    elif decoration == 6:
        model = model.double()
    elif decoration == 7:
        inner = model.forward
        model.forward = lambda x: -inner(x)
    elif decoration == 8:
        model.c.register_full_backward_hook(lambda module, into, out: None)
    return model.train(draw.random() < 0.1).requires_grad_(draw.random() < 0.5), f"{program} decoration {decoration}"


def trial(seed: int, count: int) -> Tally:
    """One network of the grammar, both norms by turns."""
    model, program = drawn_network(seed)
    x = torch.rand(3, FEATURES, generator=torch.Generator().manual_seed(seed))
    try:
        with torch.no_grad():
            model.eval()(x.clone())
    except (RuntimeError, TypeError, IndexError):  # a program that does not run at all
        return Tally()
    x = x.double() if next(model.parameters()).dtype == torch.float64 else x
    return try_certificates(model, x, ("l2", "linf")[seed % 2], seed, count, f"forms {seed}: {program!r}")
