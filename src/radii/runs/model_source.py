"""MODEL of a step and of the command line: a run, a bundle, ``.pt2``, ONNX, own code, a network of a library.

A model is identified by its content, so a step about a model has one hash
wherever the model's files are.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from radii.data.dataset import Data
from radii.errors import InputError
from radii.files import sha256 as file_digest
from radii.models import MODELS
from radii.models.adapter import BlackBox, Outputs, adapt
from radii.models.classifier import Classifier
from radii.models.io import CARD, FORMATS, LIBRARIES, WEIGHTS, check_model_name, is_factory
from radii.models.io.bundle import Architecture, call_factory, load_bundle, read_card
from radii.models.io.weights import fill
from radii.networks.calling import ask, frozen
from radii.networks.model_state import ModelState
from radii.registry import check_trust, is_import_path, source_file
from radii.runs.component_specs import DataSpec
from radii.runs.step import from_json
from radii.runs.steps.train_step import Train
from radii.runs.store import Run, Store
from radii.spec import Spec


class UserModel(Spec):
    """A model that radii did not train: what it expects and what it returns.

    ``mean`` and ``std`` (per channel) are applied before the network, so that a
    radius means pixels; empty means none. ``outputs`` says what the network returns.
    """

    omit_if_default: ClassVar[dict[str, Any]] = {"mean": (), "std": (), "outputs": "auto"}

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    outputs: Outputs = "auto"

    @property
    def answers_only(self) -> bool:
        """Whether the model gives no gradients, so that only black-box attacks apply."""
        return False

    @property
    def suite(self) -> str:
        """The suite of a model without gradients; empty for others."""
        return "black-box" if self.answers_only else ""


class ModelFile(UserModel):
    """A model in files: a bundle (a folder), an exported program (.pt2), an ONNX graph, or a library's file of trees.

    ``sha256`` is that of the content. ``path`` and ``trust`` (import paths that
    a bundle may name, .pt2 files that may be opened) are not hashed.
    """

    exclude_from_hash: ClassVar[frozenset[str]] = frozenset({"path", "trust"})

    format: Literal["bundle", "pt2", "onnx", "trees"]
    path: str
    sha256: str
    trust: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name of the file or folder."""
        return Path(self.path).name

    @property
    def answers_only(self) -> bool:
        """Whether it is of trees, or an ONNX graph that torch cannot run; others have gradients."""
        if self.format == "trees":
            return True
        from radii.models.io.exported_programs import open_onnx

        return self.format == "onnx" and bool(open_onnx(Path(self.path), self.sha256).obstacle)

    def load(self, store: Store, data: Data | None) -> LoadedModel:  # noqa: ARG002
        """The model in eval mode."""
        from radii.models.io.exported_programs import load_pt2, open_onnx

        path = Path(self.path)
        _check_content(path, _digest(path), self.sha256)
        if self.format == "pt2":
            return LoadedModel(load_pt2(path, {*self.trust} & {self.path}), self.label)
        if self.format == "trees":
            from radii.models.trees.library_files import read_tree_file

            return LoadedModel(BlackBox(read_tree_file(path)), self.label, has_gradients=False)
        if self.format == "onnx":
            network = open_onnx(path, self.sha256)
            if network.obstacle:
                logging.getLogger("radii").warning("It is attacked without gradients: %s", network.obstacle)
            return LoadedModel(network.model, self.label, has_gradients=not network.obstacle)
        model, architecture = load_bundle(path, self.trust)
        return LoadedModel(model, self.label, architecture)


