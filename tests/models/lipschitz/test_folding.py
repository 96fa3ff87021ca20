"""A folded network does what the model does, or the model is refused: certificates speak about the folded one."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn

from radii.certificates.lipschitz import certify
from radii.errors import InputError
from radii.models.layers.weightless import FirstChannels, MaxMin, ZeroChannels
from radii.models.lipschitz._folding import fold
from radii.models.lipschitz.network_bound import certified_network, lipschitz_bound


@pytest.mark.parametrize("shared", [nn.ReLU(), MaxMin(), nn.Linear(8, 8)])
def test_a_layer_that_is_used_twice_counts_twice(shared: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(8, 8), shared, nn.Linear(8, 8), shared, nn.Linear(8, 3)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    x = torch.rand(50, 8)
    network = fold(model, (8,))
    assert len(network) == 5
    torch.testing.assert_close(network(x), model(x))
    assert torch.equal(certify(model, x).prediction, model(x).argmax(1))


class Res(nn.Sequential):
    """A Sequential by name only."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 2 * super().forward(x)


class Tenfold(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 10 * super().forward(x)


def test_layers_with_a_forward_of_their_own_are_refused() -> None:
    with pytest.raises(InputError, match="Res"):
        lipschitz_bound(nn.Sequential(Res(nn.Linear(8, 8), nn.ReLU()), nn.Linear(8, 3)), (8,))
    for layers in (
        (Tenfold(6, 6), FirstChannels(4), nn.Linear(4, 3)),
        (ZeroChannels(8), Tenfold(8, 6), nn.Linear(6, 3)),
    ):
        with pytest.raises(InputError, match="Tenfold"):
            lipschitz_bound(nn.Sequential(*layers), (6,))


def test_hooks_are_refused() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3))
    model[0].register_forward_hook(lambda _module, _given, output: 10 * output)
    with pytest.raises(InputError, match="'0' \\(Linear\\) has forward hooks"):
        lipschitz_bound(model, (8,))


class Sly(nn.Identity):
    """Passes for nothing by its base class."""

    def forward(self, x: Tensor) -> Tensor:
        return 3 * x


def test_what_is_not_foreseen_is_seen() -> None:
    with pytest.raises(InputError, match="Sly"):
        lipschitz_bound(nn.Sequential(Sly(), nn.Linear(4, 2)), (4,))

    class Lies(nn.Linear):
        def folded(self) -> nn.Linear:
            return nn.Linear(self.in_features, self.out_features)

    with pytest.raises(InputError, match="does not do what its layers do"):
        fold(nn.Sequential(Lies(4, 2)), (4,))


def test_names_that_collide_lose_no_layer() -> None:
    inner = nn.Sequential(OrderedDict(b=nn.Linear(4, 4)))
    model = nn.Sequential(OrderedDict([("a/b", nn.Linear(4, 4)), ("a", inner), ("h", nn.Linear(4, 2))]))
    assert len(fold(model, (4,))) == 3


def test_a_batch_norm_far_from_zero_is_folded_exactly() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3)).eval()
    model[0].running_mean.copy_(1000 + torch.rand(4))  # type: ignore[union-attr,operator]
    model[0].running_var.copy_(torch.full((4,), 1e-6))  # type: ignore[union-attr,operator]
    x = 1000 + torch.rand(20, 4, dtype=torch.float64)
    with torch.no_grad():
        exact = model.double()(x)
        found = certified_network(model.float(), (4,))(x)
    assert float((found - exact).abs().max() / exact.abs().max()) < 1e-12


@pytest.mark.parametrize("shape", [8, (-1,), (), (2.0,)])
def test_shapes_that_are_none(shape: object) -> None:
    with pytest.raises(InputError, match="input_shape must be"):
        lipschitz_bound(nn.Sequential(nn.Linear(8, 2)), shape)  # type: ignore[arg-type]


def test_models_that_cannot_be_folded() -> None:
    for model in (nn.Sequential(), nn.Sequential(nn.Dropout())):
        with pytest.raises(InputError, match="no layers"):
            lipschitz_bound(model, (8,))
    with pytest.raises(InputError, match="must return one tensor, got tuple"):
        lipschitz_bound(nn.Sequential(nn.MaxPool2d(2, return_indices=True), nn.Flatten()), (1, 4, 4))
    broken = nn.Sequential(nn.Linear(4, 2))
    broken[0].weight.data[0, 0] = torch.nan
    with pytest.raises(InputError, match=r"'0' \(Linear\) cannot be bounded: its weights are not finite"):
        lipschitz_bound(broken, (4,))
    with pytest.raises(InputError, match="forward hooks"):
        lipschitz_bound(nn.Sequential(torch.nn.utils.weight_norm(nn.Linear(4, 2))), (4,))
