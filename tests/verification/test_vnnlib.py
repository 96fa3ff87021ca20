"""VNN-LIB as text: both versions, both readers, deep and long files, and refusals that name their line."""

from __future__ import annotations

import random
import time
from fractions import Fraction
from operator import mul

import numpy as np
import pytest

from radii.errors import InputError
from radii.verification.checker.plain_network import ProofError
from radii.verification.checker.plain_property import read_property
from radii.verification.vnnlib import Query, holds, parse_query

F = "(vnnlib-version <2.0>)\n(declare-network f\n (declare-input X float32 [1,2])\n (declare-output Y float32 [2]))\n"
SLACK = Fraction(1, 10**14)  # more than float64 rounds away from the numbers below
BOX = "(assert (and (>= X[0,0] 0.0) (<= X[0,0] 1.0) (>= X[0,1] 0.0) (<= X[0,1] 1.0)))\n"


def test_version_2_gives_the_cases_of_version_1() -> None:
    newer = parse_query(F + BOX + "(assert (or (<= Y[0] -3.0) (!= (+ Y[0] (* 2.0 Y[1] 0.5)) (- 1.0))))")
    older = parse_query(
        "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)(declare-const Y_1 Real)"
        "(assert (and (>= X_0 0) (<= X_0 1) (>= X_1 0) (<= X_1 1)))"
        "(assert (or (<= Y_0 -3.0) (< (+ Y_0 Y_1) -1) (> (+ Y_0 Y_1) -1)))"
    )
    assert newer.layout.is_plain
    assert len(newer.cases) == len(older.cases) == 3
    for one, other in zip(newer.cases, older.cases, strict=True):
        for name in ("lower", "upper", "matrix", "limit", "strict"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


def test_indices_are_row_major_and_spaces_do_not_matter() -> None:
    text = "(vnnlib-version <2.0>)(declare-network f (declare-input X real[2 , 3] ) (declare-output Y Real []))"
    text += "".join(f"(assert (== X [{i} , {j}] {i}.{j}))" for i in range(2) for j in range(3)) + "(assert (<= Y 0.0))"
    query = parse_query(text)
    assert query.cases[0].lower.tolist() == [0.0, 0.1, 0.2, 1.0, 1.1, 1.2]
    assert (query.inputs, query.outputs) == (6, 1)


def test_a_constraint_of_one_input_is_an_end_of_its_box() -> None:
    """On the side that the sign of its factor says, whether it is asked first or last; the closest end counts."""
    head = "".join(f"(declare-const {name} Real)" for name in ("X_0", "X_1", "Y_0")) + "(assert (<= Y_0 0))"
    box = ["(>= X_0 -9)", "(<= X_0 9)", "(>= X_1 -9)", "(<= X_1 9)"]
    ends = ["(>= (* 2 X_0) 0.5)", "(<= (* 2 X_0) 1.5)", "(<= (- X_1) 0.25)", "(> (- 1 X_1) 0.5)", "(< -4 (* 8 X_1))"]
    for asserted in ([*box, *ends], [*ends, *box]):
        (case,) = parse_query(head + "".join(f"(assert {text})" for text in asserted)).cases
        assert (case.lower.tolist(), case.upper.tolist()) == ([0.25, -0.25], [0.75, 0.5])


def test_a_row_keeps_its_direction_and_whether_it_is_strict() -> None:
    """With the variable or the number first, of one output or of two; == is two rows that are not strict."""
    head = "(declare-const X_0 Real)(declare-const Y_0 Real)(declare-const Y_1 Real)(assert (== X_0 0.5))"
    mirrored = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "==": "=="}
    for relation, turned in mirrored.items():
        rows = {"<": [1], ">": [-1], "=": [1, -1]}[relation[0]]
        for text, row in (
            (f"({relation} Y_1 0.25)", [0, 1]),
            (f"({turned} 0.25 Y_1)", [0, 1]),
            (f"({relation} (- Y_0 Y_1) 0.25)", [1, -1]),
            (f"({turned} (+ Y_1 0.25) Y_0)", [1, -1]),
            (f"(or ({relation} Y_0 0.25))", [1, 0]),
        ):
            (case,) = parse_query(f"{head}(assert {text})").cases
            found = [(*one, limit) for one, limit in zip(case.matrix.tolist(), case.limit.tolist(), strict=True)]
            assert sorted(found) == sorted((*(sign * factor for factor in row), sign * 0.25) for sign in rows), text
            assert case.strict.tolist() == [relation in "<>"] * len(rows), text


