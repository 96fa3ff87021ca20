"""Records with arrays as one file: arrays are tensors under their dotted names, all other fields are facts beside them.

``points.label`` is the field ``label`` of the record in the field ``points``.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from pydantic import ConfigDict, ValidationError, create_model
from pydantic_core import to_jsonable_python
from torch import Tensor

from radii.errors import InputError
from radii.models.io.weights import read_tensors, write_tensors

T = TypeVar("T")


def write_record(path: Path, record: Any) -> None:
    """Write ``record``, a dataclass with dataclasses in its fields, to ``path``; :func:`read_record` gives it back."""
    tensors: dict[str, Tensor] = {}
    write_tensors(path, tensors, _facts(record, "", tensors), durable=False)


def _facts(record: Any, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The fields that are no arrays as JSON data; arrays are put into ``tensors``."""
    facts: dict[str, Any] = {}
    for field in fields(record):
        name, value = f"{prefix}{field.name}", getattr(record, field.name)
        if isinstance(value, np.ndarray):
            tensors[name] = torch.from_numpy(np.array(value, order="C"))  # a copy: a view may run backwards
        elif is_dataclass(value):
            facts[field.name] = _facts(value, f"{name}.", tensors)
        else:
            facts[field.name] = to_jsonable_python(value, inf_nan_mode="constants", fallback=_plain)
    return facts


def _plain(value: Any) -> Any:
    return value.item()  # a number of numpy


def read_record(path: Path, record: type[T]) -> T:
    """The record in the file ``path``."""
    tensors, facts = read_tensors(path)
    content: dict[str, Any] = dict(facts)
    for name, tensor in tensors.items():
        *parts, last = name.split(".")
        place = content
        for part in parts:
            place = place.setdefault(part, {})
        place[last] = tensor.numpy()
    holder = create_model("Holder", __config__=ConfigDict(arbitrary_types_allowed=True), record=(record, ...))
    try:
        whole: T = holder.model_validate({"record": content}).record  # type: ignore[attr-defined]
    except (ValidationError, TypeError, AttributeError) as error:
        raise InputError(f"{path} does not hold what this version of radii writes; compute its run again.") from error
    return whole
