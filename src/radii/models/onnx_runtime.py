"""An ONNX file as onnxruntime computes it: the deployed network that statements are about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from radii.errors import InputError


class OnnxRuntime:
    """Float32 inputs [n, inputs] to outputs [n, outputs], one example at a time, by onnxruntime on one thread."""

    def __init__(self, path: Path) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise InputError("ONNX files need the package onnxruntime: pip install 'radii[onnx]'.") from error
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise InputError(f"onnxruntime cannot run {path}: {str(error).splitlines()[0]}") from error
        fixed = {entry.name for entry in self._session.get_overridable_initializers()}
        (self._input,) = (entry for entry in self._session.get_inputs() if entry.name not in fixed)
        self._shape = [size if isinstance(size, int) and size > 0 else 1 for size in self._input.shape]

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs of each row."""
        rows = []
        for row in x.detach().numpy().astype(np.float32):
            (made, *_) = self._session.run(None, {self._input.name: row.reshape(self._shape)})
            rows.append(torch.from_numpy(np.asarray(made, dtype=np.float32).reshape(-1).copy()))
        return torch.stack(rows)
