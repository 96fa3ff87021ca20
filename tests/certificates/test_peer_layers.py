"""Layers as deel-torchlip and orthogonium build them: a plain layer whose weight is a torch parametrization.

Both libraries are no dependencies; these stand-ins are built in the same way.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import radii

X = torch.rand(6, 16, generator=torch.Generator().manual_seed(0))


class SpectralLinear(nn.Linear):
    """A linear layer whose weight is divided by its spectral norm."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        parametrizations.spectral_norm(self, n_power_iterations=30)

    def vanilla_export(self) -> nn.Linear:
        plain = nn.Linear(self.in_features, self.out_features)
        plain.load_state_dict({"weight": self.weight.detach(), "bias": self.bias.detach()})
        return plain


class GroupSort2(nn.Module):
    """Pairs in rising order."""

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.split(x.shape[1] // 2, 1)
        return torch.cat([torch.minimum(first, second), torch.maximum(first, second)], 1)


class Sorted(nn.Module):
    """The same by torch.sort, which no bound knows."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), -1, 2).sort(2).values.reshape(len(x), -1)


def network(*middle: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(SpectralLinear(16, 8), *middle, SpectralLinear(8, 3)).eval()


@pytest.mark.parametrize("middle", [nn.ReLU(), GroupSort2()])
def test_parametrized_layers_are_proved_as_their_plain_ones(middle: nn.Module) -> None:
    model = network(middle)
    plain = nn.Sequential(model[0].vanilla_export(), middle, model[2].vanilla_export()).eval()
    for method in ("margin", "crown"):
        own, other = (radii.certify(each, X, method, "l2:0.02") for each in (model, plain))
        assert torch.equal(own.prediction, other.prediction)
        assert torch.allclose(own.radius, other.radius, rtol=1e-3)
        assert bool((own.radius > 0).any())


def test_what_cannot_be_read_has_its_remedy() -> None:
    model = network(Sorted())
    y = model(X).argmax(1)
    diagnosis = radii.doctor(model, X, y, "l2:0.02")
    (proofs,) = [finding for finding in diagnosis.findings if finding.check == "proofs"]
    assert proofs.says.startswith("not possible")
    assert "model.vanilla_export()" in proofs.remedy
