"""Settings beyond the common flags: ``KEY=VALUE`` words and a TOML file, merged, all faults told at once."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from radii.errors import InputError


def parse(words: list[str] | None, config: Path | None = None) -> dict[str, Any]:
    """``model.width=32 optimizer.lr=0.1`` on top of the file, as nested dictionaries.

    Values are read as TOML (numbers, true, "text", [lists]); anything else is a word.
    """
    settings = _from_file(config) if config is not None else {}
    for word in words or []:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InputError(f"Setting {word!r} is not understood: write KEY=VALUE, for example optimizer.lr=0.1.")
        _assign(settings, key, _value(value))
    return settings


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"The settings file {path} does not exist.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"The settings file {path} is not TOML: {error}.") from error


def _assign(settings: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for part in path:
        settings = settings.setdefault(part, {})
        if not isinstance(settings, dict):
            raise InputError(f"Setting {key!r}: {part!r} has a value already and cannot have parts.")
    settings[last] = value


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text
