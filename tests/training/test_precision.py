"""Products in bfloat16: they train what float32 trains, only where the processor has them, and leave no trace."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from radii.data.sources import load
from radii.models.classifier import Classifier
from radii.models.zoo.small_resnet import SmallResNet
from radii.randomness import fixed_arithmetic
from radii.training import precision
from radii.training.loop import accuracy_on, train
from radii.training.objectives.cross_entropies import Natural
from radii.training.precision import computed_in
from radii.training.robust_recipe import OPTIMIZER
from radii.training.schedule import Recipe


class Seen(nn.Linear):
    """A layer that remembers the type of its output."""

    kind = torch.float64

    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        self.kind = out.dtype
        return out


@pytest.fixture
def supported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that has such products, or imitates them."""
    monkeypatch.setattr(precision, "has_bfloat16", lambda device: device.type == "cpu")


@pytest.mark.usefixtures("supported")
def test_products_are_short_and_logits_are_not() -> None:
    model, x = nn.Sequential(Seen(4, 3)), torch.rand(2, 4)
    before = model(x)
    with computed_in("bfloat16", model):
        inside = model(x)
        assert model[0].kind == torch.bfloat16
    assert inside.dtype == torch.float32
    assert "forward" not in vars(model)
    assert torch.equal(model(x), before)
    with computed_in("float32", model):
        assert torch.equal(model(x), before)


@pytest.mark.usefixtures("supported")
def test_a_forward_of_the_user_comes_back_after_an_error() -> None:
    model = nn.Sequential(Seen(4, 3))
    own = model.forward
    model.forward = own  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="stop"), computed_in("bfloat16", model):
        raise RuntimeError("stop")
    assert model.forward == own


def test_other_processors_compute_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_bfloat16", lambda device: False)
    model = nn.Sequential(Seen(4, 3))
    with computed_in("bfloat16", model):
        model(torch.rand(2, 4))
        assert model[0].kind == torch.float32


@pytest.mark.usefixtures("supported")
def test_weights_of_earlier_steps_are_forgotten_inside_another_autocast() -> None:
    """An autocast around the training, as every step of the store has it, kept the first weights in its cache."""
    data = load("digits")
    torch.manual_seed(0)
    model = Classifier(SmallResNet((1, 8, 8), 10, width=8), 0.3, 0.38)
    recipe = {"steps": 60, "batch_size": 64, "test_every": 0, "optimizer": OPTIMIZER, "precision": "bfloat16"}
    with fixed_arithmetic():
        train(model, data.train, Natural(), Recipe.model_validate(recipe))
        assert accuracy_on(model, data.test) > 0.9
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