class ModelFactory(UserModel):
    """A model built by Python code, ``package.module:factory`` or ``file.py:factory``.

    ``code`` is the sha256 of the module's source file, ``sha256`` that of the
    weights, or of what the factory returns where it brings its own: after either
    has changed, the model is another one. ``black_box`` marks an estimator or a function.
    """

    omit_if_default: ClassVar[dict[str, Any]] = {**UserModel.omit_if_default, "black_box": False, "decisions": False}
    exclude_from_hash: ClassVar[frozenset[str]] = frozenset({"weights"})

    factory: str
    code: str
    weights: str
    sha256: str
    black_box: bool = False
    decisions: bool = False  # it only names a class

    @property
    def label(self) -> str:
        """The import path."""
        return self.factory

    @property
    def answers_only(self) -> bool:
        """Estimators and functions are asked, not differentiated."""
        return self.black_box

    @property
    def suite(self) -> str:
        """As of every model; of one that only names a class, the attacks that need no more."""
        return "decisions" if self.decisions else super().suite

    def load(self, store: Store, data: Data | None) -> LoadedModel:  # noqa: ARG002
        """The model in eval mode; ``data`` gives it the input shape and the classes."""
        if data is None:
            raise InputError(f"The model {self.factory!r} needs a dataset, which says its input shape and classes.")
        model, weights = _built(self.factory, data, seed=0), Path(self.weights)
        if self.weights:
            fill(model, weights)
        own = _answers_of(model, data) if self.sha256.startswith(ANSWERS) else _content(model)
        _check_content(weights, _digest(weights) if self.weights else own, self.sha256)
        _check_content(Path(self.factory), _code_digest(self.factory), self.code)
        if not isinstance(model, nn.Module):
            return LoadedModel(model, self.factory, has_gradients=False)
        architecture = Architecture(
            name=self.factory,
            arguments=MODELS.arguments(self.factory, {}),
            input_shape=data.shape,
            classes=data.classes,
            box=data.train.box,
        )
        return LoadedModel(model.eval(), self.factory, architecture)


class LibraryModel(UserModel):
    """A network of timm or of transformers, with its weights or with those of a file.

    ``sha256`` is that of the weights. ``mean`` and ``std`` are the user's, or else the network's own.
    """

    exclude_from_hash: ClassVar[frozenset[str]] = frozenset({"weights"})

    library: Literal["timm", "hf"]
    name: str
    weights: str = ""
    sha256: str

    @property
    def label(self) -> str:
        """The name with its library."""
        return f"{self.library}:{self.name}"

    def load(self, store: Store, data: Data | None) -> LoadedModel:  # noqa: ARG002
        """The network in eval mode, its classes in the order of the data's if their names are the same."""
        from radii.models.io.timm_and_transformers import in_order, load_from_library

        classes = () if data is None else data.classes
        weights = Path(self.weights) if self.weights else None
        own = load_from_library(self.library, self.name, len(classes), weights)
        _check_content(Path(self.label), _content(own.network), self.sha256)
        return LoadedModel(in_order(own, classes), self.label)


ModelSource = Train | ModelFile | ModelFactory | LibraryModel


@dataclass(frozen=True)
class LoadedModel:
    """A model in eval mode.

    ``architecture`` is known for models of this package and for factories;
    ``has_gradients`` says whether attacks may ask for gradients.
    """

    model: nn.Module | Any
    name: str
    architecture: Architecture | None = None
    has_gradients: bool = True


def find_model(
    reference: str,
    *,
    weights: Path | None = None,
    trust: Collection[str] = (),
    store: Store | None = None,
    data: DataSpec | None = None,
    mean: tuple[float, ...] = (),
    std: tuple[float, ...] = (),
    outputs: Outputs = "auto",
) -> ModelSource:
    """The model that a user names.

    Args:
        reference: a run's id or the beginning of it, a bundle's folder, a ``.pt2`` or ``.onnx`` file,
            ``package.module:factory``, ``file.py:factory``, ``timm:NAME`` or ``hf:REPOSITORY``; with ``weights`` also
            the name of a model of this package.
        trust: import paths that a run or bundle may name, and ``.pt2`` files that may be opened.
        store: where runs are looked up; :meth:`Store.default` by default.
        data: what the model is used on; a factory that brings its own weights is called with its shape and classes.
        mean: per channel, subtracted from the pixels before the network.
        std: per channel, by which the pixels are divided.
    """
    source = _find(reference, weights, trust, store or Store.default(), data)
    wanted = {"mean": tuple(mean), "std": tuple(std), "outputs": outputs}
    wanted = {key: value for key, value in wanted.items() if value != UserModel.omit_if_default[key]}
    if wanted and isinstance(source, Train):
        raise InputError(
            f"{reference} is a run of radii, which has its preprocessing inside: leave out --mean and --std."
        )
    return source.model_copy(update=wanted)


