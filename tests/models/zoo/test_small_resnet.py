"""The small residual network: shapes of all images, its positions, and that bounds and folding can read it."""

from __future__ import annotations

import pytest
import torch

from radii.bounds.provably_robust import Bounded
from radii.errors import InputError
from radii.models.zoo.small_resnet import SmallResNet, stem_stride
from radii.threat import Ball
from radii.training._frozen_for_attack import attackable


@pytest.mark.parametrize(
    ("shape", "positions"),
    [((1, 8, 8), 8), ((1, 12, 12), 12), ((3, 13, 13), 6), ((1, 28, 28), 14), ((3, 32, 32), 16), ((3, 224, 224), 16)],
)
def test_the_stem_brings_images_to_few_positions(shape: tuple[int, ...], positions: int) -> None:
    model = SmallResNet(shape, 7, width=4).eval()
    assert model.stem(torch.rand(1, *shape)).shape == (1, 4, positions, positions)  # type: ignore[operator]
    assert model(torch.rand(2, *shape)).shape == (2, 7)


@pytest.mark.parametrize("shape", [(3, 4, 4), (3, 17, 40), (2, 31, 5)])
def test_images_of_any_sides(shape: tuple[int, ...]) -> None:
    model = SmallResNet(shape, 3, width=4, blocks=(1, 2, 1, 1)).eval()
    assert torch.isfinite(model(torch.rand(2, *shape))).all()
    assert stem_stride(shape) >= 1


def _settled(activation: str) -> SmallResNet:
    """A network whose batch norms have seen data, so that their folding changes something."""
    torch.manual_seed(0)
    model = SmallResNet((1, 9, 9), 3, width=4, activation=activation)
    for _ in range(3):
        model(torch.rand(16, 1, 9, 9))
    return model.eval()


def test_attacks_see_the_same_function_with_batch_norms_folded() -> None:
    model, x = _settled("silu"), torch.rand(5, 1, 9, 9)
    with attackable(model) as net:
        torch.testing.assert_close(net(x), model(x), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("activation", ["silu", "relu"])
def test_bounds_read_it_and_contain_samples(activation: str) -> None:
    model, x, ball = _settled(activation), torch.rand(2, 1, 9, 9), Ball("linf", 1e-3)
    bounded = Bounded(model, (1, 9, 9))
    assert torch.equal(bounded.predict(x).cpu(), model(x).argmax(1))
    proved = bounded.proves_by(x, bounded.predict(x), ball, "crown-ibp")
    for _ in range(50):
        moved = (x + ball.radius * (2 * torch.rand_like(x) - 1)).clamp(0, 1)
        assert torch.equal(model(moved).argmax(1)[proved], model(x).argmax(1)[proved])


def test_refusals() -> None:
    with pytest.raises(InputError, match="at least 4 x 4"):
        SmallResNet((3, 3, 8), 2)
    with pytest.raises(InputError, match="at least 1"):
        SmallResNet((3, 8, 8), 2, blocks=(1, 0))
    with pytest.raises(InputError, match="activation"):
        SmallResNet((3, 8, 8), 2, activation="silo")
