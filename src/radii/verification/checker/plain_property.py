"""A VNN-LIB property as boxes with linear constraints in exact fractions, read for the checker alone.

It reads what proofs are written for: VNN-LIB 1.0 and 2.0 about one network of one input and one output, bounds of
single inputs, and linear constraints of outputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from radii.verification.checker.plain_network import ProofError

MOST = 100_000  # alternatives
NUMBER = re.compile(r"[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]{1,4})?")
WORDS = re.compile(r'"[^"]*"|;[^\n]*|[()\[\]]|[^\s()\[\];"]+')
QUIET = {"set-logic", "set-info", "set-option", "check-sat", "exit", "get-model", "vnnlib-version"}
Constraint = tuple[tuple[tuple[int, Fraction], ...], Fraction]  # factors by number of an output; sum <= limit
Bounds = dict[int, Fraction]


@dataclass(frozen=True)
class PlainCase:
    """Every input lies within ``lower`` and ``upper``, and every constraint of the outputs holds."""

    lower: tuple[Fraction, ...]
    upper: tuple[Fraction, ...]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True)
class _Leaf:
    """constant + sum of factors . inputs + sum of factors . outputs <= 0, or < 0 if strict.

    Only constants are compared strictly; elsewhere a proof of the closed form is asked for, which proves more.
    """

    inputs: dict[int, Fraction]
    outputs: dict[int, Fraction]
    constant: Fraction
    strict: bool = False


def read_property(text: str) -> tuple[int, int, list[PlainCase]]:
    """The numbers of inputs and outputs, and the cases; to meet the property is to meet one of them."""
    trees = list(_trees(text))
    newer = any(tree[0] == "declare-network" for tree in trees if tree)
    names = _declared_tensors(trees) if newer else _declared_constants(trees)
    alternatives = [_alternatives(tree[1], names) for tree in trees if tree[0] == "assert" and len(tree) == _PAIR]
    if any(tree[0] == "assert" and len(tree) != _PAIR for tree in trees):
        raise ProofError("The checker does not understand an assertion without one formula.")
    if prod(len(parts) for parts in alternatives) > MOST:
        raise ProofError(f"The checker reads at most {MOST} cases of a property.")
    sizes = names.sizes
    fixed = [leaf for parts in alternatives if len(parts) == 1 for leaf in parts[0]]
    open_ = [parts for parts in alternatives if len(parts) != 1]
    cases = []
    for chosen in product(*open_):
        case = _case(fixed + [leaf for part in chosen for leaf in part], sizes[0])
        cases += [case] if case is not None else []
    return sizes[0], sizes[1], cases


_PAIR, _TRIPLE = 2, 3


def _trees(text: str) -> Iterator[list[Any]]:
    """The lists of a text; words in brackets become one word without spaces, joined to the word before them."""
    open_: list[list[Any]] = []
    bracket: list[str] | None = None
    for found in WORDS.finditer(text):
        word = found.group()
        if word[0] == ";":
            continue
        if bracket is not None or word == "[":
            bracket = [*(bracket or []), word]
            if word == "]":
                _put(open_, "".join(bracket))
                bracket = None
        elif word == "(":
            open_.append([])
        elif word == ")":
            if not open_:
                raise ProofError("A parenthesis of the property is closed that was never opened.")
            tree = open_.pop()
            if open_:
                open_[-1].append(tree)
            else:
                yield tree
        else:
            _put(open_, word)
    if open_ or bracket:
        raise ProofError("A parenthesis of the property is not closed.")


def _put(open_: list[list[Any]], word: str) -> None:
    if not open_:
        raise ProofError(f"The word {word[:40]!r} of the property stands alone.")
    last = open_[-1]
    if word[0] == "[" and last and isinstance(last[-1], str) and last[-1][-1] != "]":
        last[-1] += word
    else:
        last.append(word)


# ---------------------------------------------------------------- names


class _Names:
    """The variables: X or Y with an index in 1.0, elements of the two tensors in 2.0."""

    def __init__(self, shapes: dict[str, tuple[int, tuple[int, ...]]], flat: bool) -> None:
        self.shapes, self.flat = shapes, flat
        kinds = dict(shapes.values())
        self.sizes = prod(kinds[0]), prod(kinds[1])

    def find(self, word: str) -> tuple[int, int]:
        """0 for an input and 1 for an output, and its number."""
        pattern = r"([XY])_([0-9]+)" if self.flat else r"([A-Za-z][A-Za-z0-9_]*)(?:\[([0-9,]*)\])?"
        found = re.fullmatch(pattern, word)
        if found is None or found[1] not in self.shapes:
            raise ProofError(f"The checker does not know the variable {word[:40]!r}.")
        kind, shape = self.shapes[found[1]]
        places = [int(part) for part in (found[2] or "").split(",") if part]
        if len(places) != len(shape) or any(place >= size for place, size in zip(places, shape, strict=True)):
            raise ProofError(f"The variable {word[:40]!r} is not declared.")
        return kind, sum(place * prod(shape[axis + 1 :]) for axis, place in enumerate(places))


def _declared_constants(trees: list[list[Any]]) -> _Names:
    sizes = {"X": 0, "Y": 0}
    for tree in trees:
        if tree and tree[0] in ("declare-const", "declare-fun"):
            found = re.fullmatch(r"([XY])_([0-9]{1,8})", str(tree[1])) if len(tree) > 1 else None
            if found is None:
                raise ProofError("The checker understands the variables X_i and Y_j.")
            sizes[found[1]] = max(sizes[found[1]], int(found[2]) + 1)
        elif not tree or tree[0] not in QUIET | {"assert"}:
            raise ProofError("The checker does not understand a command of the property.")
    return _Names({"X": (0, (sizes["X"],)), "Y": (1, (sizes["Y"],))}, flat=True)


def _declared_tensors(trees: list[list[Any]]) -> _Names:
    shapes: dict[str, tuple[int, tuple[int, ...]]] = {}
    for tree in trees:
        if not tree or tree[0] not in QUIET | {"assert", "declare-network"}:
            raise ProofError("The checker does not understand a command of the property.")
        if tree[0] != "declare-network":
            continue
        kinds = [part[0] for part in tree[2:] if isinstance(part, list) and part]
        if shapes or kinds != ["declare-input", "declare-output"] or len(tree) != _PAIR + _PAIR:
            raise ProofError("The checker understands one network of one input and one output.")
        for number, part in enumerate(tree[2:]):
            found = re.fullmatch(r"[A-Za-z0-9]+\[([0-9,]*)\]", part[2]) if len(part) == _TRIPLE else None
            if found is None:
                raise ProofError("The checker understands (declare-input NAME TYPE [SIZES]).")
            shapes[part[1]] = (number, tuple(int(size) for size in found[1].split(",") if size))
    if len(shapes) != _PAIR:
        raise ProofError("The checker needs different names of input and output.")
    return _Names(shapes, flat=False)


# ---------------------------------------------------------------- formulas


def _alternatives(tree: Any, names: _Names) -> list[list[_Leaf]]:
    """A formula as alternatives of leaves that hold together; an explicit stack takes the place of recursion."""
    todo: list[tuple[Any, int]] = [(tree, -1)]
    done: list[list[list[_Leaf]]] = []
    while todo:
        part, count = todo.pop()
        if not isinstance(part, list) or not part:
            raise ProofError("The checker does not understand a formula of the property.")
        if part[0] not in ("and", "or"):
            done.append(_compared(part, names))
        elif count < 0:
            under = _under(part)
            todo.append((part, len(under)))
            todo += [(inner, -1) for inner in under]
        else:
            inner = [done.pop() for _ in range(count)]
            done.append(_both(inner) if part[0] == "and" else [choice for choices in inner for choice in choices])
    return done[0]


def _under(tree: list[Any]) -> list[Any]:
    """The parts of a junction; those of junctions of the same kind inside it stand beside them."""
    found, todo = [], tree[1:]
    while todo:
        part = todo.pop()
        if isinstance(part, list) and part and part[0] == tree[0]:
            todo += part[1:]
        else:
            found.append(part)
    return found


def _both(parts: list[list[list[_Leaf]]]) -> list[list[_Leaf]]:
    if prod(len(part) for part in parts) > MOST:
        raise ProofError(f"The checker reads at most {MOST} cases of a property.")
    sure = [leaf for part in parts if len(part) == 1 for leaf in part[0]]
    free = [part for part in parts if len(part) != 1]
    return [sure + [leaf for choice in chosen for leaf in choice] for chosen in product(*free)] if free else [sure]


def _compared(tree: list[Any], names: _Names) -> list[list[_Leaf]]:
    if len(tree) != _TRIPLE or tree[0] not in ("<=", "<", ">=", ">", "=", "==", "!="):
        raise ProofError(f"The checker does not understand the formula ({str(tree[0])[:40]} …).")
    left, right = (_value(part, names) for part in tree[1:])
    strict = tree[0] in ("<", ">", "!=")
    less, more = (
        replace(_added([(small, Fraction(1)), (large, Fraction(-1))]), strict=strict)
        for small, large in ((left, right), (right, left))
    )
    if tree[0] == "!=":
        return [[less], [more]]
    if tree[0] in ("=", "=="):
        return [[less, more]]
    return [[less if tree[0] in ("<=", "<") else more]]


def _added(parts: list[tuple[_Leaf, Fraction]]) -> _Leaf:
    sums: tuple[dict[int, Fraction], dict[int, Fraction]] = ({}, {})
    for leaf, weight in parts:
        for total, factors in zip(sums, (leaf.inputs, leaf.outputs), strict=True):
            for number, factor in factors.items():
                total[number] = total.get(number, Fraction(0)) + weight * factor
    inputs, outputs = ({name: factor for name, factor in total.items() if factor} for total in sums)
    return _Leaf(inputs, outputs, sum((weight * leaf.constant for leaf, weight in parts), Fraction(0)))


def _value(tree: Any, names: _Names) -> _Leaf:
    """A linear term."""
    todo: list[tuple[Any, bool]] = [(tree, False)]
    done: list[_Leaf] = []
    while todo:
        part, ready = todo.pop()
        if isinstance(part, str):
            done.append(_word(part, names))
        elif not part or part[0] not in ("+", "-", "*") or len(part) < _PAIR:
            raise ProofError("The checker does not understand a term of the property.")
        elif not ready:
            todo.append((part, True))
            todo += [(inner, False) for inner in part[:0:-1]]
        else:
            inner = done[len(done) - len(part) + 1 :]
            del done[len(done) - len(part) + 1 :]
            done.append(_combined(part[0], inner))
    return done[0]


def _word(word: str, names: _Names) -> _Leaf:
    if NUMBER.fullmatch(word) and len(word) < 1000:
        return _Leaf({}, {}, Fraction(word))
    kind, number = names.find(word)
    one = {number: Fraction(1)}
    return _Leaf({} if kind else one, one if kind else {}, Fraction(0))


def _combined(head: str, parts: list[_Leaf]) -> _Leaf:
    if head == "*":
        moving = [part for part in parts if part.inputs or part.outputs]
        if len(moving) > 1:
            raise ProofError("The checker does not understand a product of variables.")
        factor = prod((part.constant for part in parts if part not in moving), start=Fraction(1))
        return _added([(moving[0] if moving else _Leaf({}, {}, Fraction(1)), factor)])
    turned = Fraction(1 if head == "+" or len(parts) > 1 else -1)
    return _added([(parts[0], turned), *((part, Fraction(1 if head == "+" else -1)) for part in parts[1:])])


def _case(leaves: list[_Leaf], inputs: int) -> PlainCase | None:
    """The box and the constraints of leaves that hold together; None where they cannot."""
    lower: Bounds = {}
    upper: Bounds = {}
    constraints = []
    for leaf in leaves:
        if leaf.outputs and not leaf.inputs:
            constraints.append((tuple(sorted(leaf.outputs.items())), -leaf.constant))
        elif len(leaf.inputs) == 1 and not leaf.outputs:
            ((number, factor),) = leaf.inputs.items()
            end = -leaf.constant / factor
            if factor > 0:
                upper[number] = min(upper.get(number, end), end)
            else:
                lower[number] = max(lower.get(number, end), end)
        elif leaf.inputs:
            raise ProofError("The checker does not understand a constraint that ties inputs.")
        elif leaf.constant > 0 or (leaf.strict and leaf.constant == 0):
            return None
    if len(lower) < inputs or len(upper) < inputs:
        raise ProofError("An input of the property has no lower or no upper bound.")
    if any(lower[number] > upper[number] for number in range(inputs)):
        return None
    below, above = (tuple(bounds[number] for number in range(inputs)) for bounds in (lower, upper))
    return PlainCase(below, above, tuple(constraints))
