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
    features = {"label": SimpleNamespace(names=["cat", "dog", "emu"])}
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
    with pytest.raises(radii.InputError, match="Which column has the labels"):
        prepare(NET, Hub(), "species")
