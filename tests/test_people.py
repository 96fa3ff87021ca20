"""What people type at the first try: each form of a model and of data that the docs name; calls that lack a word."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import radii
from radii.attacks.by_name import attack_by_name
from radii.attacks.suite import Member
from radii.data.threat_on_data import ball_on
from radii.evaluation.doctor import POINTS
from radii.models.estimators import of_columns

RANDOM = np.random.default_rng(0)
TABLE = pandas.DataFrame({"income": RANDOM.normal(50, 15, 120), "home": RANDOM.choice(["own", "rent"], 120)})
TABLE["credit"] = np.where(TABLE.income + 10 * (TABLE.home == "own") > 55, "good", "bad")
THREAT = "linf:0.1sd"


def pipeline(last: Any) -> Any:
    """``last`` behind the columns of the table."""
    columns = make_column_transformer((OneHotEncoder(), ["home"]), (StandardScaler(), ["income"]))
    return make_pipeline(columns, last).fit(TABLE.drop(columns="credit"), TABLE.credit)


class Named:
    """A model of one's own that only names classes, and takes the columns of the table."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def predict(self, x: Any) -> Any:
        """The words."""
        return self.inner.predict(x)


LINEAR = pipeline(LogisticRegression())


@pytest.mark.parametrize(
    "model",
    [LINEAR.predict_proba, LINEAR.decision_function, lambda frame: LINEAR.predict_proba(frame), Named(pipeline(SVC()))],
    ids=["predict_proba", "decision_function", "function of a frame", "predict alone"],
)
def test_methods_and_functions_of_a_data_frame_are_models(model: Any) -> None:
    found = radii.attack(model, TABLE[:8], "credit", THREAT, name="noise")
    assert (found.queries > 0).all()
    assert repr(found).startswith("AttackResult(")
    assert len(repr(found)) < 100


def test_the_method_that_is_asked_anyway_is_the_estimator_and_proved() -> None:
    scores = radii.evaluate(LINEAR.predict_proba, TABLE[:8], "credit", THREAT)
    assert scores.certificate_method == "linear"


def test_a_gate_on_a_frame_takes_deviations_and_the_attacks_that_the_model_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def members(suite: str) -> tuple[Member, ...]:
        asked.append(suite)
        return (Member("noise", attack_by_name("noise")),)  # 5,000 queries of Square take a minute

    monkeypatch.setattr("radii.evaluation.gate.members", members)
    neighbors = pipeline(KNeighborsClassifier(3))
    result = radii.gate(neighbors, (TABLE[:5], "credit"), f"robust({THREAT})>=0.1", least=5)
    assert (result.points, set(asked[1:])) == (5, {"black-box"})
    scale = result.results[0].requirement.ball.scale  # type: ignore[union-attr]
    assert scale[0] == pytest.approx(float(TABLE.income[:5].std(ddof=0)), rel=1e-5)


def test_a_model_that_fails_on_features_gets_the_columns_of_the_table() -> None:
    names, groups = ("income", "home=own", "home=rent"), [(1, 2)]
    rows = np.array([[40, 1, 0], [70, 0, 1]], np.float32)
    assert of_columns(Named(LINEAR), names, groups, rows).predict(rows).tolist() == ["bad", "good"]
    plain = Named(LogisticRegression().fit(rows, [0, 1]))
    assert of_columns(plain, names, groups, rows) is plain


def test_an_audit_takes_names_frames_and_words() -> None:
    assert radii.audit("digits").name == "digits train"
    framed = radii.audit(TABLE, "credit", norm="l2")
    assert framed.classes == ("bad", "good")
    assert framed.dimensions == 3
    again = radii.audit(TABLE[["income"]].to_numpy(), TABLE.credit.to_numpy(), norm="l2")
    assert again.classes == ("bad", "good")


def test_objects_in_an_array_are_told_what_to_be() -> None:
    with pytest.raises(radii.InputError, match=r"with words, such as '(own|rent)': give a pandas\.DataFrame"):
        radii.evaluate(LINEAR, TABLE.drop(columns="credit").to_numpy()[:4], [0, 1, 0, 1], THREAT)


DIGITS = radii.load("digits")
X, Y = DIGITS.test.tensors(range(24))
torch.manual_seed(0)
NET = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()