def _find(
    reference: str, weights: Path | None, trust: Collection[str], store: Store, data: DataSpec | None
) -> ModelSource:
    path = Path(reference)
    library, _, name = reference.partition(":")
    check_model_name(reference, weights, store.named)
    if library in LIBRARIES and name:
        return _find_in_library(library, name, weights, data)  # type: ignore[arg-type]
    if path.suffix in FORMATS:
        trusted = path.resolve() in {Path(name).resolve() for name in trust}
        return ModelFile(
            format=FORMATS[path.suffix], path=str(path), sha256=_digest(path), trust=(str(path),) if trusted else ()
        )
    if is_factory(reference, weights):
        return _find_factory(reference, weights, data)
    run = Run(path) if (path / CARD).is_file() else store.find(reference)
    if not (run.folder / CARD).is_file():
        raise InputError(f"The run {run.id} holds no model; a train run is expected.")
    check_trust(read_card(run.folder).name, trust, str(run.folder / CARD))
    return _training(run, store) or ModelFile(
        format="bundle", path=str(run.folder), sha256=_digest(run.folder), trust=tuple(trust)
    )


def command_words(sources: Sequence[ModelSource]) -> list[str]:
    """The models as options of ``radii assess``; what they expect and return is said once for all of them."""
    words: list[str] = []
    shared: dict[str, str] = {}
    for source in sources:
        words += ["--model", source.run_id if isinstance(source, Train) else getattr(source, "path", source.label)]
        if weights := getattr(source, "weights", ""):
            words += ["--weights", weights]
        if isinstance(source, UserModel):
            shared |= {f"--{name}": ",".join(f"{own:g}" for own in getattr(source, name)) for name in ("mean", "std")}
            shared["--outputs"] = "" if source.outputs == "auto" else source.outputs
    return words + [word for option, value in shared.items() if value for word in (option, value)]


def load_model(source: ModelSource, store: Store, data: Data | None = None) -> LoadedModel:
    """Load a model in eval mode and check that it fits the data.

    Args:
        source: the model; the run of a :class:`Train` step must be in ``store``.
    """
    if isinstance(source, Train):
        model, architecture = load_bundle(store.folder(source), trust={source.model.name})
        loaded = LoadedModel(model, source.run_id, architecture)
    else:
        loaded = source.load(store, data)
    if loaded.architecture is not None and data is not None:
        _check_fit(loaded.name, loaded.architecture.input_shape, len(loaded.architecture.classes), data)
    return loaded if isinstance(source, Train) else _adapted(loaded, source, data)


def _adapted(loaded: LoadedModel, source: UserModel, data: Data | None) -> LoadedModel:
    """The model with its preprocessing inside, from inputs of ``data`` to as many logits as it has classes."""
    if data is None:
        return replace(loaded, model=_normalized(loaded.model, source))
    x = data.test.tensors(range(min(8, len(data.test))))[0]
    channels = {len(values) for values in (source.mean, source.std)} - {0, 1, x.shape[1]}
    if channels:
        remedy = "one number, as --mean 0.5" if x.shape[1] == 1 else f"one number or {x.shape[1]} with commas"
        raise InputError(
            f"--mean and --std have {max(channels)} channels, inputs of {data.name} have {x.shape[1]}: give {remedy}."
        )
    inside = loaded.model if isinstance(loaded.model, nn.Module) else _asked(loaded.model, x, source, data)
    model = adapt(_normalized(inside, source), x, outputs=source.outputs)
    with torch.no_grad(), frozen(model):
        _check_fit(loaded.name, data.shape, ask(model, x).shape[1], data)
    return replace(loaded, model=model.eval(), has_gradients=loaded.has_gradients and not isinstance(inside, BlackBox))


def _asked(model: Any, x: torch.Tensor, source: UserModel, data: Data) -> nn.Module:
    """An estimator or a function as a module; an estimator gets the columns of the table to which it was fitted."""
    rules = data.train.rules
    if rules is not None:
        from radii.models.estimators import of_columns

        model = of_columns(model, rules.names, rules.one_hot, x.numpy())
    return adapt(model, x, outputs=source.outputs, classes=len(data.classes), names=data.classes)


def _normalized(model: nn.Module, source: UserModel) -> nn.Module:
    return Classifier(model, source.mean or 0.0, source.std or 1.0).eval() if source.mean or source.std else model


