"""Models in files: bundles, exports, and networks of other tools; here what MODEL may be, by its name alone."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from radii.errors import InputError
from radii.files import check_writable
from radii.models import MODELS
from radii.registry import is_import_path

WEIGHTS, CARD = "model.safetensors", "model.json"  # of a bundle
STATE_DICTS = (".pt", ".pth", ".th", ".bin", ".ckpt", ".pkl", ".tar")
PICKLES = (".joblib", ".pickle", ".sav")
NETWORK_NAME = re.compile(r"[a-z]+[a-z0-9_.-]*\d[a-z0-9_.-]*")  # as resnet18 or vit_base_patch16_224
EXPORTS = (".onnx", ".pt2")
FORMATS: dict[str, Literal["pt2", "onnx", "trees"]] = {
    ".pt2": "pt2", ".onnx": "onnx", ".json": "trees", ".txt": "trees",  # of XGBoost and CatBoost; of LightGBM
}  # fmt: skip
LIBRARIES = ("timm", "hf")
NORMALIZATIONS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {  # mean and std of pixels in [0, 1]
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "mnist": ((0.1307,), (0.3081,)),
}
ONE_WAY = "FILE.py:factory --weights FILE, where factory() returns the network"


def check_export(path: Path) -> None:
    """Refuse a file to which no model can be exported."""
    if path.suffix not in EXPORTS:
        raise InputError(f"A model is exported to .onnx or .pt2, got {path.name!r} instead.")
    check_writable(path)


def check_model_name(reference: str, weights: Path | None, find_run: Callable[[str], object]) -> None:
    """Refuse a MODEL that cannot be one: a file that is not there, weights alone, a run that the store lacks.

    Args:
        reference: as for :func:`radii.runs.model_source.find_model`.
        weights: ``--weights``.
        find_run: the run that a reference names; raises an InputError if there is none.
    """
    path = Path(reference)
    library, _, name = reference.partition(":")
    if weights is not None and not weights.is_file():
        raise InputError(f"The weights {weights} do not exist.")
    if library in LIBRARIES and ":" in reference:
        if not name:
            raise InputError(f"{reference!r} names no network; write for example timm:resnet18 or hf:OWNER/NAME.")
        return
    weights_only = path.suffix in (*STATE_DICTS, ".safetensors")
    if (path.suffix in FORMATS or weights_only) and not path.is_file():
        raise InputError(f"The model {path} does not exist.")
    if weights_only:
        raise InputError(
            f"{reference} holds weights only; give the network too: {ONE_WAY} (here --weights {reference})."
        )
    if path.suffix == ".py":
        raise InputError(f"{reference} is a file of Python; name the function that returns the network: {ONE_WAY}.")
    if is_factory(reference, weights):
        MODELS.check(reference)
    elif path.suffix in PICKLES and path.is_file():
        raise InputError(
            f"{reference} is a pickle, which can run code when it is opened, so it is refused. Load it in your own "
            "function: FILE.py:factory, where factory() returns joblib.load(…)."
        )
    elif path.suffix not in FORMATS and not (path / CARD).is_file():
        try:
            find_run(reference)
        except InputError as error:
            raise InputError(f"{error} {_other_ways(reference)}".strip()) from error


def _other_ways(reference: str) -> str:
    """What else a word may have meant that names no run."""
    if reference in MODELS:
        return f"{reference!r} is a network of radii; its weights are needed: --weights FILE."
    if not NETWORK_NAME.fullmatch(reference):
        return ""
    return (
        f"A network of timm is written timm:{reference}, one of Hugging Face hf:OWNER/NAME, your own FILE.py:function."
    )


def is_factory(reference: str, weights: Path | None) -> bool:
    """Whether a MODEL is code that builds a network; with weights the name of a network of radii is, too."""
    named = is_import_path(reference) or (weights is not None and reference in MODELS)
    return named and not (Path(reference) / CARD).is_file()
