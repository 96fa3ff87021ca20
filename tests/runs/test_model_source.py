"""Any model a user can name, and the sentences for those that cannot be had."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from radii.data.dataset import Data
from radii.data.sources import load
from radii.errors import InputError
from radii.models.io.bundle import Architecture, initialize, save_bundle
from radii.runs.model_source import LoadedModel, ModelFactory, ModelFile, command_words, find_model, load_model
from radii.runs.planning import train
from radii.runs.steps import Train
from radii.runs.store import Store
from radii.training.schedule import Recipe

X = torch.rand(3, 1, 8, 8)
CLASSES = tuple("0123456789")
LENET = Architecture(name="lenet5", arguments={"widen": 0.125}, input_shape=(1, 8, 8), classes=CLASSES)


class Bomb:
    def __reduce__(self):  # type: ignore[no-untyped-def]
        return (os.system, ("touch exploded",))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(reference: str, data: Data | None = None, **options: Any) -> LoadedModel:
    """The model that a user names, loaded."""
    return load_model(find_model(reference, **options), Store.default(), data)


def test_a_run_and_a_bundle(tmp_path: Path) -> None:
    trained = train("digits", "lenet5", recipe=Recipe(epochs=1), model_arguments={"widen": 0.125})
    by_run, by_folder = find_model(trained.run.id[:14]), find_model(str(trained.run.folder))
    assert isinstance(by_run, Train)
    assert by_run == by_folder
    assert by_run.run_id == trained.run.id
    assert torch.equal(found(trained.run.id, load("digits")).model(X), trained.model(X))
    shutil.copytree(trained.run.folder, tmp_path / "copy")
    copy = find_model("copy")
    assert isinstance(copy, ModelFile)
    assert torch.equal(found("copy").model(X), trained.model(X))


def test_a_model_is_its_content_wherever_it_is(tmp_path: Path) -> None:
    save_bundle(tmp_path / "one", initialize(LENET, 0), LENET)
    save_bundle(tmp_path / "two", initialize(LENET, 1), LENET)
    shutil.copytree(tmp_path / "one", tmp_path / "moved")
    one, two, moved = (find_model(name) for name in ("one", "two", "moved"))
    assert one.content_hash() == moved.content_hash() != two.content_hash()
    shutil.copy(tmp_path / "two" / "model.safetensors", tmp_path / "one" / "model.safetensors")
    with pytest.raises(InputError, match="has changed since this run was planned"):
        load_model(one, Store.default())
    assert find_model("one").content_hash() == two.content_hash()


def test_a_model_of_other_inputs_is_refused(tmp_path: Path) -> None:
    other = LENET.model_copy(update={"input_shape": (1, 12, 12)})
    save_bundle(tmp_path / "other", initialize(other, 0), other)
    with pytest.raises(InputError, match=r"takes inputs of shape \(1, 12, 12\), digits has \(1, 8, 8\)"):
        found("other", load("digits"))
    fewer = LENET.model_copy(update={"classes": ("a", "b")})
    save_bundle(tmp_path / "fewer", initialize(fewer, 0), fewer)
    with pytest.raises(InputError, match="knows 2 classes, digits has 10"):
        found("fewer", load("digits"))


def test_a_factory_with_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "def net(input_shape, classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    source = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    save_file(source.state_dict(), tmp_path / "w.safetensors")
    before = find_model("mine:net", weights=tmp_path / "w.safetensors")
    assert torch.equal(load_model(before, Store.default(), load("digits")).model(X), source(X))
    with pytest.raises(InputError, match="needs its weights"):
        find_model("mine:net")
    with pytest.raises(InputError, match="has no attribute 'nett'"):
        find_model("mine:nett", weights=tmp_path / "w.safetensors")
    with pytest.raises(InputError, match=r"weights none.safetensors do not exist"):
        find_model("mine:net", weights=Path("none.safetensors"))
    (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text() + "# changed\n")
    after = find_model("mine:net", weights=tmp_path / "w.safetensors")
    assert before.content_hash() != after.content_hash(), "other code may be another network"


def test_a_bundle_that_runs_code_needs_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text(
        "from pathlib import Path\nfrom torch import nn\nPath('exploded').touch()\n"
        "def net(input_shape, classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    card = LENET.model_copy(update={"name": "theirs:net", "arguments": {}})
    save_bundle(tmp_path / "bundle", nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), card)
    with pytest.raises(InputError, match="say so: --trust theirs:net"):
        find_model("bundle")
    assert not (tmp_path / "exploded").exists()
    assert found("bundle", trust=["theirs:net"]).model(X).shape == (3, 10)


def test_an_exported_program(tmp_path: Path) -> None:
    model = initialize(LENET, 0).eval()
    batch = torch.export.Dim("batch", min=1, max=1024)
    torch.export.save(torch.export.export(model, (X,), dynamic_shapes=({0: batch},)), tmp_path / "m.pt2")
    program = found("m.pt2", trust=[str(tmp_path / "m.pt2")])
    assert program.has_gradients
    assert torch.allclose(program.model(X), model(X), atol=1e-6)


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_program_runs_nothing_unless_it_is_trusted(tmp_path: Path, protocol: int) -> None:
    """A pickle of protocol 0 has no magic bytes: looking into the archive cannot tell, so nothing is opened."""
    model = initialize(LENET, 0).eval()
    torch.export.save(torch.export.export(model, (X,)), tmp_path / "m.pt2")
    with zipfile.ZipFile(tmp_path / "m.pt2") as archive:
        names = archive.namelist()
        contents = {name: archive.read(name) for name in names}
    with zipfile.ZipFile(tmp_path / "bomb.pt2", "w") as archive:
        for name in names:
            replaced = "sample_inputs" in name or name.endswith(".pt")
            archive.writestr(name, pickle.dumps(Bomb(), protocol) if replaced else contents[name])
    for trust in ((), ("m.pt2",), ("mine:net",)):
        with pytest.raises(InputError, match=r"--trust bomb\.pt2 .* ONNX is the format for models of strangers"):
            found("bomb.pt2", trust=trust)
    assert not (tmp_path / "exploded").exists()


def test_an_onnx_graph(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    model = initialize(LENET, 0).eval()
    batch = torch.export.Dim("batch", min=1, max=1024)
    program = torch.onnx.export(model, (X,), dynamo=True, dynamic_shapes=({0: batch},), verbose=False)
    buffer = io.BytesIO()
    onnx.save(program.model_proto, buffer)  # type: ignore[union-attr]
    (tmp_path / "m.onnx").write_bytes(buffer.getvalue())
    graph = found("m.onnx")
    assert graph.has_gradients
    assert torch.allclose(graph.model(X), model(X), atol=1e-5)
    (tmp_path / "bad.onnx").write_bytes(b"no graph")
    with pytest.raises(InputError, match="not an ONNX model"):
        found("bad.onnx")


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("no.pt2", "does not exist"),
        ("no.onnx", "does not exist"),
        ("weights.pth", "give the network too"),
        ("weights.safetensors", "give the network too"),
        ("train-00", "`radii runs` lists them"),
    ],
)
def test_what_cannot_be_had_is_told(reference: str, says: str, tmp_path: Path) -> None:
    if reference.startswith("weights"):
        (tmp_path / reference).touch()
        reference = str(tmp_path / reference)
    with pytest.raises(InputError, match=says):
        find_model(reference, store=Store(tmp_path / "none"))


def test_garbage_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "g.pt2").write_bytes(b"garbage")
    with pytest.raises(InputError, match="is not a program that torch"):
        found("g.pt2", trust=["g.pt2"])


def test_models_as_words_of_the_command_line() -> None:
    """What a report says to type is what was typed: the weights and the normalization are part of it."""
    file = ModelFile(format="onnx", path="a b/net.onnx", sha256="0", mean=(0.5,), std=(0.25,))
    code = ModelFactory(factory="m.py:f", code="", weights="w.pth", sha256="0", mean=(0.5,), std=(0.25,))
    words = ["--model", "a b/net.onnx", "--model", "m.py:f", "--weights", "w.pth", "--mean", "0.5", "--std", "0.25"]
    assert command_words([file, code]) == words
