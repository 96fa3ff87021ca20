"""VNN-LIB 1.0 properties in general: boxes of inputs, and linear constraints of outputs that must not be met.

A file asks whether some input within its bounds meets its constraints: ``sat``
if there is one, ``unsat`` if not. Assertions come in any order, with ``and``
and ``or`` nested as they like; they are multiplied out to cases, each one box
and one set of inequalities of the outputs.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError, reason

MOST_CASES = 100_000
_TOKEN = re.compile(r"[()]|[^\s()]+")
_NAME = re.compile(r"([XY])_(\d+)")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """Is there an x with lower <= x <= upper and matrix @ network(x) <= limit in every row?"""

    lower: Floats  # [inputs]
    upper: Floats
    matrix: Floats  # [rows, outputs]
    limit: Floats  # [rows]

    def met(self, outputs: Floats, slack: float = 0.0) -> NDArray[np.bool_]:
        """Which outputs [n, outputs] meet every row: [n]."""
        return np.asarray((outputs @ self.matrix.T <= self.limit + slack).all(1))


@dataclass(frozen=True)
class Query:
    """``sat`` if any of the cases is."""

    inputs: int
    outputs: int
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Atom:
    """coefficients . variables <= limit, for variables of one kind: X or Y."""

    coefficients: tuple[tuple[str, int, float], ...]
    limit: float

    @property
    def kind(self) -> str:
        """X for inputs or Y for outputs."""
        return self.coefficients[0][0]


def read_query(path: Path) -> Query:
    """The property of the VNN-LIB file ``path``, plain or gzipped.

    Raises:
        InputError: the file cannot be read, or asks something else than bounds of single inputs and linear
            inequalities of outputs.
    """
    text = read_text(path)
    try:
        return parse_query(text)
    except InputError as error:
        raise InputError(f"{path} is not a VNN-LIB 1.0 property that is understood: {error}") from error


def read_text(path: Path) -> str:
    """The text of the VNN-LIB file ``path``, plain or gzipped."""
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as VNN-LIB: {reason(error)}.") from error


def parse_query(text: str) -> Query:
    """The property in ``text``, VNN-LIB; see :func:`read_query`."""
    counts = {"X": 0, "Y": 0}
    single, split = list[Atom](), list[list[list[Atom]]]()
    for command in _expressions(re.sub(r";[^\n]*", "", text)):
        if not isinstance(command, list) or not command:
            raise InputError(f"{command!r} stands alone.")
        if command[0] in ("declare-const", "declare-fun"):
            kind, number = _variable(command[1])
            counts[kind] = max(counts[kind], number + 1)
        elif command[0] == "assert" and len(command) == 2:
            choices = _choices(command[1])
            if len(choices) == 1:
                single += choices[0]
            else:
                split.append(choices)
        elif command[0] not in ("set-logic", "set-info", "set-option", "check-sat", "exit", "get-model"):
            raise InputError(f"the command {command[0]!r} is not known.")
    if not counts["X"] or not counts["Y"]:
        raise InputError("no X_i or no Y_j is declared.")
    count = int(np.prod([float(len(choices)) for choices in split])) if split else 1
    if count > MOST_CASES:
        raise InputError(f"its disjunctions make {count} cases; at most {MOST_CASES} are read.")
    base_low, base_high = np.full(counts["X"], -np.inf), np.full(counts["X"], np.inf)
    rows = _tightened(base_low, base_high, single, counts)
    cases = []
    for choice in product(*split):
        low, high = base_low.copy(), base_high.copy()
        more = rows + _tightened(low, high, [atom for part in choice for atom in part], counts)
        if (low <= high).all():
            cases.append(_case(low, high, more, counts["Y"]))
    return Query(counts["X"], counts["Y"], tuple(cases))


def _expressions(text: str) -> Iterator[Any]:
    stack: list[list[Any]] = []
    for token in _TOKEN.findall(text):
        if token == "(":
            stack.append([])
        elif token == ")":
            if not stack:
                raise InputError("a parenthesis is closed that was never opened.")
            done = stack.pop()
            if stack:
                stack[-1].append(done)
            else:
                yield done
        elif stack:
            stack[-1].append(token)
        else:
            raise InputError(f"{token!r} stands alone.")
    if stack:
        raise InputError("a parenthesis is not closed.")


def _variable(token: Any) -> tuple[str, int]:
    match = _NAME.fullmatch(token) if isinstance(token, str) else None
    if match is None:
        raise InputError(f"{token!r} is not X_i or Y_j.")
    return match[1], int(match[2])


def _choices(formula: Any) -> list[list[Atom]]:
    """A formula as alternatives, each a list of inequalities."""
    if not isinstance(formula, list) or not formula:
        raise InputError(f"{formula!r} is not a formula.")
    head, *parts = formula
    if head == "and":
        whole: list[list[Atom]] = [[]]
        for part in parts:
            choices = _choices(part)
            if len(whole) * len(choices) > MOST_CASES:
                raise InputError(f"its disjunctions make more than {MOST_CASES} cases.")
            whole = [[*left, *right] for left in whole for right in choices]
        return whole
    if head == "or":
        return [choice for part in parts for choice in _choices(part)]
    if head in ("<=", ">=", "<", ">", "=") and len(parts) == 2:
        first, second = _linear(parts[0]), _linear(parts[1])
        rising, falling = _atom(first, second), _atom(second, first)
        return [[rising, falling]] if head == "=" else [[rising if head in ("<=", "<") else falling]]
    raise InputError(f"the formula ({head} …) is not known.")


def _linear(term: Any) -> dict[tuple[str, int] | None, float]:
    """A term as coefficients by variable; None is the constant."""
    if isinstance(term, str):
        if _NAME.fullmatch(term):
            return {_variable(term): 1.0}
        try:
            return {None: float(term)}
        except ValueError:
            raise InputError(f"{term!r} is neither a number nor a variable.") from None
    head, *parts = term or [""]
    values = [_linear(part) for part in parts]
    if head == "+" or (head == "-" and values):
        if head == "-" and len(values) == 1:
            return _combined([({}, 1.0), (values[0], -1.0)])
        return _combined([(value, 1.0 if place == 0 or head == "+" else -1.0) for place, value in enumerate(values)])
    if head == "*" and len(values) == 2:
        for number, other in (values, values[::-1]):
            if set(number) <= {None}:
                return _combined([(other, number.get(None, 0.0))])
    raise InputError(f"the term ({head} …) is not linear.")


def _combined(parts: list[tuple[Any, float]]) -> dict[tuple[str, int] | None, float]:
    total: dict[tuple[str, int] | None, float] = {}
    for values, factor in parts:
        for name, value in values.items():
            total[name] = total.get(name, 0.0) + factor * value
    return total


def _atom(small: dict[Any, float], large: dict[Any, float]) -> Atom:
    """small <= large. Strict inequalities are read as these: the closed set contains the open one."""
    moved = _combined([(small, 1.0), (large, -1.0)])
    limit = -moved.pop(None, 0.0)
    coefficients = tuple((kind, number, value) for (kind, number), value in moved.items() if value != 0)  # type: ignore[misc]
    kinds = {kind for kind, _, _ in coefficients}
    if len(kinds) != 1:
        raise InputError("a constraint mixes inputs and outputs." if kinds else "a constraint has no variable.")
    if kinds == {"X"} and len(coefficients) != 1:
        raise InputError("a constraint ties several inputs; bounds of single inputs are understood.")
    return Atom(coefficients, limit)


def _tightened(low: Floats, high: Floats, atoms: list[Atom], counts: dict[str, int]) -> list[Atom]:
    """Put bounds of inputs into ``low`` and ``high``; the constraints of outputs are returned."""
    rest = []
    for atom in atoms:
        for kind, number, _ in atom.coefficients:
            if number >= counts[kind]:
                raise InputError(f"{kind}_{number} is not declared.")
        if atom.kind == "Y":
            rest.append(atom)
            continue
        ((_, number, factor),) = atom.coefficients
        if factor > 0:
            high[number] = min(high[number], atom.limit / factor)
        else:
            low[number] = max(low[number], atom.limit / factor)
    return rest


def _case(low: Floats, high: Floats, atoms: list[Atom], outputs: int) -> Case:
    missing = np.nonzero(~(np.isfinite(low) & np.isfinite(high)))[0]
    if len(missing):
        raise InputError(f"X_{missing[0]} has no lower or no upper bound.")
    if not atoms:
        raise InputError("nothing is asked of the outputs.")
    matrix = np.zeros((len(atoms), outputs))
    for row, atom in enumerate(atoms):
        for _, number, value in atom.coefficients:
            matrix[row, number] += value
    return Case(low, high, matrix, np.array([atom.limit for atom in atoms]))
