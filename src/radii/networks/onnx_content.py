"""What an ONNX file says as it stands: its graph without its weights, the files of these weights, and a digest of all.

Nothing of torch is imported here, so that a network is recognized by its content at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radii.errors import InputError, reason
from radii.files import sha256
from radii.untrusted_text import check_file

if TYPE_CHECKING:
    import onnx

LOCATION = "location"  # the key of a tensor's entry that names a file


def read_proto(path: Path) -> onnx.ModelProto:
    """The graph in ``path``; weights in other files are not read, and lie in the file's folder or below it."""
    try:
        import onnx
    except ImportError as error:
        raise InputError("ONNX files need the package onnx: pip install onnx onnxruntime onnxscript.") from error
    check_file(path)
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # protobuf has many
        raise InputError(f"{path} cannot be read as ONNX: {str(error).splitlines()[0]}") from error
    folder = path.resolve().parent
    for name, location in _locations(model):
        if not (folder / location).resolve().is_relative_to(folder):
            raise InputError(f"{path}: the weights {name!r} lie outside the file's folder: {location}.")
    return model


def _locations(message: Any) -> Iterator[tuple[str, str]]:
    """The names and files of all tensors in a message whose numbers lie in other files, those of nodes included."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for inner in [value] if hasattr(value, "ListFields") else value:
            if field.message_type.name == "TensorProto":
                yield from ((inner.name, entry.value) for entry in inner.external_data if entry.key == LOCATION)
            else:
                yield from _locations(inner)


def content_digest(path: Path) -> str:
    """The sha256 of an ONNX file; if weights lie in other files, of its digest and theirs."""
    check_file(path)
    try:
        content = path.read_bytes()
        own = hashlib.sha256(content).hexdigest()
        if LOCATION.encode() not in content:  # protobuf writes texts as they are
            return own
        files = sorted({location for _, location in _locations(read_proto(path))})
        parts = [f"{name} {sha256(path.resolve().parent / name)}" for name in files]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.filename}: {reason(error)}.") from error
    return hashlib.sha256("\n".join([own, *parts]).encode()).hexdigest() if parts else own