@pytest.mark.parametrize(
    "data", [DIGITS, DIGITS.test, "digits", DataLoader(TensorDataset(X, Y), 7)], ids=["data", "split", "name", "loader"]
)
def test_what_holds_labels_needs_no_second_argument(data: Any) -> None:
    found = radii.attack(NET, data, threat="linf:0.01", name="noise")
    assert len(found.broken) in (24, len(DIGITS.test))
    assert radii.gate(NET, data, "clean>=0.1", least=5).points >= 5


@pytest.mark.parametrize("function", ["evaluate", "attack"])
def test_a_call_without_a_threat_says_where_it_stands(function: str) -> None:
    with pytest.raises(radii.InputError, match=rf"radii\.{function}\(model, x, y, \"linf:8/255\"\)"):
        getattr(radii, function)(NET, X, Y)
    with pytest.raises(radii.InputError, match=r"'l2:0\.1' or 'linf:0\.1'"):
        getattr(radii, function)(NET, X, Y, 0.1)
    with pytest.raises(TypeError, match=rf"radii\.{function}: got an unexpected keyword argument 'treat'.*'threat'"):
        getattr(radii, function)(NET, X, Y, treat="linf:0.1")


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
def test_a_classifier_puts_a_factor_before_a_function_of_arrays(last: bool) -> None:
    def grey_levels(images: Any) -> Any:
        assert isinstance(images, np.ndarray)
        assert images.max() > 200
        first = np.moveaxis(images, -1, 1) if last else images
        return NET(torch.from_numpy(np.ascontiguousarray(first)) / 255).detach().numpy()

    model = radii.Classifier(grey_levels, std=1 / 255)  # type: ignore[arg-type]
    x = X.movedim(1, -1) if last else X
    found = radii.attack(model, x, Y, "linf:0.01", name="noise", nhwc=last)
    assert torch.equal(found.broken, radii.attack(NET, X, Y, "linf:0.01", name="noise").broken)


def test_what_other_programs_call_otherwise_is_told() -> None:
    with pytest.raises(radii.InputError, match="AutoAttack of other programs is 'standard' here"):
        radii.evaluate(NET, X, Y, "linf:0.1", suite="AutoAttack")


@pytest.mark.parametrize(("text", "meant"), [("l2:36", "l2:36/255"), ("l1:65", "l1:65/255")])
def test_a_ball_larger_than_the_box_of_the_images_is_refused(text: str, meant: str) -> None:
    with pytest.raises(radii.InputError, match=f"Did you mean {meant}"):
        ball_on(radii.Ball.parse(text), DIGITS)
    assert ball_on(radii.Ball.parse("l2:8"), DIGITS).radius == 8


def test_an_assertion_of_the_model_is_one_sentence() -> None:
    class Fixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert x.shape[-1] == 224, "Input height (8) doesn't match model (224)"
            return x

    with pytest.raises(radii.InputError, match=r"fails on inputs of shape .* doesn't match model \(224\)"):
        radii.evaluate(Fixed(), X, Y, "linf:0.1")


@pytest.mark.parametrize(
    ("shape", "layer", "variant"),
    [
        ((1, 28, 28), nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), r"images of 8 x 8: DATASET\+resize:8 "),
        ((3, 8, 8), nn.Conv2d(1, 4, 3), r"grey images: DATASET\+gray"),
    ],
)
def test_a_network_for_other_images_is_told_the_variant(shape: tuple[int, ...], layer: nn.Module, variant: str) -> None:
    with pytest.raises(radii.InputError, match=variant):
        radii.evaluate(layer, torch.rand(4, *shape), [0, 1, 2, 3], "linf:0.1")


def test_the_doctor_expects_the_time_of_the_points_that_there_are() -> None:
    told = {each.check: each.says for each in radii.doctor(NET, X, Y).findings}
    assert "(24 points, one process)" in told["time of evaluate"]
    assert len(X) < POINTS


def test_python_runs_the_package() -> None:
    said = subprocess.run([sys.executable, "-m", "radii", "-V"], capture_output=True, text=True, check=True).stdout
    assert said == f"radii {radii.__version__}\n"