def test_equal_inputs_share_a_coordinate_and_other_ties_are_rows() -> None:
    text = """(vnnlib-version <2.0>)
(declare-network f (declare-input A real [2]) (declare-output B real [1]))
(declare-network g (equal-to f) (declare-input C real [2]) (declare-output D real [1]))
(assert (and (>= A[0] 0.0) (<= A[0] 1.0) (>= A[1] -1.0) (<= A[1] 1.0)))
(assert (== C[1] A[1]))
(assert (and (<= C[0] A[0]) (>= C[0] -2.0)))
(assert (> (- D[0] B[0]) (* 0.5 A[1])))
"""
    query = parse_query(text)
    assert query.layout.source == (0, 1, 2, 1)  # A, C
    assert query.layout.carried == (0, 1, 2)
    (case,) = query.cases
    assert (case.lower.tolist(), case.upper.tolist()) == ([0.0, -1.0, -2.0], [1.0, 1.0, 1.0])  # C[0] <= A[0] <= 1
    columns = [[0, 0, -1, 0, 1], [1, -1, 0, 0.5, 0]]  # B, D, and the coordinates
    assert case.matrix.tolist() == columns
    assert case.strict.tolist() == [False, True]
    assert holds(query, ["0.5", "0.25", "0.5"], ["1", "1.126", "0.5", "0.25", "0.5"])
    assert not holds(query, ["0.5", "0.25", "0.5"], ["1", "1.125", "0.5", "0.25", "0.5"])  # not strictly more
    assert not holds(query, ["0.5", "0.25", "0.6"], ["1", "2", "0.5", "0.25", "0.6"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (F + BOX + "(assert (<= (* X[0,0] Y[0]) 1.0))", "line 6: the term .* multiplies variables"),
        (F + BOX + "\n\n(assert (not (<= Y[0] 1.0)))", r"line 8: the formula \(not …\)"),
        (F + BOX + "(assert (<= Y[2] 1.0))", r"line 6: 'Y\[2\]' does not fit Y"),
        (F + BOX + "(assert (<= X[0] 1.0))", r"'X\[0\]' does not fit X"),
        (F + BOX + "(assert (<= Z[0] 1.0))", r"'Z\[0\]' is neither a number nor declared"),
        (F + BOX + "(assert (Y[0] < Y[1]))", r"line 6: the formula \(Y\[0\] …\) is not known"),
        (F + "(assert (<= Y[0] 1.0))", r"X\[0,0\] has no lower"),
        (F + BOX, "nothing is asked of the outputs"),
        (F.replace("float32 [2]", "int64 [2]"), "line 4: Y is of type int64"),
        (F.replace("<2.0>", "<3.0>"), "the version must be"),
        (F.replace("Y float32", "X float32"), "declared twice"),
        (F + "(declare-network g (equal-to h) (declare-input A real [1]) (declare-output B real [1]))", "'h'"),
        (F + "(declare-network g (equal-to f) (declare-input A real [1]) (declare-output B real [2]))", "same shapes"),
        (F + BOX + "(assert (<= Y[0] 1e99999))", "."),
        (F + BOX + "(assert (<= (* 1e-400 Y[0]) 1))", "too small"),
        ("(declare-const X_99999999999 Real)(declare-const Y_0 Real)", "beyond"),
        ("(and (assert (<= X_0 1)))", "stands inside another list"),
        ('(vnnlib-version <2.0>)(declare-network f (declare-input X real [1]) (declare-hidden H real [1]))', "hidden"),
    ],
)  # fmt: skip
def test_refusals_name_the_construct_and_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_query(text)


@pytest.mark.parametrize(
    "formula",
    [
        "(and " * 20_000 + "(<= Y_0 1)" + ")" * 20_000,
        "(or " * 20_000 + "(and " * 20_000 + "(<= Y_0 1)" + ")" * 40_000,
        "(and (<= X_0 1) " * 30_000 + "(<= Y_0 1)" + ")" * 30_000,
        "(<= " + "(+ Y_0 " * 20_000 + "1" + ")" * 20_000 + " 2)",
        "(<= " + "(- " * 20_000 + "Y_0" + ")" * 20_000 + " 2)",
    ],
)
def test_deep_files_are_read_by_both_readers(formula: str) -> None:
    text = "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (>= X_0 0))(assert (<= X_0 1))"
    text += f"(assert {formula})"
    assert len(parse_query(text).cases) == len(read_property(text)[2]) == 1


