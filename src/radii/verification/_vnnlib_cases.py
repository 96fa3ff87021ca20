"""The cases of a VNN-LIB statement: boxes of inputs with linear constraints, one of which must be met.

Inputs that an assertion sets equal become one coordinate. A constraint that ties several inputs, or inputs and
outputs, is a row over the outputs and the inputs that stand in such constraints, which are carried along as outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import prod
from operator import eq, ge, gt, le, lt, ne
from sys import float_info
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.errors import InputError
from radii.verification._vnnlib_formulas import (
    Bound,
    Check,
    Comparison,
    DeclaredNetwork,
    Formula,
    Junction,
    Statement,
)

MOST_CASES = 100_000
ROUNDS = 10  # of moving bounds along constraints of inputs
Floats = NDArray[np.float64]
Atom = Bound | Comparison
_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {"<=": le, ">=": ge, "<": lt, ">": gt, "==": eq, "!=": ne}


@dataclass(frozen=True)
class Case:
    """Is there an x with lower <= x <= upper and matrix @ network(x) <= limit in every row, < in the strict ones?"""

    lower: Floats  # [inputs]
    upper: Floats
    matrix: Floats  # [rows, outputs]
    limit: Floats  # [rows]
    strict: NDArray[np.bool_]  # [rows]


@dataclass(frozen=True)
class Layout:
    """How the inputs and outputs that are searched stand to what the file declares.

    Element i of the declared inputs is coordinate ``source[i]`` of the searched input. The searched outputs are the
    declared hidden values and outputs, and then the coordinates ``carried`` of the input.
    """

    version: int
    networks: tuple[DeclaredNetwork, ...]
    source: tuple[int, ...]
    carried: tuple[int, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the inputs and outputs searched are those of one network of one input and one output."""
        tensors = [tensor for network in self.networks for tensor in network.tensors]
        alone = [tensor.role for tensor in tensors] == ["input", "output"] and not any(t.onnx_name for t in tensors)
        return alone and not self.carried and self.source == tuple(range(len(self.source)))

    @property
    def outputs(self) -> int:
        """The number of declared outputs and hidden elements."""
        return sum(t.size for network in self.networks for t in network.tensors if t.role != "input")

    def tensors(self) -> tuple[str, ...]:
        """The declared tensors for :func:`result_text`, of VNN-LIB 2.0."""
        if self.version == 1:
            return ()
        return tuple(
            f"{tensor.role} {tensor.name} {tensor.element} [{','.join(map(str, tensor.shape))}]"
            for network in self.networks
            for tensor in network.tensors
        )

    def declared(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The elements of all declared inputs, and of all others, from what was searched."""
        return [inputs[place] for place in self.source], list(outputs[: self.outputs])


@dataclass
class _Row:
    """factors . variables <= limit (< if strict); variables of inputs are coordinates already."""

    factors: dict[int, Fraction]
    limit: Fraction
    strict: bool

    @property
    def of_inputs(self) -> bool:
        return all(variable >= 0 for variable in self.factors)


def cases_of(statement: Statement, check: Check = lambda: None) -> tuple[Layout, tuple[Case, ...]]:
    """The layout and the cases of a statement, at most :data:`MOST_CASES`; ``check`` may raise at any time."""
    single, split = _separated(statement.assertions)
    source, inputs = _coordinates(single, statement.count(inputs=True))
    made = _Cases(statement, source, inputs, check)
    choices = [_choices(formula, check) for formula in split]
    if prod(len(choice) for choice in choices) > MOST_CASES:
        raise InputError(f"its disjunctions make more than {MOST_CASES} cases.")
    parts = list(made.parts(single, choices))
    carried = tuple(sorted({v for _, _, rows in parts for row in rows for v in row.factors if v >= 0}))
    columns = {~number: number for number in range(statement.count(inputs=False))}
    columns |= {variable: len(columns) + place for place, variable in enumerate(carried)}
    cases = tuple(made.case(low, high, rows, columns) for low, high, rows in parts)
    return Layout(statement.version, statement.networks, tuple(source), carried), cases


def holds(statement: Statement, inputs: Sequence[str], outputs: Sequence[str]) -> bool:
    """Whether decimals of all declared inputs and outputs meet every assertion, exactly."""

    def number(variable: int) -> str:
        return inputs[variable] if variable >= 0 else outputs[~variable]

    def is_met(atom: Atom) -> bool:
        if isinstance(atom, Bound):
            return _RELATIONS[atom.relation](Decimal(number(atom.variable)), Decimal(atom.number))
        total = sum((factor * Fraction(number(name)) for name, factor in atom.terms.items()), Fraction(0))
        return _RELATIONS[atom.relation](total, atom.limit)

    def value(formula: Formula) -> bool:
        return _folded(formula, is_met, lambda kind, parts: (all if kind == "and" else any)(parts))

    return all(value(formula) for formula in statement.assertions)


def _folded(formula: Formula, leaf: Callable[[Atom], Any], join: Callable[[str, list[Any]], Any]) -> Any:
    """The value of a formula from those of its atoms, without recursion."""
    todo, values = [(formula, -1)], list[Any]()
    while todo:
        part, count = todo.pop()
        if not isinstance(part, Junction):
            values.append(leaf(part))
        elif count < 0:
            inner = part.flat()
            todo.append((part, len(inner)))
            todo.extend((one, -1) for one in reversed(inner))
        else:
            taken = values[len(values) - count :]
            del values[len(values) - count :]
            values.append(join(part.kind, taken))
    return values[0]


def _separated(assertions: Iterable[Formula]) -> tuple[list[Atom], list[Formula]]:
    """The atoms that must all hold, and the formulas that leave a choice."""
    single, split = list[Atom](), list[Formula]()
    for formula in Junction("and", list(assertions)).flat():
        if isinstance(formula, Junction) or formula.relation == "!=":
            split.append(formula)
        else:
            single.append(formula)
    return single, split


def _choices(formula: Formula, check: Check) -> list[list[Atom]]:
    """A formula as alternatives, each a list of atoms."""

    def leaf(atom: Atom) -> list[list[Atom]]:
        return [[atom]] if atom.relation != "!=" else [[atom._replace(relation="<")], [_above(atom)]]

    def join(kind: str, parts: list[list[list[Atom]]]) -> list[list[Atom]]:
        check()
        sizes = [len(part) for part in parts]
        if (sum(sizes) if kind == "or" else prod(sizes)) > MOST_CASES:
            raise InputError(f"its disjunctions make more than {MOST_CASES} cases.")
        if kind == "or":
            return [choice for part in parts for choice in part]
        whole = list[list[Atom]]()
        for chosen in product(*parts):
            check()
            whole.append([atom for choice in chosen for atom in choice])
        return whole

    found: list[list[Atom]] = _folded(formula, leaf, join)
    return found


def _above(atom: Atom) -> Atom:
    """``>`` in place of ``!=``."""
    if isinstance(atom, Bound):
        return atom._replace(relation=">")
    return atom._replace(terms={name: -factor for name, factor in atom.terms.items()}, relation="<", limit=-atom.limit)


def _coordinates(single: list[Atom], inputs: int) -> tuple[list[int], int]:
    """The coordinate of each input element, and their number: inputs that must be equal share one."""
    parent = list(range(inputs))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for atom in single:
        if isinstance(atom, Comparison) and _ties_two_inputs(atom):
            first, second = sorted(root(variable) for variable in atom.terms)
            parent[second] = first
    roots = [root(place) for place in range(inputs)]
    numbers = {place: number for number, place in enumerate(sorted(set(roots)))}
    return [numbers[place] for place in roots], len(numbers)


def _ties_two_inputs(atom: Comparison) -> bool:
    factors = list(atom.terms.values())
    return atom.relation == "==" and len(factors) == 2 and not atom.limit and not sum(factors) and min(atom.terms) >= 0


@dataclass(frozen=True)
class _Cases:
    """What the cases of one statement share."""

    statement: Statement
    source: list[int]
    inputs: int
    check: Check

    def parts(self, single: list[Atom], choices: list[list[list[Atom]]]) -> Iterator[tuple[Floats, Floats, list[_Row]]]:
        """Box and rows of every case whose box is not empty."""
        low, high = [-np.inf] * self.inputs, [np.inf] * self.inputs
        rows = self.taken(single, low, high)
        if rows is None:
            return
        base_low, base_high = np.array(low), np.array(high)
        for choice in product(*choices):
            self.check()
            below, above = base_low.copy(), base_high.copy()
            more = self.taken((atom for part in choice for atom in part), below, above)
            if more is None:
                continue
            moved = [row for row in (*rows, *more) if row.of_inputs]
            if moved:
                _propagate(below, above, moved)
            if (below <= above).all():
                yield below, above, rows + more

    def taken(self, atoms: Iterable[Atom], low: Any, high: Any) -> list[_Row] | None:
        """Put bounds of inputs into ``low`` and ``high``, closed; the rows of the rest, None if one never holds."""
        rows = list[_Row]()
        for count, atom in enumerate(atoms):
            if not count % 4096:
                self.check()
            if isinstance(atom, Bound) and atom.variable >= 0:
                place, number = self.source[atom.variable], float(atom.number)
                if atom.relation != "<=" and atom.relation != "<" and number > low[place]:
                    low[place] = number
                if atom.relation != ">=" and atom.relation != ">" and number < high[place]:
                    high[place] = number
                continue
            for row in self.rows(atom):
                if not row.factors:
                    if not _RELATIONS["<" if row.strict else "<="](0, row.limit):
                        return None
                elif len(row.factors) == 1 and row.of_inputs:
                    ((place, factor),) = row.factors.items()
                    end = _float(row.limit / factor)
                    if factor > 0:
                        high[place] = min(high[place], end)
                    else:
                        low[place] = max(low[place], end)
                else:
                    rows.append(row)
        return rows

    def rows(self, atom: Atom) -> list[_Row]:
        """An atom as rows over coordinates of inputs and outputs: two for an equality."""
        if isinstance(atom, Bound):
            factors, limit = {atom.variable: Fraction(1)}, Fraction(atom.number)
        else:
            factors, limit = dict[int, Fraction](), atom.limit
            for name, factor in atom.terms.items():
                place = self.source[name] if name >= 0 else name
                factors[place] = factors.get(place, Fraction(0)) + factor
            factors = {name: factor for name, factor in factors.items() if factor}
        row = _Row(factors, limit, atom.relation in ("<", ">"))
        turned = _Row({name: -factor for name, factor in factors.items()}, -limit, row.strict)
        return [row, turned] if atom.relation == "==" else [row] if atom.relation in ("<=", "<") else [turned]

    def case(self, low: Floats, high: Floats, rows: list[_Row], columns: Mapping[int, int]) -> Case:
        self.check()
        missing = np.nonzero(~(np.isfinite(low) & np.isfinite(high)))[0]
        if len(missing):
            name = self.statement.name(self.source.index(int(missing[0])))
            raise InputError(f"{name} has no lower or no upper bound.")
        if not rows:
            raise InputError("nothing is asked of the outputs.")
        matrix = np.zeros((len(rows), len(columns)))
        for number, row in enumerate(rows):
            for variable, factor in row.factors.items():
                matrix[number, columns[variable]] = _factor(factor)
        limit = np.array([_float(row.limit) for row in rows])
        return Case(low, high, matrix, limit, np.array([row.strict for row in rows]))


def _float(value: Fraction) -> float:
    try:
        return float(value) + 0.0
    except OverflowError:
        raise InputError("a constraint has a number that is too large for float64.") from None


def _factor(value: Fraction) -> float:
    """The nearest float64; the bounds take off more than what this rounding changes, except for underflow."""
    number = _float(value)
    if abs(number) < float_info.min:
        raise InputError("a constraint has a factor that is too small for float64.")
    return number


def _propagate(low: Floats, high: Floats, rows: list[_Row]) -> None:
    """Bounds of inputs from constraints of inputs: x <= (limit - least of the other terms) / factor."""
    for _ in range(ROUNDS):
        moved = False
        for row in rows:
            ends = {place: float((low if factor > 0 else high)[place]) for place, factor in row.factors.items()}
            for place, factor in row.factors.items():
                others = [(row.factors[name], end) for name, end in ends.items() if name != place]
                if not all(np.isfinite(end) for _, end in others):
                    continue
                least = sum((weight * Fraction(end) for weight, end in others), Fraction(0))
                end = _float((row.limit - least) / factor)
                if factor > 0 and end < high[place]:
                    high[place], moved = end, True
                elif factor < 0 and end > low[place]:
                    low[place], moved = end, True
        if not moved:
            return
