"""VNN-LIB text as formulas over numbered variables, for versions 1.0 and 2.0.

Time grows with the length of the text, whatever its nesting: nothing here is recursive. Numbers stay the decimals of
the text, or fractions of them. Element i of all inputs, in the order of their declarations, is variable i; element j
of all hidden values and outputs is variable ~j = -1 - j.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite, prod
from typing import Any, Literal, NamedTuple

from radii.errors import InputError

MOST_VARIABLES = 1 << 24
MOST_DIGITS = 1000  # of a number
WORK = 1 << 14  # steps between two looks at the clock
Check = Callable[[], None]
Role = Literal["input", "hidden", "output"]
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?"
_PLAIN = re.compile(_NUMBER)
_NAME = r"[A-Za-z][A-Za-z0-9_]*"
_INDEX = r"\[[^\[\]();]*\]"
_ELEMENT = re.compile(rf"({_NAME})(?:\s*({_INDEX}))?")
_WHOLE = re.compile(r"[0-9]{1,12}(?:\s*,\s*[0-9]{1,12})*")
_FLAT = re.compile(r"([XY])_([0-9]+)")
_TOKEN = re.compile(
    # 1 to 5: a bound, the most frequent formula, or its assertion
    rf"(\(assert\s+)?\(\s*(<=|>=|<|>)\s+({_NAME})(?:\s*({_INDEX}))?\s+({_NUMBER})\s*\)(?(1)\s*\))"
    rf"|(\()|(\))|(;[^\n]*)|\"[^\"]*\"|{_NAME}\s*{_INDEX}|{_INDEX}|[^\s();\"]+|\""
)
_BOUND, _OPEN, _CLOSE, _COMMENT = 5, 6, 7, 8
_MIRRORED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "==": "==", "!=": "!="}
_IGNORED = ("set-logic", "set-info", "set-option", "check-sat", "exit", "get-model")


class Bound(NamedTuple):
    """``variable relation number``, the number as it is written."""

    variable: int
    relation: str
    number: str


class Comparison(NamedTuple):
    """sum of factor * variable ``relation`` limit; ``place`` is where the text has it."""

    terms: dict[int, Fraction]
    relation: str
    limit: Fraction
    place: int


class Junction(NamedTuple):
    """All of the parts (``and``) or one of them (``or``)."""

    kind: str
    parts: list[Any]

    def flat(self) -> list[Formula]:
        """Its parts with those of nested junctions of the same kind, which are no junctions of this kind."""
        parts, todo = list[Formula](), list[Formula]([self])
        while todo:
            part = todo.pop()
            if isinstance(part, Junction) and (part.kind == self.kind or len(part.parts) == 1):
                todo.extend(reversed(part.parts))
            else:
                parts.append(part)
        return parts


Formula = Bound | Comparison | Junction


@dataclass(frozen=True)
class Declared:
    """A tensor of a network; its elements are variables from ``first`` on, counted within inputs or within others."""

    name: str
    role: Role
    element: str
    shape: tuple[int, ...]
    first: int
    onnx_name: str = ""

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.shape)


@dataclass(frozen=True)
class DeclaredNetwork:
    """The interface of a network; ``equal_to`` names one whose weights it shares."""

    name: str
    tensors: tuple[Declared, ...]
    equal_to: str = ""


@dataclass(frozen=True)
class Statement:
    """What a file says: its networks, and assertions that must hold together. ``version`` is 1 or 2."""

    version: int
    networks: tuple[DeclaredNetwork, ...]
    assertions: tuple[Formula, ...]
    text: str = field(default="", repr=False)

    def tensors(self) -> list[Declared]:
        """The tensors in the order of their declarations."""
        return [tensor for network in self.networks for tensor in network.tensors]

    def count(self, inputs: bool) -> int:
        """The number of elements of all inputs, or of all others."""
        return sum(tensor.size for tensor in self.tensors() if (tensor.role == "input") == inputs)

    def name(self, variable: int) -> str:
        """The name of a variable as the file writes it."""
        number = variable if variable >= 0 else ~variable
        for tensor in self.tensors():
            if (tensor.role == "input") == (variable >= 0) and 0 <= number - tensor.first < tensor.size:
                break
        if self.version == 1:
            return f"{tensor.name}_{number}"
        places, rest = [], number - tensor.first
        for size in reversed(tensor.shape):
            rest, place = divmod(rest, size)
            places.append(str(place))
        return f"{tensor.name}[{','.join(reversed(places))}]" if places else tensor.name

    def refusal(self, place: int, why: str) -> InputError:
        """The error for what stands at ``place`` of the text."""
        return refusal(self.text, place, why)


def refusal(text: str, place: int, why: str) -> InputError:
    """The error for what stands at ``place`` of ``text``, with its line."""
    return InputError(f"line {text.count(chr(10), 0, place) + 1}: {why}")


def parse_statement(text: str, check: Check = lambda: None) -> Statement:
    """What ``text`` says; ``check`` is called now and then, and may raise."""
    reader = _Reader(text, check)
    collects = gc.isenabled()
    gc.disable()  # millions of objects without a cycle would be looked through again and again
    try:
        return reader.read()
    except _RefusedError as error:
        raise refusal(text, error.place, str(error)) from None
    finally:
        if collects:
            gc.enable()


class _RefusedError(Exception):
    def __init__(self, place: int, why: str) -> None:
        self.place = place
        super().__init__(why)


@dataclass
class _Open:
    """A list whose parenthesis is not closed yet: words, and what its inner lists became."""

    place: int
    items: list[Any] = field(default_factory=list)


class _Term(NamedTuple):
    """A linear term; the factor of None is its constant."""

    factors: dict[int | None, Fraction]


class _Equivalence(NamedTuple):
    kind: str
    name: str


class _Reader:
    """A text while it is read."""

    def __init__(self, text: str, check: Check) -> None:
        self.text, self.check = text, check
        self.version, self.work, self.commands = 1, 0, 0
        self.networks = list[DeclaredNetwork]()
        self.assertions = list[Formula]()
        self.known = dict[str, int]()  # variables by their text
        self.tensors = dict[str, Declared]()
        self.next = {True: 0, False: 0}  # the first free variable among inputs, and among others
        self.used = {"X": (-1, 0), "Y": (-1, 0)}  # version 1: the largest index of each letter, and where it stands
        self.counts = {"X": 0, "Y": 0}

    def read(self) -> Statement:
        stack = list[_Open]()
        for match in _TOKEN.finditer(self.text):
            self.step(1)
            kind = match.lastindex
            if kind == _BOUND:
                found: Any = self.bound(match)
                if match[1]:
                    self.asserted(match, found, stack)
                    continue
            elif kind == _OPEN:
                stack.append(_Open(match.start()))
                continue
            elif kind == _CLOSE:
                if not stack:
                    raise _RefusedError(match.start(), "a parenthesis is closed that was never opened.")
                done = stack.pop()
                if not stack:
                    self.command(done)
                    continue
                found = self.reduced(done)
            elif kind == _COMMENT:
                continue
            else:
                found = match.group()
            if not stack:
                raise _RefusedError(match.start(), f"{_shown(match.group())} stands alone.")
            stack[-1].items.append(found)
        if stack:
            raise _RefusedError(stack[-1].place, "a parenthesis is not closed.")
        return Statement(self.version, self.interfaces(), tuple(self.assertions), self.text)

    def asserted(self, match: re.Match[str], found: Bound, stack: list[_Open]) -> None:
        if stack:
            raise _RefusedError(match.start(), "an assertion stands inside another list.")
        self.assertions.append(found)
        self.commands += 1

    def step(self, work: int) -> None:
        self.work += work
        if self.work >= WORK:
            self.work = 0
            self.check()

    # ------------------------------------------------------------ commands

    def command(self, done: _Open) -> None:
        head, parts = self.head(done)
        if head == "assert":
            if len(parts) != 1 or not isinstance(parts[0], Bound | Comparison | Junction):
                raise _RefusedError(done.place, "an assertion needs one formula.")
            self.assertions.append(parts[0])
        elif head == "vnnlib-version":
            self.set_version(done, parts)
        elif head == "declare-network" and self.version == 2:
            self.declare_network(done, parts)
        elif head in ("declare-const", "declare-fun") and self.version == 1:
            letter, index = self.flat(done.place, parts[0] if parts else "")
            self.counts[letter] = max(self.counts[letter], index + 1)
        elif head not in _IGNORED:
            raise _RefusedError(done.place, f"the command {_shown(head)} is not known.")
        self.commands += 1

    def set_version(self, done: _Open, parts: list[Any]) -> None:
        found = re.fullmatch(r"<([0-9]+)\.[0-9]+>", parts[0]) if parts and isinstance(parts[0], str) else None
        if found is None or found[1] not in ("1", "2"):
            raise _RefusedError(done.place, "the version must be <1.0> or <2.0>.")
        if self.commands:
            raise _RefusedError(done.place, "the version must stand before everything else.")
        self.version = int(found[1])

    def declare_network(self, done: _Open, parts: list[Any]) -> None:
        if not parts or not isinstance(parts[0], str) or not re.fullmatch(_NAME, parts[0]):
            raise _RefusedError(done.place, "a network needs a name.")
        if parts[0] in {network.name for network in self.networks}:
            raise _RefusedError(done.place, f"the network {parts[0]!r} is declared twice.")
        tensors = tuple(part for part in parts[1:] if isinstance(part, Declared))
        others = [part for part in parts[1:] if isinstance(part, _Equivalence)]
        if len(tensors) + len(others) != len(parts) - 1:
            raise _RefusedError(done.place, f"the network {parts[0]!r} has a part that is no declaration.")
        if {"input", "output"} - {tensor.role for tensor in tensors}:
            raise _RefusedError(done.place, f"the network {parts[0]!r} needs an input and an output.")
        for other in others:
            self.check_equivalent(done, other, tensors)
        equal = next((other.name for other in others if other.kind == "equal-to"), "")
        self.networks.append(DeclaredNetwork(parts[0], tensors, equal))

    def check_equivalent(self, done: _Open, other: _Equivalence, tensors: tuple[Declared, ...]) -> None:
        model = next((network for network in self.networks if network.name == other.name), None)
        if model is None:
            raise _RefusedError(done.place, f"the network {other.name!r} of ({other.kind} …) is not declared before.")
        if [(one.role, one.shape) for one in model.tensors] != [(one.role, one.shape) for one in tensors]:
            raise _RefusedError(done.place, f"({other.kind} {other.name}) needs inputs and outputs of the same shapes.")

    def interfaces(self) -> tuple[DeclaredNetwork, ...]:
        if self.version == 1:
            if not self.counts["X"] or not self.counts["Y"]:
                raise _RefusedError(0, "no X_i or no Y_j is declared.")
            for letter, (index, place) in self.used.items():
                if index >= self.counts[letter]:
                    raise _RefusedError(place, f"{letter}_{index} is not declared.")
            roles: tuple[tuple[str, Role], ...] = (("X", "input"), ("Y", "output"))
            return (DeclaredNetwork("", tuple(Declared(n, role, "Real", (self.counts[n],), 0) for n, role in roles)),)
        if not self.networks:
            raise _RefusedError(0, "no network is declared.")
        return tuple(self.networks)

    # ------------------------------------------------------------ inner lists

    def head(self, done: _Open) -> tuple[str, list[Any]]:
        if not done.items or not isinstance(done.items[0], str):
            raise _RefusedError(done.place, "a list must begin with a word.")
        return done.items[0], done.items[1:]

    def reduced(self, done: _Open) -> Any:
        """What a closed list means inside another one."""
        if not done.items:
            return ()  # (declare-fun X_0 () Real)
        head, parts = self.head(done)
        if head in ("and", "or"):
            if not all(isinstance(part, Bound | Comparison | Junction) for part in parts):
                raise _RefusedError(done.place, f"({head} …) joins something that is no formula.")
            return Junction(head, parts)
        relation = "==" if head == "=" else head
        if relation in _MIRRORED and len(parts) == 2:
            return self.comparison(done, relation, parts)
        if head in ("+", "-", "*") and parts:
            return self.term(done, head, parts)
        if head in ("declare-input", "declare-hidden", "declare-output"):
            return self.declare(done, head.removeprefix("declare-"), parts)
        if head in ("equal-to", "isomorphic-to") and len(parts) == 1 and isinstance(parts[0], str):
            return _Equivalence(head, parts[0])
        raise _RefusedError(done.place, f"the formula ({_shown(head)[1:-1]} …) is not known.")

    def declare(self, done: _Open, role: Any, parts: list[Any]) -> Declared:
        words = [part for part in parts if isinstance(part, str)]
        kind = _ELEMENT.fullmatch(words[1]) if len(words) > 1 else None
        if len(words) != len(parts) or len(parts) not in (2, 3) or kind is None or kind[2] is None:
            raise _RefusedError(done.place, f"(declare-{role} NAME TYPE [SIZES]) is expected.")
        name, onnx_name = words[0], words[2].strip('"') if words[2:] else ""
        if name in self.tensors or not re.fullmatch(_NAME, name):
            raise _RefusedError(done.place, f"{_shown(name)} is declared twice or is no name.")
        if kind[1] not in ("float32", "real", "Real"):
            raise _RefusedError(done.place, f"{name} is of type {kind[1]}; float32 and real are understood.")
        if role == "hidden" and not onnx_name:
            raise _RefusedError(done.place, f"the hidden value {name} needs the name of its value in the ONNX file.")
        shape = self.numbers(done.place, kind[2])
        if min(shape, default=1) < 1 or prod(shape) > MOST_VARIABLES:
            raise _RefusedError(done.place, f"{name} must have between 1 and {MOST_VARIABLES} elements.")
        first = self.next[role == "input"]
        self.next[role == "input"] += prod(shape)
        self.tensors[name] = Declared(name, role, kind[1], shape, first, onnx_name)
        return self.tensors[name]

    def numbers(self, place: int, text: str) -> tuple[int, ...]:
        """The integers of ``[1,3,32]``."""
        inside = text[1:-1].strip()
        if inside and not _WHOLE.fullmatch(inside):
            raise _RefusedError(place, f"{_shown(text)} is not a list of whole numbers.")
        return tuple(int(part) for part in inside.split(",")) if inside else ()

    # ------------------------------------------------------------ variables and terms

    def variable(self, place: int, text: str) -> int:
        number = self.known.get(text)
        if number is None:
            number = self.known[text] = self.element(place, text) if self.version == 2 else self.plain(place, text)
        return number

    def plain(self, place: int, text: str) -> int:
        letter, index = self.flat(place, text)
        if index > self.used[letter][0]:
            self.used[letter] = (index, place)
        return index if letter == "X" else ~index

    def flat(self, place: int, text: Any) -> tuple[str, int]:
        """The letter and the index of X_i or Y_j."""
        match = _FLAT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise _RefusedError(place, f"{_shown(text)} is not X_i or Y_j.")
        index = int(match[2][:12])
        if index >= MOST_VARIABLES:
            raise _RefusedError(place, f"{_shown(text)} is beyond {MOST_VARIABLES} variables.")
        return match[1], index

    def element(self, place: int, text: str) -> int:
        match = _ELEMENT.fullmatch(text)
        tensor = self.tensors.get(match[1]) if match else None
        if match is None or tensor is None:
            raise _RefusedError(place, f"{_shown(text)} is neither a number nor declared.")
        places = self.numbers(place, match[2] or "[]")
        if len(places) != len(tensor.shape) or not all(0 <= i < n for i, n in zip(places, tensor.shape, strict=True)):
            raise _RefusedError(place, f"{_shown(text)} does not fit {tensor.name}, whose sizes are {tensor.shape}.")
        number = 0
        for index, size in zip(places, tensor.shape, strict=True):
            number = number * size + index
        return tensor.first + number if tensor.role == "input" else ~(tensor.first + number)

    def bound(self, match: re.Match[str]) -> Bound:
        _, relation, name, index, number, *_ = match.groups()
        self.check_number(match.start(), number)
        return Bound(self.variable(match.start(), name + index if index else name), relation, number)

    def check_number(self, place: int, number: str) -> None:
        if len(number) > MOST_DIGITS or not isfinite(float(number)):
            raise _RefusedError(place, f"{_shown(number)} is no number of float64.")

    def linear(self, place: int, part: Any) -> dict[int | None, Fraction]:
        if isinstance(part, _Term):
            return part.factors
        if not isinstance(part, str):
            raise _RefusedError(place, "a comparison needs two terms.")
        if _PLAIN.fullmatch(part):
            self.check_number(place, part)
            return {None: Fraction(part)}
        if part.strip("+-").lower() in ("nan", "inf", "infinity"):
            raise _RefusedError(place, f"{_shown(part)} is no number of float64.")
        if part[0] in "+-.0123456789[":
            raise _RefusedError(place, f"{_shown(part)} is neither a number nor a variable.")
        return {self.variable(place, part): Fraction(1)}

    def term(self, done: _Open, head: str, parts: list[Any]) -> _Term:
        values = [self.linear(done.place, part) for part in parts]
        self.step(sum(len(value) for value in values))
        if head == "*":
            return _Term(self.product(done, values))
        if head == "-":
            first = values.pop(0) if len(values) > 1 else {}
            return _Term(_sum([first, *({name: -factor for name, factor in value.items()} for value in values)]))
        return _Term(_sum(values))

    def product(self, done: _Open, values: list[dict[int | None, Fraction]]) -> dict[int | None, Fraction]:
        constants = [value.get(None, Fraction(0)) for value in values if value.keys() <= {None}]
        moving = [value for value in values if not value.keys() <= {None}]
        if len(moving) > 1:
            raise _RefusedError(done.place, "the term (* …) multiplies variables; it is not linear.")
        factor = prod(constants, start=Fraction(1))
        return {name: factor * value for name, value in (moving[0] if moving else {None: Fraction(1)}).items()}

    def comparison(self, done: _Open, relation: str, parts: list[Any]) -> Formula:
        left, right = (self.linear(done.place, part) for part in parts)
        if isinstance(parts[0], str) and isinstance(parts[1], str) and (None in left) != (None in right):
            number, other = (parts[0], right) if None in left else (parts[1], left)
            (variable,) = other
            assert variable is not None
            return Bound(variable, _MIRRORED[relation] if None in left else relation, number)
        moved = _sum([dict(left), {name: -factor for name, factor in right.items()}])
        limit = -moved.pop(None, Fraction(0))
        terms = {name: factor for name, factor in moved.items() if name is not None and factor}
        sign = -1 if relation in (">=", ">") else 1
        relation = _MIRRORED[relation] if sign < 0 else relation
        return Comparison({name: sign * factor for name, factor in terms.items()}, relation, sign * limit, done.place)


def _sum(values: list[dict[int | None, Fraction]]) -> dict[int | None, Fraction]:
    """The sum of linear terms, in the largest of them."""
    total = max(values, key=len)
    for value in values:
        if value is not total:
            for name, factor in value.items():
                total[name] = total.get(name, Fraction(0)) + factor
    return total


def _shown(text: Any) -> str:
    return repr(text if len(str(text)) <= 60 else f"{str(text)[:60]}…")