def test_time_grows_with_the_length_and_the_deadline_is_kept() -> None:
    def text(count: int) -> str:
        names = "".join(f"(declare-const X_{i} Real)\n" for i in range(count)) + "(declare-const Y_0 Real)"
        box = "".join(f"(assert (>= X_{i} 0.{i}))(assert (<= X_{i} 1.{i}))\n" for i in range(count))
        return names + box + "(assert (<= Y_0 0.5))"

    def seconds(count: int) -> float:
        content = text(count)
        began = time.process_time()
        parse_query(content)
        return time.process_time() - began

    assert seconds(80_000) < 12 * max(seconds(20_000), 0.05)
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        parse_query(text(80_000), check)


class Drawn:
    """A random property and what it says of a point, without any reader."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.newer = seed % 2 == 1
        self.inputs, self.outputs = self.draw.randint(1, 3), self.draw.randint(1, 3)
        box = [f"(and (>= {self.x(i)} {-1 - i}) (<= {self.x(i)} 2.50))" for i in range(self.inputs)]
        self.formulas = [self.formula(3) for _ in range(self.draw.randint(1, 3))]
        text, number = self.number()
        asked = f"(<= {self.y(0)} {text})"
        self.assumed = ("<=", {("y", 0): Fraction(1)}, {None: number})
        texts = [*box, asked, *(text for text, _ in self.formulas)]
        self.draw.shuffle(texts)
        self.text = self.head() + "\n".join(f"(assert {text}) ; {number}" for number, text in enumerate(texts))

    def head(self) -> str:
        if self.newer:
            return (
                f"(vnnlib-version <2.0>) (declare-network net (declare-input in float32 [1, {self.inputs}])"
                f"(declare-output out float32 [{self.outputs},1]))"
            )
        names = [self.x(i) for i in range(self.inputs)] + [self.y(j) for j in range(self.outputs)]
        return "".join(f"(declare-const {name} Real)" for name in names)

    def x(self, i: int) -> str:
        return f"in[0,{i}]" if self.newer else f"X_{i}"

    def y(self, j: int) -> str:
        return f"out[{j},0]" if self.newer else f"Y_{j}"

    def number(self) -> tuple[str, Fraction]:
        text = self.draw.choice(["0.1", "-0.3", "2", "1.0e-1", "-1.25", "0.30000000000000004", ".5", "3."])
        return text, Fraction(text)

    def formula(self, depth: int) -> tuple[str, object]:
        if depth and self.draw.random() < 0.6:
            kind = self.draw.choice(["and", "or"])
            parts = [self.formula(depth - 1) for _ in range(self.draw.randint(1, 3))]
            return f"({kind} {' '.join(text for text, _ in parts)})", (kind, [value for _, value in parts])
        relation = self.draw.choice(["<=", ">=", "<", ">", "==", "!="])
        if self.draw.random() < 0.4:
            i, (text, value) = self.draw.randrange(self.inputs), self.number()
            sides, forms = [self.x(i), text], [{("x", i): Fraction(1)}, {None: value}]
        else:
            (first, one), (second, other) = self.term(2), self.term(2)
            own = f"(+ {self.y(0)} {first})"
            sides, forms = [own, second], [one | {("y", 0): one.get(("y", 0), Fraction(0)) + 1}, other]
        if self.draw.random() < 0.5:
            sides, forms = sides[::-1], forms[::-1]
        return f"({relation} {sides[0]} {sides[1]})", (relation, *forms)

    def term(self, depth: int) -> tuple[str, dict[object, Fraction]]:
        if not depth or self.draw.random() < 0.4:
            if self.draw.random() < 0.5:
                text, value = self.number()
                return text, {None: value}
            j = self.draw.randrange(self.outputs)
            return self.y(j), {("y", j): Fraction(1)}
        kind = self.draw.choice(["+", "-", "*", "negative"])
        (first, one), (second, other) = self.term(depth - 1), self.term(depth - 1)
        if kind == "*":
            text, value = self.number()
            pair = f"{text} {first}" if self.draw.random() < 0.5 else f"{first} {text}"
            return f"(* {pair})", {name: value * factor for name, factor in one.items()}
        if kind == "negative":
            return f"(- {first})", {name: -factor for name, factor in one.items()}
        sign = 1 if kind == "+" else -1
        total = dict(one)
        for name, factor in other.items():
            total[name] = total.get(name, Fraction(0)) + sign * factor
        return f"({kind} {first} {second})", total


def canonical(query: Query) -> set[tuple[object, ...]]:
    rows = [
        frozenset((*row, limit) for row, limit in zip(case.matrix.tolist(), case.limit.tolist(), strict=True))
        for case in query.cases
    ]
    boxes = [(*case.lower.tolist(), *case.upper.tolist()) for case in query.cases]
    return set(zip(boxes, rows, strict=True))


def plain(text: str) -> set[tuple[object, ...]]:
    _, outputs, cases = read_property(text)
    found = set()
    for case in cases:
        rows = []
        for factors, limit in case.constraints:
            row = [0.0] * outputs
            for number, factor in factors:
                row[number] = float(factor)
            rows.append((*row, float(limit)))
        found.add(((*map(float, case.lower), *map(float, case.upper)), frozenset(rows)))
    return found


def says(formula: object, values: dict[object, Fraction]) -> bool:
    """The meaning of a drawn formula at a point."""
    head, *parts = formula  # type: ignore[misc]
    if head in ("and", "or"):
        return (all if head == "and" else any)(says(part, values) for part in parts[0])
    left, right = (sum((values[n] * f if n is not None else f for n, f in part.items()), Fraction(0)) for part in parts)
    return bool(
        {"<=": left <= right, ">=": left >= right, "<": left < right, ">": left > right, "==": left == right}.get(
            head, left != right
        )
    )


def in_a_case(query: Query, x: list[Fraction], y: list[Fraction]) -> bool:
    """Whether a closed case holds, with its float64 numbers taken as they are."""
    for case in query.cases:
        inside = all(low <= value <= high for low, value, high in zip(case.lower, x, case.upper, strict=True))
        rows = zip(case.matrix.tolist(), case.limit.tolist(), strict=True)
        if inside and all(sum(map(mul, map(Fraction, row), y)) <= Fraction(limit) + SLACK for row, limit in rows):
            return True
    return False


@pytest.mark.parametrize("block", range(8))
def test_both_readers_and_the_meaning_agree(block: int) -> None:
    """400 random properties: the checker's cases are the prover's, and points that meet the text lie in a case."""
    met = 0
    for seed in range(50 * block, 50 * block + 50):
        drawn = Drawn(seed)
        query = parse_query(drawn.text)
        assert canonical(query) == plain(drawn.text), drawn.text
        for _ in range(20):
            x = [Fraction(drawn.draw.randint(-8, 20), 8) for _ in range(drawn.inputs)]
            y = [Fraction(drawn.draw.randint(-16, 16), 8) for _ in range(drawn.outputs)]
            values = {("x", i): value for i, value in enumerate(x)} | {("y", j): value for j, value in enumerate(y)}
            decimals = [[str(float(value)) for value in side] for side in (x, y)]
            inside = all(-1 - i <= value <= Fraction(5, 2) for i, value in enumerate(x))
            every = [drawn.assumed, *(formula for _, formula in drawn.formulas)]
            meant = inside and all(says(formula, values) for formula in every)
            assert holds(query, *decimals) is meant, drawn.text
            if meant:
                met += 1
                assert in_a_case(query, x, y), drawn.text
    assert met > 20


def test_the_checker_refuses_what_no_proof_is_written_for() -> None:
    two = "(declare-network g (declare-input A real [1]) (declare-output B real [1]))"
    for text in (
        F + two + BOX + "(assert (<= Y[0] 1.0))",
        F + BOX + "(assert (<= Y[0] X[0,0]))",
        F + BOX + "(assert (<= (* Y[0] Y[1]) 1.0))",
        F + BOX + "(assert (<= Y[0] 1.0)",
        F + BOX + "(assert (forall Y[0]))",
        F + "(assert (<= Y[0] 1.0))",
    ):
        with pytest.raises(ProofError):
            read_property(text)