def _find_factory(reference: str, weights: Path | None, data: DataSpec | None) -> ModelFactory:
    MODELS.factory(reference)  # a wrong name is reported before anything is computed
    code = _code_digest(reference)
    if weights is not None:
        return ModelFactory(factory=reference, code=code, weights=str(weights), sha256=_digest(weights))
    if data is None:
        raise InputError(f"The model {reference!r} needs its weights: --weights FILE.")
    loaded = data.load()
    models = [_built(reference, loaded, seed) for seed in (0, 1)]
    first, second = (_content(model) for model in models)
    if first != second and not isinstance(models[0], nn.Module):  # some libraries never write the same pickle twice
        first, second = (_answers_of(model, loaded) for model in models)
    if first != second:
        raise InputError(
            f"The model {reference!r} is another one each time it is built: its weights are random. Give them: "
            "--weights FILE (.pth or .safetensors), or load them in the factory."
        )
    black_box = not isinstance(models[0], nn.Module) or isinstance(models[0], BlackBox)
    decisions = black_box and _only_names_classes(models[0], loaded)
    return ModelFactory(
        factory=reference, code=code, weights="", sha256=first, black_box=black_box, decisions=decisions
    )


def _only_names_classes(model: Any, data: Data) -> bool:
    if isinstance(model, nn.Module) or not hasattr(model, "predict"):
        return bool(getattr(model, "decisions", False))
    if hasattr(model, "predict_proba") or hasattr(model, "decision_function"):
        return False
    box = _asked(model, data.test.tensors(range(min(8, len(data.test))))[0], UserModel(), data)
    return isinstance(box, BlackBox) and box.decisions


ANSWERS = "answers "  # before a digest of answers in place of one of content


def _answers_of(model: Any, data: Data) -> str:
    """A digest of an estimator's answers at test points, for one whose pickle is another one each time."""
    x = data.test.tensors(range(min(256, len(data.test))))[0]
    with torch.no_grad():
        answers = _asked(model, x, UserModel(), data)(x)
    return ANSWERS + hashlib.sha256(answers.numpy().tobytes()).hexdigest()


def _find_in_library(
    library: Literal["timm", "hf"], name: str, weights: Path | None, data: DataSpec | None
) -> LibraryModel:
    from radii.models.io.timm_and_transformers import load_from_library

    own = load_from_library(library, name, 0 if data is None else len(data.load().classes), weights)
    return LibraryModel(
        library=library,
        name=name,
        weights="" if weights is None else str(weights),
        sha256=_content(own.network),
        mean=own.mean,
        std=own.std,
    )


def _built(factory: str, data: Data, seed: int) -> Any:
    """What a factory returns, with torch's random stream at ``seed`` while it works."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        arguments = MODELS.arguments(factory, {})
        return call_factory(MODELS.factory(factory), factory, data.shape, len(data.classes), arguments)


def _content(model: Any) -> str:
    """A digest of the weights of a network or of the state of an estimator; of a function, its code is all there is."""
    if isinstance(model, BlackBox):
        model = model.estimator or model.scores
    if isinstance(model, nn.Module):
        return ModelState.of(model).weights
    try:
        return hashlib.sha256(pickle.dumps(model)).hexdigest()
    except Exception:  # functions and sessions have no content of their own
        return ""


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


def _check_fit(name: str, input_shape: tuple[int, ...], classes: int, data: Data) -> None:
    """Refuse a model of other inputs or other classes than the data's."""
    if input_shape != data.shape:
        raise InputError(f"The model {name} takes inputs of shape {input_shape}, {data.name} has {data.shape}.")
    if classes != len(data.classes):
        raise InputError(f"The model {name} knows {classes} classes, {data.name} has {len(data.classes)}.")


def _digest(path: Path) -> str:
    """The sha256 of a file, of ONNX with the files of its weights; of a bundle, that of its two files' digests."""
    if path.is_dir():
        return hashlib.sha256(f"{_digest(path / CARD)} {_digest(path / WEIGHTS)}".encode()).hexdigest()
    if not path.is_file():
        raise InputError(f"The model needs {path}, which does not exist.")
    if path.suffix != ".onnx":
        return file_digest(path)
    from radii.networks.onnx_content import content_digest

    return content_digest(path)


def _code_digest(factory: str) -> str:
    """The sha256 of the source file of the factory's module; of its name where it has no source file."""
    if not is_import_path(factory):
        return ""
    file = source_file(factory)
    return hashlib.sha256(factory.partition(":")[0].encode()).hexdigest() if file is None else _digest(file)
