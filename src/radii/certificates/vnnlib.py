"""A robustness property as VNN-LIB, for verifiers outside this package.

The file declares inputs X_i and outputs Y_j, bounds every X_i by the Linf ball
around one input, and asserts the negation of robustness: some other class's
logit is at least the label's. ``unsat`` means robust, ``sat`` comes with a
counterexample in the same format, which :func:`read_counterexample` turns into an input.
:func:`radii.certificates.complete.query.read_query` reads properties.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radii.atomic import write_whole
from radii.errors import InputError, reason
from radii.models.classifier import ask, check_inputs, frozen, predicted_class
from radii.models.io.export import export
from radii.threat import Ball

_VALUE = re.compile(r"\(\s*X_(\d+)\s+(\S+?)\s*\)")


@dataclass(frozen=True)
class Property:
    """Inputs between ``lower`` and ``upper`` [d] are classified ``label`` of ``classes``."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    label: int
    classes: int


def local_robustness(x: Tensor, label: int, classes: int, ball: Ball) -> Property:
    """The property of one input ``x`` [c, h, w] or [d]: every point of the Linf ``ball`` has class ``label``.

    ``classes`` is the number of classes.
    """
    if ball.norm != "linf":
        raise InputError(f"VNN-LIB bounds each coordinate: a linf ball is needed, got {ball.norm!r} instead.")
    if not 0 <= label < classes:
        raise InputError(f"The label must lie in 0..{classes - 1}, got {label} instead.")
    check_inputs(x[None], ball.box)
    center = x.detach().double().flatten().numpy()
    lower, upper = center - ball.radius, center + ball.radius
    if ball.box is not None:
        lower, upper = lower.clip(*ball.box), upper.clip(*ball.box)
    return Property(lower, upper, label, classes)


def write_property(path: Path, statement: Property) -> None:
    """Write ``statement`` to ``path`` as VNN-LIB; numbers keep all their digits, so reading gives the same property."""
    lines = ["; unsat: no input within these bounds leaves its class"]
    lines += [f"(declare-const X_{i} Real)" for i in range(len(statement.lower))]
    lines += [f"(declare-const Y_{j} Real)" for j in range(statement.classes)]
    for i, (low, high) in enumerate(zip(statement.lower, statement.upper, strict=True)):
        lines += [f"(assert (>= X_{i} {_decimal(low)}))", f"(assert (<= X_{i} {_decimal(high)}))"]
    rivals = [f"(and (>= Y_{j} Y_{statement.label}))" for j in range(statement.classes) if j != statement.label]
    lines.append(f"(assert (or {' '.join(rivals)}))")
    write_whole(path, ("\n".join(lines) + "\n").encode())


def read_counterexample(path: Path, shape: tuple[int, ...]) -> Tensor:
    """The input in a verifier's ``sat`` answer ``path``, ``((X_0 0.5) (X_1 0.25) …)``: float32 of ``shape``."""
    values = {int(number): float(value) for number, value in _VALUE.findall(_text(path))}
    size = int(np.prod(shape))
    if sorted(values) != list(range(size)):
        raise InputError(f"{path} must give X_0 to X_{size - 1}, got {len(values)} values instead.")
    return torch.tensor([values[number] for number in range(size)], dtype=torch.float32).view(shape)


def refutes(model: nn.Module, x: Tensor, statement: Property) -> bool:
    """Whether ``x`` is a counterexample to ``statement``: within its bounds, and ``model`` gives another class."""
    flat = x.double().flatten().numpy()
    slack = 1e-6
    inside = bool(np.all(flat >= statement.lower - slack) and np.all(flat <= statement.upper + slack))
    with frozen(model), torch.no_grad():
        return inside and int(predicted_class(ask(model, x[None]))) != statement.label


def write_instances(folder: Path, model: nn.Module, x: Tensor, ball: Ball, seconds: int = 60) -> list[Path]:
    """Write ``model.onnx``, a VNN-LIB file for the prediction at each input, and ``instances.csv`` as in VNN-COMP.

    Args:
        folder: where to write; it is made if it does not exist.
        model: the network.
        x: inputs [n, …]; those that the model answers with NaN are left out.
        ball: the Linf ball around each input.
        seconds: time limit of each instance in ``instances.csv``; default 60.

    Returns:
        The files of the properties.
    """
    shape = tuple(x.shape[1:])
    with frozen(model), torch.no_grad():
        logits = ask(model, x)
    folder.mkdir(parents=True, exist_ok=True)
    export(model, folder / "model.onnx", shape, certificate=False)
    written = []
    for number, label in enumerate(predicted_class(logits).tolist()):
        if label < 0:
            continue
        path = folder / f"point-{number}-{ball.radius:g}.vnnlib"
        write_property(path, local_robustness(x[number], label, logits.shape[1], ball))
        written.append(path)
    lines = [f"model.onnx,{path.name},{seconds}" for path in sorted(folder.glob("point-*.vnnlib"))]
    write_whole(folder / "instances.csv", ("\n".join(lines) + "\n").encode())
    return written


def _decimal(value: float) -> str:
    """All digits, without an exponent, which many readers do not know."""
    return np.format_float_positional(value, trim="0")


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}.") from error
