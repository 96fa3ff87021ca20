"""Settings beyond the common flags: ``KEY=VALUE`` words and a TOML file, merged."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from radii.errors import InputError
from radii.spec import read_toml


def parse(words: list[str] | None, config: Path | None = None) -> dict[str, Any]:
    """Settings as nested dictionaries.

    Args:
        words: such as ``model.width=32``, laid over the file. A value is read as TOML (a number, true, "text",
            [a list]); anything else is text.
        config: a TOML file.

    Raises:
        InputError: a word is not KEY=VALUE, or the file cannot be read.
    """
    settings = read_toml(config, "settings file") if config is not None else {}
    for word in words or []:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InputError(f"Setting {word!r} is not understood: write KEY=VALUE, for example optimizer.lr=0.1.")
        _assign(settings, key, _value(value))
    return settings


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
    except (ValueError, RecursionError):  # not TOML, or too many digits or brackets
        return text
