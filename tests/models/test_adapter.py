"""Any classifier, whatever it is and returns, as a module from inputs to logits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from torch import Tensor, nn

import radii
from radii.errors import InputError
from radii.models.adapter import adapt

X = torch.rand(12, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % 3


@pytest.fixture
def net() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(4, 3)


class Returning(nn.Module):
    """A network whose answer is wrapped."""

    def __init__(self, net: nn.Module, wrap: Any) -> None:
        super().__init__()
        self.net, self.wrap = net, wrap

    def forward(self, x: Tensor) -> Any:
        return self.wrap(self.net(x))


def test_a_network_of_logits_is_taken_as_it_is(net: nn.Linear) -> None:
    assert adapt(net, X) is net


@pytest.mark.parametrize(
    "wrap",
    [
        lambda z: (z, z.sum()),
        lambda z: [z],
        lambda z: {"loss": z.sum(), "logits": z},
        lambda z: SimpleNamespace(logits=z, loss=None),
    ],
    ids=["tuple", "list", "dictionary", "object"],
)
def test_logits_inside_another_answer(net: nn.Linear, wrap: Any) -> None:
    assert torch.equal(adapt(Returning(net, wrap), X)(X), net(X))
    scores = radii.evaluate(Returning(net, wrap), X, Y, "linf:0.01", suite="fast")
    assert scores.clean.correct == int((net(X).argmax(1) == Y).sum())


@pytest.mark.parametrize("end", [nn.Softmax(1), nn.Softmax(-1)])
def test_probabilities_become_logits_with_the_same_differences(net: nn.Linear, end: nn.Module) -> None:
    """log p_i - log p_j = z_i - z_j."""
    for model in (nn.Sequential(net, end), Returning(nn.Sequential(net), end)):
        logits = adapt(model, X)(X)
        assert torch.allclose(logits - logits[:, :1], net(X) - net(X)[:, :1], atol=1e-5)


def test_outputs_can_be_said() -> None:
    class Halves(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([x[:, 0], 1 - x[:, 0]], 1)

    assert torch.equal(adapt(Halves(), X, outputs="logits")(X), Halves()(X))
    assert torch.allclose(adapt(Halves(), X)(X), Halves()(X).log())
    with pytest.raises(InputError, match="no probabilities"):
        adapt(nn.Linear(4, 3), X, outputs="probabilities")
    with pytest.raises(InputError, match="outputs must be auto, logits or probabilities"):
        adapt(nn.Linear(4, 3), X, outputs="softmax")  # type: ignore[arg-type]


def test_one_logit_is_two_classes() -> None:
    torch.manual_seed(0)
    one = nn.Linear(4, 1, bias=False)
    for model in (one, Returning(one, lambda z: z[:, 0])):
        logits = adapt(model, X)(X)
        assert torch.allclose(logits[:, 1] - logits[:, 0], one(X)[:, 0], atol=1e-6)
    ended = nn.Sequential(one, nn.Sigmoid())
    assert torch.equal(adapt(ended, X)(X).argmax(1), (ended(X)[:, 0] > 0.5).long())
    inside = Returning(nn.Sequential(one, nn.Sigmoid()), lambda z: z)
    assert torch.equal(adapt(inside, X)(X).argmax(1), (ended(X)[:, 0] > 0.5).long())
    certificate = radii.certify(one, X, "crown", "linf:0.05")
    exact = one(X)[:, 0].abs() / one.weight.abs().sum()
    assert bool((certificate.radius[exact < 0.05] == 0).all())
    assert bool((certificate.radius[exact > 0.0501] == 0.05).all()), "a margin of a linear function is exact"


def test_functions_of_tensors_and_of_arrays() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(4, 3)
    by_torch = adapt(lambda x: x @ matrix, X)
    assert torch.equal(by_torch(X), X @ matrix)
    scores = radii.evaluate(lambda x: x @ matrix, X, Y, "linf:0.05")
    assert "apgd-ce" in scores.passes, "a function of tensors has gradients"

    def by_numpy(x: np.ndarray) -> np.ndarray:
        assert isinstance(x, np.ndarray)
        return x @ matrix.numpy()

    assert torch.allclose(adapt(by_numpy, X)(X), X @ matrix, atol=1e-6)
    assert radii.evaluate(by_numpy, X, Y, "linf:0.05").suite == "black-box"


def test_images_with_channels_last_reach_a_function_so_and_a_module_with_channels_first() -> None:
    images = torch.rand(5, 6, 7, 3, generator=torch.Generator().manual_seed(1)).numpy()

    def of_array(x: np.ndarray) -> np.ndarray:
        assert x.shape[1:] == (6, 7, 3)
        return np.stack([x[:, 0, 0, 0], x[:, 0, 0, 2]], 1)

    class First(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            assert x.shape[1:] == (3, 6, 7)
            return torch.stack([x[:, 0, 0, 0], x[:, 2, 0, 0]], 1)

    y = (images[:, 0, 0, 2] > images[:, 0, 0, 0]).astype(int)
    for model in (of_array, First()):
        assert radii.evaluate(model, images, y, "linf:1/255", suite="black-box", nhwc=True).clean.value == 1


def test_estimators_are_asked_for_probabilities_or_scores() -> None:
    labels = (X[:, 0] > 0.5).long()
    for fitted in (LogisticRegression(), RidgeClassifier()):
        fitted.fit(X.numpy(), labels.numpy())
        model = adapt(fitted, X)
        assert model(X).argmax(1).tolist() == fitted.predict(X.numpy()).tolist()
        scores = radii.evaluate(fitted, X.numpy(), labels.tolist(), "linf:0.01")
        assert scores.suite == "black-box"
        assert not any(alarm.name == "train mode" for alarm in scores.alarms)


def test_three_lines_from_python() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    data = radii.load("digits")
    scores = radii.evaluate(net, data.test.x[:20], data.test.y[:20], "linf:8/255", suite="fast")
    assert scores.clean.total == 20
    one = radii.evaluate(net, data.test.x[0], data.test.y[0], "linf:8/255", suite="fast")
    assert one.clean.total == 1
    x, y = data.test.tensors(range(20))
    one_hot = nn.functional.one_hot(y, 10)
    again = radii.evaluate(net, x.double(), one_hot, radii.Ball("linf", 8 / 255), suite="fast")
    assert np.array_equal(again.points.changed_radius, scores.points.changed_radius)
    assert radii.attack(net, data.test.x[:20], y, "linf:8/255").broken.shape == (20,)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (nn.Linear(5, 3), "The model fails on inputs of shape"),
        (nn.Linear(4, 3).double(), "The model fails on inputs of shape"),
        (nn.Identity, "got <class"),
        ("resnet18", "A network of timm is written timm:resnet18"),
        (3, "must be a torch module, an estimator with predict_proba or predict, or a function"),
        (Returning(nn.Linear(4, 3), lambda z: "text"), "must return logits"),
        (Returning(nn.Linear(4, 3), lambda z: z[:, :, None]), r"got shape \(8, 3, 1\)"),
        (lambda x: 1 / 0, "The function fails on inputs"),
    ],
)
def test_what_cannot_be_used_is_said(model: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        radii.evaluate(model, X, Y, "linf:0.1")


def test_one_label_for_every_input() -> None:
    with pytest.raises(InputError, match="got 12 inputs and 11 labels"):
        radii.evaluate(nn.Linear(4, 3), X, Y[:11], "linf:0.1")


def test_estimators_that_cannot_answer_are_one_sentence() -> None:
    x, y = torch.rand(6, 4), torch.tensor([0, 1] * 3)
    with pytest.raises(InputError, match=r"The estimator LogisticRegression fails on 4 features: .*not fitted"):
        radii.evaluate(LogisticRegression(), x, y, "linf:0.1")
    fitted = LogisticRegression().fit(np.random.default_rng(0).random((6, 9)), y)
    with pytest.raises(InputError, match="fails on 4 features: X has 4 features"):
        radii.evaluate(fitted, x, y, "linf:0.1")


def test_inputs_of_a_computation_with_gradients() -> None:
    torch.manual_seed(0)
    x, y = torch.rand(6, 4, requires_grad=True), torch.tensor([0, 1] * 3)
    scores = radii.evaluate(nn.Linear(4, 2), x, y, "linf:0.1", suite="pgd")
    assert scores.clean.total == 6
    assert x.grad is None
