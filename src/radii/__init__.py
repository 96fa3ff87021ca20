"""radii: how far can an input move before a classifier errs? proved ≤ true ≤ broken.

Names are loaded when they are used (PEP 562), so ``import radii`` and
``radii --help`` do not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Ball": "radii.threat",
    "Certificate": "radii.certify.certificate",
    "Classifier": "radii.models.classifier",
    "ContradictionError": "radii.errors",
    "Data": "radii.data.dataset",
    "Dataset": "radii.data.dataset",
    "InputError": "radii.errors",
    "Store": "radii.study.store",
    "assess": "radii.study.assess",
    "attack": "radii.attacks.catalog",
    "audit": "radii.geometry.audit",
    "evaluate": "radii.metrics.evaluation",
    "export": "radii.models.export",
    "forecast": "radii.study.forecast",
    "load": "radii.data.sources",
    "train": "radii.study.planning",
}

_ROOMS = ("certify", "data", "study", "theory")  # packages that are part of the public names; certify can be called

__all__ = [
    "Ball",
    "Certificate",
    "Classifier",
    "ContradictionError",
    "Data",
    "Dataset",
    "InputError",
    "Store",
    "__version__",
    "assess",
    "attack",
    "audit",
    "certify",
    "data",
    "evaluate",
    "export",
    "forecast",
    "load",
    "study",
    "theory",
    "train",
]

if TYPE_CHECKING:
    from radii import certify, data, study, theory
    from radii.attacks.catalog import attack
    from radii.certify.certificate import Certificate
    from radii.data.dataset import Data, Dataset
    from radii.data.sources import load
    from radii.errors import ContradictionError, InputError
    from radii.geometry.audit import audit
    from radii.metrics.evaluation import evaluate
    from radii.models.classifier import Classifier
    from radii.models.export import export
    from radii.study.assess import assess
    from radii.study.forecast import forecast
    from radii.study.planning import train
    from radii.study.store import Store
    from radii.threat import Ball


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"radii.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'radii' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
