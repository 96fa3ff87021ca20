"""Frozen, validated specs: what a computation means, as canonical JSON and a hash.

Two specs that mean the same have the same hash, whatever wrote them:
``lr=1`` and ``lr=1.0`` and ``np.float64(1)`` are one; defaults are written
out; keys are sorted; NaN and infinities are refused. Devices, folders and
evaluation batch sizes change no result and therefore are never fields.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from radii.errors import InputError, brief, reason
from radii.untrusted_text import check_file

HASH_LENGTH = 20
LARGEST = 3.4e38
SYNONYMS = {"learning_rate": "lr", "batchsize": "batch_size"}  # what people call a setting elsewhere


class Spec(BaseModel):
    """Base of every spec: immutable, no unknown fields, finite numbers only.

    ``omit_if_default`` lets a spec grow: a field added later names the value at which
    it changes nothing, and is left out of the canonical form at that value, so
    that the hashes of older runs stay the same. ``exclude_from_hash`` names fields that
    describe where something is stored, not what it is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    omit_if_default: ClassVar[dict[str, Any]] = {}
    exclude_from_hash: ClassVar[frozenset[str]] = frozenset()

    @field_validator("*")
    @classmethod
    def _fits_float32(cls, value: Any) -> Any:
        """Numbers of a computation are float32; larger ones end in an overflow of torch."""
        if isinstance(value, float) and abs(value) > LARGEST:
            raise ValueError(f"must be at most {LARGEST:g}, the largest float32, got {value:g} instead")
        return value

    def canonical(self) -> dict[str, Any]:
        """The meaning of this spec as plain JSON data; specs within specs included."""
        body: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            omitted = name in self.omit_if_default and value == self.omit_if_default[name]
            if not omitted and name not in self.exclude_from_hash:
                body[name] = _plain(value, name)
        return body

    def canonical_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, no NaN."""
        return json.dumps(self.canonical(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    def content_hash(self) -> str:
        """The first 20 hexadecimal digits of the sha256 of the canonical JSON."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()[:HASH_LENGTH]


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, Spec):
        return value.canonical()
    if isinstance(value, dict):
        return {str(key): _plain(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if hasattr(value, "item") and not isinstance(value, str):  # numpy and torch scalars
        value = value.item()
    if isinstance(value, float) and not isfinite(value):
        raise InputError(f"{name} must be a finite number, got {value} instead.")
    return value


def setting_names(spec: type[BaseModel], prefix: str = "") -> list[str]:
    """The fields of a spec and of the specs inside it, with their sections: ``epochs``, ``optimizer.lr``, …"""
    names = []
    for name, field in spec.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        inner = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        names += [f"{prefix}{name}"] if not inner else []
        for kind in inner:
            names += setting_names(kind, f"{prefix}{name}.")
    return names


def nearest_setting(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of ``known`` that a user meant by ``name``: the same word in a section, else the most similar one."""
    names, name = list(known), SYNONYMS.get(name, name)
    exact = [full for full in names if full.rpartition(".")[2] == name.rpartition(".")[2]]
    ends = {full.rpartition(".")[2]: full for full in names}
    close = get_close_matches(name, names, n=1, cutoff=cutoff)
    close = close or [ends[end] for end in get_close_matches(name.rpartition(".")[2], ends, n=1, cutoff=cutoff)]
    return next(iter(exact or close), None)


def explain(error: ValidationError, what: str, known: Iterable[str] = ()) -> InputError:
    """All faults of a spec in one message, each with what came and what was expected.

    The longest line of a pydantic report is dropped in favor of
    ``field: reason, got value``, one fault after another.
    """
    faults = []
    for fault in error.errors(include_url=False):
        where = ".".join(str(part) for part in fault["loc"]) or what
        if fault["type"] == "extra_forbidden":
            meant = nearest_setting(where, known)
            guess = f" (did you mean {meant}?)" if meant else ""
            faults.append(f"there is no setting {where!r}{guess}")
            continue
        reason = fault["msg"].removeprefix("Value error, ")
        came = "" if fault["type"] in {"missing", "value_error"} else f", got {brief(fault['input'])}"
        faults.append(f"{where}: {reason}{came}")
    return InputError(f"{what}: " + "; ".join(faults) + ".")


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in a file."""
    check_file(path)
    try:
        content = json.loads(path.read_bytes())
    except RecursionError as error:
        raise InputError(f"{path} is not {what}: it is nested too deeply.") from error
    except OSError as error:
        raise InputError(f"{path} is not {what}: {reason(error)}.") from error
    except ValueError as error:  # not JSON, not UTF-8, or a number of too many digits
        raise InputError(f"{path} is not {what}: {error}.") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} is not {what}: an object {{…}} is expected, got {type(content).__name__} instead.")
    return content


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The content of a TOML file."""
    if not path.exists():
        raise InputError(f"The {what} {path} does not exist.")
    check_file(path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise InputError(f"The {what} {path} is not TOML: it is nested too deeply.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"The {what} {path} is not TOML: {reason(error)}.") from error
