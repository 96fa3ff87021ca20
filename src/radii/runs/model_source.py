"""MODEL of a step and of the command line: a training run, a bundle, ``.pt2``, ONNX, or Python code with weights.

A model is identified by its content, so a step about a model has one hash
wherever the model's files are.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from torch import nn

from radii.data.dataset import Data
from radii.errors import InputError
from radii.models import MODELS
from radii.models.io.bundle import CARD, WEIGHTS, Architecture, fill, load_bundle, read_card
from radii.registry import check_trust
from radii.runs.step import from_json
from radii.runs.steps.train_step import Train
from radii.runs.store import Run, Store
from radii.spec import Spec

FORMATS: dict[str, Literal["pt2", "onnx"]] = {".pt2": "pt2", ".onnx": "onnx"}
WEIGHTS_ONLY = {".pt", ".pth", ".pkl", ".ckpt", ".safetensors"}


class ModelFile(Spec):
    """A model in files: a bundle (a folder), an exported program (.pt2) or an ONNX graph.

    ``sha256`` is that of the content. ``path`` and ``trust`` (import paths that
    a bundle may name, .pt2 files that may be opened) are not hashed.
    """

    unhashed: ClassVar[frozenset[str]] = frozenset({"path", "trust"})

    format: Literal["bundle", "pt2", "onnx"]
    path: str
    sha256: str
    trust: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name of the file or folder."""
        return Path(self.path).name

    def load(self, store: Store, data: Data | None) -> LoadedModel:  # noqa: ARG002
        """The model in eval mode."""
        path = Path(self.path)
        _check_content(path, _digest(path), self.sha256)
        if self.format == "pt2":
            from radii.models.io.foreign import load_pt2

            return LoadedModel(load_pt2(path, {*self.trust} & {self.path}), self.label)
        if self.format == "onnx":
            from radii.models.io.foreign import OnnxModel

            return LoadedModel(OnnxModel(path), self.label, has_gradients=False)
        model, architecture = load_bundle(path, self.trust)
        return LoadedModel(model, self.label, architecture)


class ModelFactory(Spec):
    """A network built by Python code, ``package.module:factory``, with weights from a file.

    ``code`` is the sha256 of the module's source file, ``sha256`` that of the
    weights: after either has changed, the model is another one.
    """

    unhashed: ClassVar[frozenset[str]] = frozenset({"weights"})

    factory: str
    code: str
    weights: str
    sha256: str

    @property
    def label(self) -> str:
        """The import path."""
        return self.factory

    def load(self, store: Store, data: Data | None) -> LoadedModel:  # noqa: ARG002
        """The model in eval mode; ``data`` gives it the input shape and the classes."""
        if data is None:
            raise InputError(f"The model {self.factory!r} needs a dataset, which says its input shape and classes.")
        path = Path(self.weights)
        architecture = Architecture(
            name=self.factory,
            arguments=MODELS.arguments(self.factory, {}),
            input_shape=data.shape,
            classes=data.classes,
            box=data.train.box,
        )
        model = architecture.build()
        fill(model, path)
        _check_content(path, _digest(path), self.sha256)
        _check_content(Path(self.factory), _code_digest(self.factory), self.code)
        return LoadedModel(model.eval(), self.factory, architecture)


ModelSource = Train | ModelFile | ModelFactory


@dataclass(frozen=True)
class LoadedModel:
    """A model in eval mode.

    ``architecture`` is known for models of this package and for factories;
    ``has_gradients`` says whether attacks may ask for gradients.
    """

    model: nn.Module
    name: str
    architecture: Architecture | None = None
    has_gradients: bool = True


