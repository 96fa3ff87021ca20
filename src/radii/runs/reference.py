"""MODEL on the command line: a run, a bundle, an import path with weights, ``.pt2`` or ONNX."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from radii.data.dataset import Data
from radii.errors import InputError
from radii.models import MODELS
from radii.models.io.bundle import CARD, Architecture, fill, load_bundle, read_card
from radii.models.io.foreign import OnnxModel, load_pt2
from radii.runs.store import Run, Store


@dataclass(frozen=True)
class Found:
    """A model that a user named; ``architecture`` and ``run`` are known for our own."""

    model: nn.Module
    name: str
    architecture: Architecture | None = None
    run: Run | None = None

    @property
    def has_gradients(self) -> bool:
        """Whether attacks may ask for them."""
        return not isinstance(self.model, OnnxModel)


def find_model(
    reference: str,
    data: Data | None = None,
    *,
    weights: Path | None = None,
    trust: Collection[str] = (),
    store: Store | None = None,
) -> Found:
    """Load what ``reference`` names, in eval mode.

    Args:
        reference: a run, a bundle, ``package.module:factory``, a ``.pt2`` or ``.onnx`` file.
        data: gives the input shape and classes to a factory, and must fit any other model.
        weights: safetensors for a factory.
        trust: import paths that a run or bundle may name, and ``.pt2`` files that may be opened.
        store: where runs are; the default store.

    Raises:
        InputError: there is no such model, it does not fit, or it would run code that is not trusted.
    """
    path = Path(reference)
    if path.suffix == ".pt2":
        return Found(load_pt2(_existing(path), trust), path.name)
    if path.suffix == ".onnx":
        return Found(OnnxModel(_existing(path)), path.name)
    if path.suffix in {".pt", ".pth", ".pkl", ".ckpt", ".safetensors"}:
        raise InputError(
            f"{reference} holds weights only (or a pickle); give the network too: "
            "package.module:factory --weights FILE.safetensors."
        )
    if (path / CARD).is_file():
        return _checked(Found(*_named(path, trust)), data)
    if ":" in reference:
        return _from_factory(reference, data, weights)
    run = (store or Store.default()).find(reference)
    if not (run.folder / CARD).is_file():
        raise InputError(f"The run {run.id} holds no model; a train run is expected.")
    model, architecture = load_bundle(run.folder, trust)
    return _checked(Found(model, run.id, architecture, run), data)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"The model {path} does not exist.")
    return path


def _named(folder: Path, trust: Collection[str]) -> tuple[nn.Module, str, Architecture]:
    model, architecture = load_bundle(folder, trust)
    return model, folder.name, architecture


def _from_factory(reference: str, data: Data | None, weights: Path | None) -> Found:
    if weights is None:
        raise InputError(f"The model {reference!r} needs its weights: --weights FILE.safetensors.")
    if data is None:
        raise InputError(f"The model {reference!r} needs a dataset, which says its input shape and classes.")
    architecture = Architecture(
        name=reference,
        arguments=MODELS.arguments(reference, {}),
        input_shape=data.shape,
        classes=data.classes,
        box=data.train.box,
    )
    model = architecture.build()
    fill(model, weights)
    return Found(model.eval(), reference, architecture)


def _checked(found: Found, data: Data | None) -> Found:
    """Refuse a model of other inputs or other classes than the data's."""
    architecture = found.architecture
    if architecture is None or data is None:
        return found
    if architecture.input_shape != data.shape:
        raise InputError(
            f"The model {found.name} takes inputs of shape {architecture.input_shape}, {data.name} has {data.shape}."
        )
    if len(architecture.classes) != len(data.classes):
        raise InputError(
            f"The model {found.name} knows {len(architecture.classes)} classes, {data.name} has {len(data.classes)}."
        )
    return found


def card_of(reference: str, store: Store | None = None) -> Architecture:
    """The architecture of a run or bundle, without reading its weights."""
    path = Path(reference)
    return read_card(path if (path / CARD).is_file() else (store or Store.default()).find(reference).folder)
