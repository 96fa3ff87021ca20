"""Models of other programs: exported torch programs (``.pt2``), and ONNX graphs run by onnxruntime.

torch's reader of ``.pt2`` archives unpickles, so opening such a file can run
any code that its author wrote: it is opened only if the caller trusts it. ONNX
is a graph of known operators and runs nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radii.errors import InputError, reason
from radii.models.equality_check import check_same, probes


def load_pt2(path: Path, trust: Collection[str] = ()) -> nn.Module:
    """Load a program written by ``torch.export.save``; it has gradients, so every attack works on it.

    Args:
        trust: trusted files; ``path`` must be one of them.

    Returns:
        The program as a module; its mode (train or eval) is fixed.
    """
    if path.resolve() not in {Path(name).resolve() for name in trust}:
        raise InputError(
            f"{path} can run code when it is opened, as every .pt2 file can. If you trust its author, say so: "
            f"--trust {path} (in Python: trust=[{str(path)!r}]). ONNX is the format for models of strangers."
        )
    try:
        program = torch.export.load(path).module()
    except Exception as error:  # torch raises whatever its reader trips over
        why = f"{path} is not a program that torch {torch.__version__} can read: {reason(error)}."
        raise InputError(why) from error
    program.train = program.eval = lambda *_: program  # type: ignore[assignment,method-assign]  # its mode is part of it
    return program


@dataclass(frozen=True)
class _OnnxNetwork:
    """An ONNX file as a model.

    Args:
        model: the graph in torch, with gradients; or one that onnxruntime answers for.
        obstacle: why it has no gradients; empty if it has.
    """

    model: nn.Module
    obstacle: str = ""


@functools.lru_cache(maxsize=4)
def open_onnx(path: Path, content: str = "") -> _OnnxNetwork:  # noqa: ARG001
    """The network of an ONNX file, with gradients where radii understands the graph and agrees with onnxruntime.

    Agreement is tried on a dozen small batches; answers may differ by a thousandth of the logits' spread.

    Args:
        content: its sha256; a file that has changed is read again.
    """
    from radii.networks.graph import GraphNetwork
    from radii.networks.read_onnx import read_onnx

    answers = _OnnxModel(path)
    try:
        network = GraphNetwork(read_onnx(path), strict=True).eval()
        if network.graph.shape[0] != 1:
            raise InputError(f"{path} has a fixed batch of {network.graph.shape[0]}.")
        with torch.no_grad():
            for x in probes(network.graph.input_shape, torch.zeros(())):
                logits = network(x)
                check_same(answers(x).flatten(1), (logits, logits))
    except InputError as error:
        differs = "does not do what its layers do" in str(error)
        return _OnnxNetwork(
            answers, f"{path} answers differently in torch and in onnxruntime." if differs else str(error)
        )
    return _OnnxNetwork(network)


class _OnnxModel(nn.Module):
    """An ONNX graph run by onnxruntime: logits without gradients, so only black-box attacks apply."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.training = False  # it has no other mode
        self._session, self._path = onnx_session(path), path
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            raise InputError(f"{path} must take one input, got {len(inputs)} instead.")
        self._input, self._output = inputs[0].name, self._session.get_outputs()[0].name
        batch, *rest = inputs[0].shape or [None]
        self._shape: list[int | str | None] = rest
        self._batch = batch if isinstance(batch, int) and batch > 0 else None  # torch's default export fixes it

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of the graph's first output; a graph of a fixed batch is asked batch after batch."""
        pixels = np.ascontiguousarray(x.detach().cpu().numpy(), dtype=np.float32)
        size = self._batch or max(1, len(pixels))
        answers = [self._answer(pixels[start : start + size]) for start in range(0, len(pixels), size)]
        return torch.from_numpy(np.concatenate(answers)).to(x.device)

    def _answer(self, pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        count = len(pixels)
        if self._batch is not None and count < self._batch:
            pixels = np.concatenate([pixels, np.repeat(pixels[-1:], self._batch - count, axis=0)])
        try:
            return np.asarray(self._session.run([self._output], {self._input: pixels})[0])[:count]
        except Exception as error:  # onnxruntime raises its own types
            wanted = tuple(size if isinstance(size, int) else "any" for size in self._shape)
            raise InputError(
                f"{self._path} takes inputs of shape {wanted}, got {pixels.shape[1:]}: {str(error).splitlines()[0]}."
            ) from error


class OnnxRuntime:
    """The network that a proof is about: float32 inputs [n, inputs] to outputs [n, outputs], row by row, on one thread.

    Args:
        optimized: let onnxruntime rewrite the graph, as a session does by default: it folds batch norms into
            convolutions, whose products may underflow. Without, every node computes what the file says.
    """

    def __init__(self, path: Path, optimized: bool = False) -> None:
        self._session = onnx_session(path, threads=1, optimized=optimized)
        fixed = {entry.name for entry in self._session.get_overridable_initializers()}
        (self._input,) = (entry for entry in self._session.get_inputs() if entry.name not in fixed)
        self._shape = [size if isinstance(size, int) and size > 0 else 1 for size in self._input.shape]

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs of each row of ``x``."""
        rows = []
        for row in x.detach().numpy().astype(np.float32):
            output, *_ = self._session.run(None, {self._input.name: row.reshape(self._shape)})
            rows.append(torch.from_numpy(np.asarray(output, dtype=np.float32).reshape(-1).copy()))
        return torch.stack(rows)


def onnx_session(path: Path, threads: int = 0, optimized: bool = True) -> Any:
    """An onnxruntime session of the file ``path``; 0 threads: as many as onnxruntime chooses."""
    try:
        import onnxruntime
    except ImportError as error:
        raise InputError(f"Reading {path} needs onnxruntime: pip install onnx onnxruntime onnxscript.") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InputError(
            f"{path} is not an ONNX model that onnxruntime can run: {str(error).splitlines()[0]}"
        ) from error
