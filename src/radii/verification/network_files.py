"""The files of the networks of a property: one, or several by the names that the property gives them.

Nothing of torch is imported here, so that networks are recognized by their content at once.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from radii.errors import InputError
from radii.networks.onnx_content import content_digest

if TYPE_CHECKING:
    from radii.verification._vnnlib_cases import Layout

Files = Path | str | Mapping[str, Path | str]
_PAIRS = re.compile(r"\[\s*\(.*\)\s*,?\s*\]", re.DOTALL)


def named_files(network: Files) -> Path | dict[str, Path]:
    """One file, or files by name.

    ``network`` is a file, files by name, or the text ``[('f', 'a.onnx'), ('g', 'b.onnx')]`` of competitions; what
    stands before the bracket is the folder of these files.
    """
    if isinstance(network, Mapping):
        return {name: Path(path) for name, path in network.items()}
    text = str(network)
    start = text.find("[")
    if start < 0 or not _PAIRS.fullmatch(text[start:]):
        return Path(network)
    try:
        pairs = [(str(name), Path(text[:start]) / path) for name, path in ast.literal_eval(text[start:])]
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise InputError(f"Networks must be given as [('f', 'a.onnx'), ('g', 'b.onnx')], got {text} instead.") from None
    if len(dict(pairs)) < len(pairs):
        raise InputError(f"Every network needs one file, got {text} instead.")
    return dict(pairs)


def files_of(network: Files, layout: Layout) -> dict[str, Path]:
    """The file of each declared network, by its name; see :func:`named_files`."""
    given = named_files(network)
    needed = [declared for declared in layout.networks if not declared.equal_to]
    if isinstance(given, Path):
        if len(needed) > 1:
            names = ", ".join(declared.name for declared in needed)
            raise InputError(f"The property has the networks {names}; give a file for each, got {given} instead.")
        given = {needed[0].name: given}
    unknown = sorted(set(given) - {declared.name for declared in layout.networks})
    if unknown and layout.version > 1:
        raise InputError(f"The property declares no network {unknown[0]!r}.")
    files = dict[str, Path]()
    for declared in layout.networks:
        path = given.get(declared.name, files.get(declared.equal_to))
        if layout.version == 1 and len(given) == 1:
            (path,) = given.values()
        if path is None:
            raise InputError(f"The network {declared.name!r} of the property has no file.")
        if declared.equal_to and content_digest(path) != content_digest(files[declared.equal_to]):
            raise InputError(f"{path} must be the network {declared.equal_to!r}, as the property declares.")
        files[declared.name] = path
    return files


def networks_digest(network: Files) -> str:
    """The sha256 of one file with its weights, or of those of several and their names."""
    files = named_files(network)
    if isinstance(files, Path):
        return content_digest(files)
    parts = [f"{name} {content_digest(path)}" for name, path in sorted(files.items())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
