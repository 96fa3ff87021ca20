"""Bundles: what is saved comes back; what could run code or does not fit is refused in a sentence."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from radii.errors import InputError
from radii.models.io import CARD, WEIGHTS
from radii.models.io.bundle import Architecture, fill, initialize, load_bundle, save_bundle

ARCHITECTURE = Architecture(
    name="lenet5", arguments={"widen": 0.125}, input_shape=(1, 8, 8), classes=("a", "b"), mean=(0.4,), std=(0.2,)
)


def linear(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """A user's own factory."""
    return nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(input_shape).numel(), classes))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    save_bundle(tmp_path / "bundle", initialize(ARCHITECTURE, 3), ARCHITECTURE)
    return tmp_path / "bundle"


def test_round_trip(bundle: Path) -> None:
    model, card = load_bundle(bundle)
    x = torch.rand(4, 1, 8, 8)
    assert card == ARCHITECTURE
    assert not model.training
    assert torch.equal(model(x), initialize(ARCHITECTURE, 3).eval()(x))
    assert sorted(path.name for path in bundle.iterdir()) == [CARD, WEIGHTS]


def test_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = initialize(ARCHITECTURE, 3)
    torch.manual_seed(2)
    second, other = initialize(ARCHITECTURE, 3), initialize(ARCHITECTURE, 4)
    assert torch.equal(first.net.fc2.weight, second.net.fc2.weight)  # type: ignore[union-attr]
    assert not torch.equal(first.net.fc2.weight, other.net.fc2.weight)  # type: ignore[union-attr]


def damaged(bundle: Path, **changes: object) -> None:
    card = json.loads((bundle / CARD).read_text())
    (bundle / CARD).write_text(json.dumps(card | changes))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "lenet"}, "No model is called 'lenet'. Did you mean 'lenet5'"),
        ({"arguments": {"widn": 1}}, "No argument of model 'lenet5' is called 'widn'. Did you mean 'widen'"),
        ({"arguments": {"widen": "wide"}}, "lenet5.widen must be a number, got 'wide'"),
        ({"format": 2}, "format must be 1"),
        ({"input_shape": "square"}, "input_shape"),
        ({"surprise": 1}, "surprise"),
        ({"name": "os:system"}, "wants to import 'os:system', which runs code"),
        ({"input_shape": [3, 8, 8]}, "conv1.weight must have shape"),
        ({"input_shape": [8]}, "LeNet5 takes images"),
        ({"std": [0.0]}, "std must be positive"),
    ],
)
def test_bad_cards_are_told(bundle: Path, changes: dict[str, object], says: str) -> None:
    damaged(bundle, **changes)
    with pytest.raises(InputError) as caught:
        load_bundle(bundle)
    assert says in str(caught.value)


def test_an_import_path_is_followed_only_if_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mynets.py").write_text(
        "from torch import nn\n"
        "def linear(input_shape, classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = ARCHITECTURE.model_copy(update={"name": "mynets:linear", "arguments": {}})
    save_bundle(tmp_path / "own", initialize(own, 0), own)
    with pytest.raises(InputError, match="--trust mynets:linear"):
        load_bundle(tmp_path / "own")
    model, _ = load_bundle(tmp_path / "own", trust=["mynets:linear"])
    assert model(torch.rand(2, 1, 8, 8)).shape == (2, 2)


def test_a_pickle_is_refused_whatever_its_name(bundle: Path, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self):  # type: ignore[no-untyped-def]
            return (Path(tmp_path / "exploded").touch, ())

    (bundle / WEIGHTS).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(InputError, match="is a pickle"):
        load_bundle(bundle)
    torch.save({"a": torch.ones(1)}, bundle / WEIGHTS)  # a zip of pickles
    with pytest.raises(InputError, match="is a pickle"):
        load_bundle(bundle)
    assert not (tmp_path / "exploded").exists()


def test_damaged_and_misfitting_weights_are_told(bundle: Path) -> None:
    (bundle / WEIGHTS).write_bytes((bundle / WEIGHTS).read_bytes()[:100])
    with pytest.raises(InputError, match="not a whole safetensors file"):
        load_bundle(bundle)
    save_file({"other": torch.ones(2)}, bundle / WEIGHTS)
    with pytest.raises(InputError, match=r"does not fit the model: missing .* not in the model: other"):
        load_bundle(bundle)
    (bundle / WEIGHTS).unlink()
    with pytest.raises(InputError, match="do not exist"):
        load_bundle(bundle)
    (bundle / CARD).write_text("{")
    with pytest.raises(InputError, match="not a model card"):
        load_bundle(bundle)
    with pytest.raises(InputError, match=r"a folder with model.json and model.safetensors"):
        load_bundle(bundle / "nowhere")


def test_fill_takes_any_module(tmp_path: Path) -> None:
    source, target = linear((4,), 3), linear((4,), 3)
    save_file(source.state_dict(), tmp_path / "w.safetensors")
    fill(target, tmp_path / "w.safetensors")
    assert torch.equal(source(torch.eye(4)), target(torch.eye(4)))
