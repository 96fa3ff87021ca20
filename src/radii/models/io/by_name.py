"""A MODEL by its name, in Python as on the command line: ``radii.evaluate("hf:OWNER/NAME", …)``."""

from __future__ import annotations

import inspect
import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radii.errors import InputError
from radii.models import MODELS
from radii.models.classifier import Classifier
from radii.models.io import CARD, LIBRARIES, check_model_name, is_factory
from radii.models.io.bundle import call_factory, load_bundle
from radii.networks.model_state import ModelState
from radii.process import runs_folder


def open_named(reference: str, x: Tensor, classes: int) -> Any:
    """What a MODEL names: a network with its preprocessing inside, or what its own function returns.

    Args:
        reference: as on the command line, see :func:`radii.runs.model_source.find_model`.
        x: inputs [n, …] that it takes.
        classes: of the data; 0 where they are not known.
    """
    check_model_name(reference, None, _run_folder)
    path = Path(reference)
    library, _, name = reference.partition(":")
    if library in LIBRARIES and name:
        from radii.models.io.timm_and_transformers import load_from_library

        own = load_from_library(library, name, classes)  # type: ignore[arg-type]
        return Classifier(own.network, own.mean or 0.0, own.std or 1.0).eval() if own.mean or own.std else own.network
    if path.suffix == ".pt2":
        raise InputError(
            f"{path} can run code when it is opened. If you trust it, give torch.export.load(path).module()."
        )
    if path.suffix == ".onnx":
        from radii.models.io.exported_programs import open_onnx

        network = open_onnx(path)
        if network.obstacle:
            logging.getLogger("radii").warning("It is attacked without gradients: %s", network.obstacle)
        return network.model
    if is_factory(reference, None):
        return _built(reference, tuple(x.shape[1:]), classes)
    return load_bundle(path if (path / CARD).is_file() else _run_folder(reference))[0]


def _run_folder(reference: str) -> Path:
    """The folder of the one run with a model whose id, or the hash in it, begins with ``reference``."""
    root = runs_folder()
    folders = [card.parent for card in sorted(root.glob(f"runs/*/{CARD}"))]
    fitting = [each for each in folders if reference and reference in (each.name, str(each))] or [
        each
        for each in folders
        if reference and (each.name.startswith(reference) or each.name.split("-")[-1].startswith(reference))
    ]
    if len(fitting) != 1:
        many = f"{len(fitting)} runs with a model" if fitting else "no run with a model"
        raise InputError(f"In {root} {many} {'fit' if fitting else 'fits'} {reference!r}. `radii runs` lists them.")
    return fitting[0]


def _built(factory: str, shape: tuple[int, ...], classes: int) -> Any:
    """What a function of the user returns; random weights are refused."""
    function = MODELS.factory(factory)
    if not classes and set(inspect.signature(function).parameters) & set(MODELS.positional[1:]):
        raise InputError(f"{factory} asks how many classes there are, which only labels say: give the network itself.")
    made = []
    for seed in (0, 1):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made.append(call_factory(function, factory, shape, classes, MODELS.arguments(factory, {})))
    if isinstance(made[0], nn.Module) and ModelState.of(made[0]).weights != ModelState.of(made[1]).weights:
        raise InputError(
            f"The model {factory!r} is another one each time it is built: its weights are random. Load them in the "
            "function, or give the network itself."
        )
    return made[0]
