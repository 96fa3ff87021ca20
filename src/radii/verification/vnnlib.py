"""VNN-LIB files: properties are read, robustness at a point is written, counterexamples are read back.

:func:`read_query` reads a property for :func:`radii.verification.verify.verify`. What is written declares inputs X_i
and outputs Y_j, bounds every X_i by the Linf ball around one input, and asserts the negation of robustness: some other
class's logit is at least the label's. ``unsat`` means robust, ``sat`` comes with a counterexample in the same format,
which :func:`read_counterexample` turns into an input.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radii.errors import InputError, reason
from radii.files import write_whole
from radii.models.classifier import check_inputs
from radii.networks.calling import ask, frozen, predicted_class
from radii.threat import Ball
from radii.untrusted_text import check_file
from radii.verification._vnnlib_cases import Case, Layout, cases_of
from radii.verification._vnnlib_cases import holds as meets
from radii.verification._vnnlib_formulas import Check, Statement, parse_statement

NETWORK, INSTANCES = "model.onnx", "instances.csv"
_LINE = re.compile(rf"{re.escape(NETWORK)},point-[^,]+\.vnnlib,\d+")
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
    reach = ball.radius * ball.scales(x.detach().double()[None])[0].flatten().numpy()
    lower, upper = center - reach, center + reach
    if ball.box is not None:
        lower, upper = lower.clip(*ball.box), upper.clip(*ball.box)
    if ball.fixed or not ball.limits.all_allowed:
        low, high = (end.flatten().numpy() for end in ball.room(x.detach().double()[None]))
        lower, upper = np.maximum(lower, low), np.minimum(upper, high)
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
    """Whether ``x`` is a counterexample to ``statement``: within its bounds, and ``model`` gives another class.

    A float32 number is within the bounds if some number within them rounds to it.
    """
    flat = x.double().flatten().numpy()
    inside = np.array_equal(flat.clip(statement.lower, statement.upper).astype(np.float32), flat)
    with frozen(model), torch.no_grad():
        return inside and int(predicted_class(ask(model, x[None]))) != statement.label


def check_folder(folder: Path) -> None:
    """Refuse a folder whose network or list of instances :func:`write_instances` did not write."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder for the ONNX and VNN-LIB files.")
    listed = folder / INSTANCES
    own = listed.is_file() and all(_LINE.fullmatch(line) for line in _text(listed).splitlines())
    present = [path for pattern in (NETWORK, INSTANCES, "point-*.vnnlib") for path in folder.glob(pattern)]
    if present and not own:
        raise InputError(f"{present[0]} exists and radii did not write it; name another folder.")


def write_instances(folder: Path, model: nn.Module, x: Tensor, ball: Ball, seconds: int = 60) -> list[Path]:
    """Write ``model.onnx``, a VNN-LIB file for the prediction at each input, and ``instances.csv`` as in VNN-COMP.

    Args:
        folder: where to write; it is made if it does not exist.
        x: inputs [n, …]; those that the model answers with NaN are left out.
        ball: the Linf ball around each input.
        seconds: time limit of each instance in ``instances.csv``; default 60.
    """
    check_folder(folder)
    shape = tuple(x.shape[1:])
    with frozen(model), torch.no_grad():
        logits = ask(model, x)
    folder.mkdir(parents=True, exist_ok=True)
    from radii.models.io.export import export  # reading a property needs nothing of it

    export(model, folder / NETWORK, shape, certificate=False)
    written = []
    for number, label in enumerate(predicted_class(logits).tolist()):
        if label < 0:
            continue
        path = folder / f"point-{number}-{ball.radius:g}.vnnlib"
        write_property(path, local_robustness(x[number], label, logits.shape[1], ball))
        written.append(path)
    lines = [f"{NETWORK},{path.name},{seconds}" for path in sorted(folder.glob("point-*.vnnlib"))]
    write_whole(folder / INSTANCES, ("\n".join(lines) + "\n").encode())
    return written


def _decimal(value: float) -> str:
    """All digits, without an exponent, which many readers do not know."""
    return np.format_float_positional(value, trim="0")


def _text(path: Path) -> str:
    check_file(path)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}.") from error


@dataclass(frozen=True)
class Query:
    """``sat`` if any of the cases is. ``text`` is the file, whose decimals decide about a counterexample.

    ``layout`` says how the inputs and outputs of the cases stand to what the file declares.
    """

    inputs: int
    outputs: int
    cases: tuple[Case, ...]
    layout: Layout
    text: str = field(default="", repr=False)


def read_query(path: Path, check: Check = lambda: None) -> Query:
    """The property of the VNN-LIB file ``path``, plain or gzipped; ``check`` is called now and then and may raise."""
    text = read_text(path)
    try:
        return parse_query(text, check)
    except InputError as error:
        raise InputError(f"{path} is not a VNN-LIB property that is understood: {error}") from error


def read_text(path: Path) -> str:
    """The text of the VNN-LIB file ``path``, plain or gzipped."""
    check_file(path)
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as VNN-LIB: {reason(error)}.") from error


def parse_query(text: str, check: Check = lambda: None) -> Query:
    """The property in ``text``, VNN-LIB 1.0 or 2.0; see :func:`read_query`."""
    layout, cases = cases_of(parse_statement(text, check), check)
    return Query(max(layout.source) + 1, layout.outputs + len(layout.carried), cases, layout, text)


def holds(query: Query, inputs: Sequence[str], outputs: Sequence[str]) -> bool:
    """Whether decimals of the searched inputs and outputs meet every assertion of the file, exactly."""
    return meets(_statement(query.text), *query.layout.declared(inputs, outputs))


@lru_cache(maxsize=1)
def _statement(text: str) -> Statement:
    """Candidates of one property come one after another."""
    return parse_statement(text)
