"""Networks in which a known input of the ball has another class: no certificate may reach it."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

import radii
from campaign.tally import SECONDS, Tally, methods_for
from radii.errors import InputError


class Spiked(nn.Module):
    """A random network whose first logit drops steeply around one secret input p: h(x) = height relu(1 - s |x - p|_1).

    The absolute values are written with two ReLUs each, so that every method can read the network.
    """

    def __init__(self, secret: Tensor, height: float, steepness: float, classes: int) -> None:
        super().__init__()
        features = len(secret)
        self.base = nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, classes))
        self.inner, self.outer = nn.Linear(features, 2 * features), nn.Linear(2 * features, 1)
        self.drop = nn.Linear(1, classes, bias=False)
        with torch.no_grad():
            self.inner.weight.copy_(torch.cat([torch.eye(features), -torch.eye(features)]))
            self.inner.bias.copy_(torch.cat([-secret, secret]))
            self.outer.weight.fill_(-steepness)
            self.outer.bias.fill_(1.0)
            self.drop.weight.zero_()

    def forward(self, x: Tensor) -> Tensor:
        spike = torch.relu(self.outer(torch.relu(self.inner(x))))
        return self.base(x) + self.drop(spike)


def trial(seed: int, count: int) -> Tally:
    """Plant an error at a random distance, and certify radii on both sides of it."""
    generator = Generator().manual_seed(seed)
    torch.manual_seed(seed)
    features, classes = 2 + seed % 5, 2 + seed % 3
    norm = ("l2", "linf")[seed % 2]
    x = 0.2 + 0.6 * torch.rand(1, features, generator=generator)
    step = torch.randn(1, features, generator=generator)
    step = 0.15 * torch.rand((), generator=generator) * step / (step.norm() if norm == "l2" else step.abs().amax())
    secret = (x + step).clamp(0, 1)
    distance = float((secret - x).double().norm() if norm == "l2" else (secret - x).double().abs().amax())
    steepness = float(10 ** (1 + 4 * torch.rand((), generator=generator)))
    model = Spiked(secret[0], 1.0, steepness, classes).eval()
    with torch.no_grad():
        own = int(model(x).argmax())
        model.drop.weight[own] = -10.0 * (1 + model(secret).abs().max())
        if int(model(secret).argmax()) == own or int(model(x).argmax()) != own:
            return Tally()
    tally = Tally(networks=1)
    tried = [distance * factor for factor in (0.5, 0.9, 0.999, 1.001, 1.1, 2.0)]
    for method in methods_for(norm):
        try:
            proof = radii.certify(model, x, method=method, norm=norm, radii=tried, seconds=SECONDS)
        except InputError:
            tally.refused += 1
            continue
        tally.certificates += int(proof.radius[0] > 0)
        tally.points += 1
        if int(proof.prediction[0]) == own and float(proof.radius[0]) > distance * (1 + 1e-6):
            tally.false += 1
            tally.notes.append(f"planted {seed} {method} {norm}: proved {float(proof.radius[0])}, error at {distance}")
    return tally
