"""Labelled inputs as users hold them become the same tensors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

import radii
from radii.data.dataset import Dataset
from radii.evaluation.gate import points_of
from radii.models.adapter import prepare

LEVELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)
X = torch.from_numpy(LEVELS).movedim(-1, 1).float() / 255
Y = [0, 1, 2, 0, 1, 2]
PICTURES = [Image.fromarray(levels) for levels in LEVELS]
NET = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(60, 3))


class Pairs:
    def __len__(self) -> int:
        return 6

    def __getitem__(self, k: int) -> tuple[Any, int]:
        return PICTURES[k], Y[k]


class Hub:
    """A dataset as that of the package datasets: rows and columns by name, labels with names."""

    column_names = ("id", "image", "label")
    features = {"label": SimpleNamespace(names=["emu", "cat", "dog"])}  # numbered in an order of their own
    content = {"id": list(range(6)), "image": PICTURES, "label": Y}

    def __getitem__(self, key: Any) -> Any:
        return self.content[key] if isinstance(key, str) else {name: self.content[name][key] for name in self.content}

    def __len__(self) -> int:
        return 6


FORMS: dict[str, tuple[Any, Any]] = {
    "a list of pictures": (PICTURES, Y),
    "a dataset of pairs": (Pairs(), None),
    "a dataset of the hub": (Hub(), None),
    "a dataset of the hub by its column": (Hub(), "label"),
    "a loader": (DataLoader(TensorDataset(X, torch.tensor(Y)), batch_size=4), None),
    "a radii.Dataset": (Dataset(np.ascontiguousarray(X.numpy()), np.array(Y), ("a", "b", "c")), None),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_inputs_and_labels(form: str) -> None:
    own = prepare(NET, *FORMS[form])
    assert torch.allclose(own.x, X)
    assert own.y.tolist() == Y
    assert radii.evaluate(NET, *FORMS[form], "linf:1/255", suite="pgd", certificate=None, alarms=False).clean.total == 6


def test_grey_pictures_have_one_channel_and_sizes_are_named() -> None:
    grey = [picture.convert("L") for picture in PICTURES]
    assert prepare(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(20, 3)), grey, Y).x.shape == (6, 1, 5, 4)
    with pytest.raises(radii.InputError, match=r"one size, got 2 sizes from .*picture\.resize\(\(4, 5\)\)"):
        prepare(NET, [*PICTURES[:5], PICTURES[5].resize((8, 8))], Y)


def test_what_has_no_labels_is_told() -> None:
    with pytest.raises(radii.InputError, match="y must be the labels of the inputs"):
        prepare(NET, X, None)
    with pytest.raises(radii.InputError, match=r"No column of labels is called .species.\. Known: id, image, label"):
        prepare(NET, Hub(), "species")


def test_labels_of_the_hub_keep_their_numbers_unless_the_model_names_the_same_classes() -> None:
    """Its names are emu, cat, dog: a network that was trained on its numbers gives 0 for an emu."""
    named = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(60, 3))
    assert prepare(named, Hub(), None).y.tolist() == Y
    named.config = SimpleNamespace(id2label={0: "cat", 1: "dog", 2: "emu"})  # type: ignore[assignment]
    for model in (named, radii.Classifier(named, 0.5, 0.5)):
        assert prepare(model, Hub(), None).y.tolist() == [2, 0, 1, 2, 0, 1]
    named.config = SimpleNamespace(id2label={0: "tench", 1: "goldfish", 2: "shark"})  # type: ignore[assignment]
    assert prepare(named, Hub(), None).y.tolist() == Y


def test_one_split_of_several_is_asked_for() -> None:
    class Splits(dict[str, Hub]):
        column_names = {"test": Hub.column_names}

    with pytest.raises(radii.InputError, match=r"2 splits: give one of them, data\['train'\]"):
        prepare(NET, Splits(train=Hub(), test=Hub()), None)


@pytest.mark.parametrize("form", FORMS)
def test_a_gate_takes_them_all(form: str) -> None:
    x, y = FORMS[form]
    result = radii.gate(NET, x if y is None else (x, y), ["robust(linf:1/255)>=0.1"], suite="pgd", least=6)
    assert result.population == 6


def test_a_gate_knows_the_columns_of_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.tree import DecisionTreeClassifier

    frame = pandas.DataFrame({"age": [20.0, 30.0, 40.0, 50.0] * 5, "home": ["own", "rent"] * 10})
    answer = np.where(frame.home == "own", "good", "bad")
    columns = make_column_transformer((OneHotEncoder(), ["home"]), remainder="passthrough")
    model = make_pipeline(columns, DecisionTreeClassifier()).fit(frame, answer)
    _, points = points_of(model, (frame, answer))
    assert points.rules is not None
    assert points.rules.fixed == (1, 2), "no attack turns rent into own"
    assert radii.gate(model, (frame, answer), ["clean>=0.9"], least=20).passed


def test_no_inputs_and_channels_in_the_last_place_are_told() -> None:
    with pytest.raises(radii.InputError, match="There are no inputs"):
        prepare(NET, X[:0], Y[:0])
    with pytest.raises(radii.InputError, match=r"if they are last, give nhwc=True"):
        prepare(torch.nn.Conv2d(3, 2, 3), np.zeros((2, 8, 8, 3), np.uint8), [0, 1])
