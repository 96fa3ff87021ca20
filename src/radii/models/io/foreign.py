"""Models made elsewhere: exported torch programs (``.pt2``) and ONNX graphs.

Neither is allowed to run a pickle. torch's own reader of ``.pt2`` archives
falls back to full unpickling, so every member is tried with the restricted
unpickler first, and the file is refused if one does not pass.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from radii.errors import InputError


def load_pt2(path: Path) -> nn.Module:
    """A program written by ``torch.export.save``; it has gradients, so every attack works on it."""
    _check_archive(path)
    try:
        program = torch.export.load(path).module()
    except Exception as error:  # torch raises whatever its reader trips over
        raise InputError(f"{path} is not a program that torch {torch.__version__} can read: {error}.") from error
    program.train = program.eval = lambda *_: program  # type: ignore[assignment,method-assign]  # its mode is part of it
    return program


def _check_archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if Path(name).name.startswith(("custom_obj", "opaque_obj")):
                    raise InputError(f"{path} holds the pickled object {name}, which could run code; it is refused.")
                content = archive.read(name)
                if content[:2] == b"PK" or content[:1] == b"\x80":
                    torch.load(io.BytesIO(content), weights_only=True)
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not a .pt2 archive: {error}.") from error
    except (pickle.UnpicklingError, RuntimeError) as error:
        raise InputError(f"{path} holds a pickle that could run code; it is refused.") from error


class OnnxModel(nn.Module):
    """An ONNX graph run by onnxruntime: answers without gradients, so only black-box attacks apply."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            import onnxruntime
        except ImportError:
            raise InputError(f"Reading {path} needs onnxruntime: pip install 'radii[onnx]'.") from None
        try:
            self._session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        except Exception as error:
            raise InputError(f"{path} is not an ONNX model: {error}.") from error
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if len(inputs) != 1:
            raise InputError(f"{path} must take one input, got {len(inputs)} instead.")
        self._input, self._output = inputs[0].name, outputs[0].name

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of the graph's first output."""
        pixels = np.ascontiguousarray(x.detach().cpu().numpy(), dtype=np.float32)
        return torch.from_numpy(self._session.run([self._output], {self._input: pixels})[0]).to(x.device)