def find_model(
    reference: str, *, weights: Path | None = None, trust: Collection[str] = (), store: Store | None = None
) -> ModelSource:
    """The model that a user names.

    Args:
        reference: a run's id or the beginning of it, a bundle's folder, a ``.pt2`` or ``.onnx`` file, or
            ``package.module:factory``.
        weights: a safetensors file; a factory needs it.
        trust: import paths that a run or bundle may name, and ``.pt2`` files that may be opened.
        store: where runs are looked up; :meth:`Store.default` by default.

    Raises:
        InputError: there is no such model, or it would run code that was not trusted.
    """
    path = Path(reference)
    if path.suffix in FORMATS:
        if not path.is_file():
            raise InputError(f"The model {path} does not exist.")
        trusted = path.resolve() in {Path(name).resolve() for name in trust}
        return ModelFile(
            format=FORMATS[path.suffix], path=str(path), sha256=_digest(path), trust=(str(path),) if trusted else ()
        )
    if path.suffix in WEIGHTS_ONLY:
        raise InputError(
            f"{reference} holds weights only (or a pickle); give the network too: "
            "package.module:factory --weights FILE.safetensors."
        )
    if ":" in reference and not (path / CARD).is_file():
        return _find_factory(reference, weights)
    store = store or Store.default()
    run = Run(path) if (path / CARD).is_file() else store.find(reference)
    if not (run.folder / CARD).is_file():
        raise InputError(f"The run {run.id} holds no model; a train run is expected.")
    check_trust(read_card(run.folder).name, trust, str(run.folder / CARD))
    return _training(run, store) or ModelFile(
        format="bundle", path=str(run.folder), sha256=_digest(run.folder), trust=tuple(trust)
    )


def load_model(source: ModelSource, store: Store, data: Data | None = None) -> LoadedModel:
    """Load a model in eval mode and check that it fits the data.

    Args:
        source: the model; the run of a :class:`Train` step must be in ``store``.
        store: the run store.
        data: the dataset that the model is used on.

    Raises:
        InputError: the files have changed, or the model takes other inputs or has other classes than ``data``.
    """
    if isinstance(source, Train):
        model, architecture = load_bundle(store.folder(source), trust={source.model.name})
        loaded = LoadedModel(model, source.run_id, architecture)
    else:
        loaded = source.load(store, data)
    if loaded.architecture is not None and data is not None:
        _check_fit(loaded.name, loaded.architecture, data)
    return loaded


def _find_factory(reference: str, weights: Path | None) -> ModelFactory:
    if weights is None:
        raise InputError(f"The model {reference!r} needs its weights: --weights FILE.safetensors.")
    if not weights.is_file():
        raise InputError(f"The weights {weights} do not exist.")
    MODELS.factory(reference)  # a wrong name is reported before anything is computed
    return ModelFactory(factory=reference, code=_code_digest(reference), weights=str(weights), sha256=_digest(weights))


def _training(run: Run, store: Store) -> Train | None:
    """The step of a run of ``store``; None for a folder elsewhere and for runs of another version."""
    try:
        step = from_json(run.spec)
    except InputError:
        return None
    same = isinstance(step, Train) and store.folder(step).resolve() == run.folder.resolve()
    return step if same and isinstance(step, Train) else None


def _check_content(path: Path, digest: str, expected: str) -> None:
    if digest != expected:
        raise InputError(f"The model {path} has changed since this run was planned; give the command again.")


def _check_fit(name: str, architecture: Architecture, data: Data) -> None:
    """Refuse a model of other inputs or other classes than the data's."""
    if architecture.input_shape != data.shape:
        raise InputError(
            f"The model {name} takes inputs of shape {architecture.input_shape}, {data.name} has {data.shape}."
        )
    if len(architecture.classes) != len(data.classes):
        raise InputError(
            f"The model {name} knows {len(architecture.classes)} classes, {data.name} has {len(data.classes)}."
        )


def _digest(path: Path) -> str:
    """The sha256 of a file; of a bundle, that of its two files' digests."""
    if path.is_dir():
        return hashlib.sha256(f"{_digest(path / CARD)} {_digest(path / WEIGHTS)}".encode()).hexdigest()
    if not path.is_file():
        raise InputError(f"The model needs {path}, which does not exist.")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _code_digest(factory: str) -> str:
    """The sha256 of the source file of the factory's module; of its name where it has no source file."""
    name = factory.partition(":")[0]
    spec = importlib.util.find_spec(name)
    origin = None if spec is None else spec.origin
    if origin is None or not Path(origin).is_file():
        return hashlib.sha256(name.encode()).hexdigest()
    return _digest(Path(origin))
