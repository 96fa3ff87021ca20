"""Models made elsewhere: exported torch programs (``.pt2``) and ONNX graphs.

torch's reader of ``.pt2`` archives unpickles, so opening such a file can run
any code that its maker wrote: it is opened only if the caller trusts it. ONNX
is a graph of known operators and runs nothing else.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from radii.errors import InputError


def load_pt2(path: Path, trust: Collection[str] = ()) -> nn.Module:
    """A program written by ``torch.export.save``; it has gradients, so every attack works on it.

    Args:
        path: the file.
        trust: must hold the file's path.

    Raises:
        InputError: the file is not trusted, or torch cannot read it.
    """
    if path.resolve() not in {Path(name).resolve() for name in trust}:
        raise InputError(
            f"{path} can run code when it is opened, as every .pt2 file can. If you trust its maker, say so: "
            f"--trust {path} (in Python: trust=[{str(path)!r}]). ONNX is the format for models of strangers."
        )
    try:
        program = torch.export.load(path).module()
    except Exception as error:  # torch raises whatever its reader trips over
        raise InputError(f"{path} is not a program that torch {torch.__version__} can read: {error}.") from error
    program.train = program.eval = lambda *_: program  # type: ignore[assignment,method-assign]  # its mode is part of it
    return program


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
