"""Checks a proof that no input of a box meets a case, leaf by leaf; imports nothing of what made it.

A proof is a tree that covers the box: halves of inputs, or signs of ReLUs. At
every leaf a backward pass (CROWN, Zhang et al. 2018; multipliers as in
beta-CROWN, Wang et al. 2021) must give a positive lower bound of the violated
inequality. Numbers are float64; every pass takes off the rounding of the
float32 network (gamma_n of its sums, in any order) and its own, generously.
The bounds of hidden values are computed here, never read from the proof.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from radii.verification.checker.plain_network import Array, PlainNetwork, PlainStep, ProofError, read_plain
from radii.verification.checker.plain_property import PlainCase, read_property

SINGLE, DOUBLE = 2.0**-24, 2.0**-53
TINY = 2.0**-125  # more than what underflow loses in a product
LARGEST = 3.4e38
SMALLEST = 2.0**-1022  # a factor below it loses more than a rounding
ROWS = 1 << 22  # coefficients in one pass
Bounds = dict[int, tuple[Array, Array, Array]]  # of each value: lower, upper, rounding of its step, [boxes, size]


def read_proof(path: Path) -> dict[str, Array]:
    """The arrays of the proof file ``path``, after its digest was checked."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except Exception as error:
        raise ProofError(f"{path} is not a whole file of a proof: numeric arrays in .npz form are expected.") from error
    stated = arrays.pop("digest", np.zeros(0, dtype=np.uint8))
    if stated.tobytes() != digest(arrays):
        raise ProofError(f"{path} was changed after it was written: its digest differs.")
    return arrays


def digest(arrays: dict[str, Array]) -> bytes:
    """SHA-256 of all arrays, with their names, types and shapes."""
    total = hashlib.sha256()
    for name, value in sorted(arrays.items()):
        total.update(f"{name} {value.dtype.str} {value.shape};".encode())
        total.update(np.ascontiguousarray(value).tobytes())
    return total.digest()


def check(arrays: dict[str, Array], advance: Callable[[int], Any] = lambda _: None) -> int:
    """Check that the goals of a proof are its property, and every leaf; the number of leaves."""
    with _whole():
        network = read_plain(arrays["network"].tobytes())
        _check_property(arrays["property"].tobytes().decode(), network, _goals(arrays))
    return check_leaves(arrays, advance)


def check_leaves(arrays: dict[str, Array], advance: Callable[[int], Any] = lambda _: None) -> int:
    """Check every leaf of every goal of a proof against the network inside it."""
    with _whole():
        network = read_plain(arrays["network"].tobytes())
        leaves = 0
        for goal in _goals(arrays):
            leaves += (_check_inputs if "cut" in goal else _check_signs)(network, goal, advance)
    return leaves


@contextmanager
def _whole() -> Iterator[None]:
    """What a proof lacks, or has in another form, is a reason to reject it."""
    try:
        yield
    except (KeyError, IndexError, TypeError, OverflowError, ValueError) as error:
        raise error if isinstance(error, ProofError) else ProofError(f"The proof is not whole: {error!r}.") from error


def _goals(arrays: dict[str, Array]) -> list[dict[str, Array]]:
    return [
        {name: arrays[f"{goal}/{name}"] for name in _names(arrays, goal)} for goal in range(int(arrays["goals"][0]))
    ]


def _names(arrays: dict[str, Array], goal: int) -> list[str]:
    return [name.partition("/")[2] for name in arrays if name.partition("/")[0] == str(goal)]


def _check_property(text: str, network: PlainNetwork, goals: list[dict[str, Array]]) -> None:
    """Every case of the property is a case of a goal: the same box and the same constraints, rounded to float64.

    Float32 inputs between two decimals lie between the float64 numbers nearest to them. What the rounding of factors
    and limits changes is less than what every bound takes off.
    """
    inputs, outputs, cases = read_property(text)
    if (inputs, outputs) != (network.inputs, network.steps[network.output].size):
        raise ProofError("The property in the proof has other numbers of inputs and outputs than its network.")
    proved = {key for goal in goals for key in _proved(goal)}
    for number, case in enumerate(cases):
        if _wanted(case, outputs) not in proved:
            raise ProofError(f"The proof does not prove its property: case {number} is no case of a goal.")


def _proved(goal: dict[str, Array]) -> list[tuple[bytes, frozenset[bytes]]]:
    """Box and constraints of each case of a goal."""
    box = _key(goal["lower"], goal["upper"])
    rows = np.concatenate([goal["matrix"], goal["limit"][:, None]], axis=1)
    return [
        (box, frozenset(_key(row) for row in rows[goal["case"] == number])) for number in range(int(goal["cases"][0]))
    ]


def _wanted(case: PlainCase, outputs: int) -> tuple[bytes, frozenset[bytes]]:
    rows = set()
    for factors, limit in case.constraints:
        row = np.zeros(outputs + 1)
        for number, factor in factors:
            row[number] = float(factor)
            if abs(row[number]) < SMALLEST:
                raise ProofError("A factor of the property is too small for float64.")
        row[-1] = float(limit)
        rows.add(_key(row))
    return _key([float(end) for end in case.lower], [float(end) for end in case.upper]), frozenset(rows)


def _key(*values: Any) -> bytes:
    """Float64 numbers as bytes; both zeros are the same."""
    return b"".join((np.asarray(value, dtype=np.float64) + 0.0).tobytes() for value in values)


def _box(goal: dict[str, Array]) -> tuple[Array, Array]:
    """The box with every float32 number that its ends round to."""
    low, high = goal["lower"].astype(np.float64), goal["upper"].astype(np.float64)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
        raise ProofError("A box of the proof is empty or not finite.")
    return np.minimum(low, low.astype(np.float32)), np.maximum(high, high.astype(np.float32))


# ---------------------------------------------------------------- trees


def _check_inputs(network: PlainNetwork, goal: dict[str, Array], advance: Callable[[int], Any]) -> int:
    """Leaves are boxes; in each, every case has an inequality that fails."""
    lower, upper = _leaf_boxes(goal)
    matrix, limit, case = goal["matrix"].astype(np.float64), goal["limit"].astype(np.float64), goal["case"]
    widest = max(step.size for step in network.steps)
    size = max(1, min(256, ROWS // (2 * widest * widest)))
    for start in range(0, len(lower), size):
        box = lower[start : start + size], upper[start : start + size]
        bounds = hidden_bounds(network, *box)
        dom = np.repeat(np.arange(len(box[0])), len(limit))
        least = lower_bounds(network, bounds, network.output, np.tile(matrix, (len(box[0]), 1)), dom)
        fails = least.reshape(-1, len(limit)) - limit > 2.0**-45 * np.abs(limit)
        for number in range(int(goal["cases"][0])):
            if not fails[:, case == number].any(1).all():
                raise ProofError(f"A box among leaves {start} to {start + len(box[0]) - 1} is not proved.")
        advance(len(box[0]))
    return len(lower)


def _leaf_boxes(goal: dict[str, Array]) -> tuple[Array, Array]:
    """The boxes of a tree in preorder: a coordinate and where it is cut, or -1 for a leaf."""
    low, high = _box(goal)
    open_, lowers, uppers = [(low, high)], [], []
    for place, at in zip(goal["cut"].tolist(), goal["at"].tolist(), strict=True):
        if not open_:
            raise ProofError("The tree of boxes has more nodes than its splits make.")
        low, high = open_.pop()
        if place == -1:
            lowers.append(low)
            uppers.append(high)
            continue
        if place < 0 or not low[place] <= at <= high[place]:
            raise ProofError(f"Input {place} is cut at {at}, outside its box.")
        left, right = high.copy(), low.copy()
        left[place] = right[place] = at
        open_ += [(right, high), (low, left)]
    if open_:
        raise ProofError("The tree of boxes does not cover its box.")
    return np.stack(lowers), np.stack(uppers)


def _check_signs(network: PlainNetwork, goal: dict[str, Array], advance: Callable[[int], Any]) -> int:
    """Leaves fix signs of ReLUs; for every case the leaves are a whole tree, and each leaf's bound is positive."""
    low, high = _box(goal)
    root = hidden_bounds(network, low[None], high[None])
    relus, splits, ends = network.relus(), goal["splits"].tolist(), goal["ends"].tolist()
    each = [[tuple(split) for split in splits[a:b]] for a, b in zip([0, *ends], ends, strict=False)]
    if not goal["leaf_case"].tolist() or len(each) != len(goal["leaf_case"]) or ends[-1] != len(splits):
        raise ProofError("The tree of signs is not whole.")
    for case in range(int(goal["cases"][0])):
        _check_tree([leaf for leaf, owner in zip(each, goal["leaf_case"].tolist(), strict=True) if owner == case])
    alphas, betas = _slopes(network, goal, len(each)), goal["betas"].astype(np.float64)
    if not (np.isfinite(betas).all() and (betas >= 0).all() and len(betas) == len(splits)):
        raise ProofError("A multiplier is negative or missing.")
    for number, leaf in enumerate(each):
        bounds, extra = dict(root), dict[int, Array]()
        for (relu, place, sign), beta in zip(leaf, betas[ends[number] - len(leaf) : ends[number]], strict=True):
            source = network.steps[relus[relu]].sources[0]
            if sign not in (1, -1) or not 0 <= place < network.steps[source].size or relu < 0:
                raise ProofError(f"The split {relu, place, sign} names no sign of a ReLU.")
            start, stop, error = bounds[source]
            start, stop = start.copy(), stop.copy()
            (start if sign == 1 else stop)[0, place] = (
                max(start[0, place], 0.0) if sign == 1 else min(stop[0, place], 0.0)
            )
            bounds[source] = (start, stop, error)
            extra.setdefault(relus[relu], np.zeros(network.steps[source].size))[place] -= sign * beta
        _check_leaf(network, goal, number, bounds, {place: value[number] for place, value in alphas.items()}, extra)
        advance(1)
    return len(each)


def _slopes(network: PlainNetwork, goal: dict[str, Array], leaves: int) -> dict[int, Array]:
    """Lower slopes [leaves, size] of each ReLU, in [0, 1]."""
    slopes = {}
    for order, number in enumerate(network.relus()):
        value = goal[f"alpha{order}"].astype(np.float64)
        if value.shape != (leaves, network.steps[number].size) or not ((value >= 0) & (value <= 1)).all():
            raise ProofError("A slope lies outside 0 to 1, or is missing.")
        slopes[number] = value
    return slopes


def _check_tree(leaves: list[list[tuple[int, int, int]]]) -> None:
    """The lists of splits are the leaves of a binary tree that covers both signs of every ReLU it splits."""
    todo = [(leaves, 0)]
    while todo:
        part, depth = todo.pop()
        if len(part) == 1 and len(part[0]) == depth:
            continue
        if not part or any(len(leaf) <= depth or leaf[depth][:2] != part[0][depth][:2] for leaf in part):
            raise ProofError("The tree of signs does not cover every sign.")
        todo += [([leaf for leaf in part if leaf[depth][2] == sign], depth + 1) for sign in (1, -1)]


def _check_leaf(
    network: PlainNetwork,
    goal: dict[str, Array],
    number: int,
    bounds: Bounds,
    alphas: dict[int, Array],
    extra: dict[int, Array],
) -> None:
    mine = goal["case"] == goal["leaf_case"][number]
    weights = goal["weights"][number].astype(np.float64)[: int(mine.sum())]
    if len(weights) != mine.sum() or not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ProofError("A weight of an inequality is negative or missing.")
    matrix, limit = goal["matrix"][mine].astype(np.float64), goal["limit"][mine].astype(np.float64)
    reach = _size(bounds, network.output)[0]
    least = lower_bounds(network, bounds, network.output, (weights @ matrix)[None], None, alphas, extra)[0]
    slack = 2.0**-45 * (weights @ np.abs(limit) + (weights @ np.abs(matrix)) @ reach)
    if not least - weights @ limit > slack:
        raise ProofError(f"Leaf {number} is not proved: its bound is {least - weights @ limit:.3g}.")


# ---------------------------------------------------------------- bounds


def hidden_bounds(network: PlainNetwork, low: Array, high: Array) -> Bounds:
    """Bounds of every value of ``network`` over boxes [``low``, ``high``], [B, inputs] each.

    Intervals, and backward passes for values whose sign is open.
    """
    bounds: Bounds = {0: (low, high, np.zeros((1, 1)))}
    read = {step.sources[0] for step in network.steps if step.kind == "relu"}
    behind: set[int] = set()
    for number, step in enumerate(network.steps[1:], 1):
        if step.kind == "relu" or behind & set(step.sources):
            behind.add(number)
        bounds[number] = _interval(step, bounds)
        if number in read and number in behind:
            bounds[number] = _tightened(network, bounds, number)
    return bounds


def _size(bounds: Bounds, number: int) -> Array:
    return np.asarray(np.maximum(np.abs(bounds[number][0]), np.abs(bounds[number][1])))


def _interval(step: PlainStep, bounds: Bounds) -> tuple[Array, Array, Array]:
    """Bounds from those of the sources, and what rounding can move the value.

    The rounding is float32's, with sums in any order, and this checker's own, twice: here and in a backward pass.
    """
    low, high, _ = bounds[step.sources[0]]
    if step.kind == "relu":
        return np.maximum(low, 0.0), np.maximum(high, 0.0), np.zeros((1, 1))
    for source in step.sources[1:]:
        low, high = low + bounds[source][0], high + bounds[source][1]
    middle, reach = (low + high) / 2, (high - low) / 2
    size = np.asarray(sum(_size(bounds, source) for source in step.sources))
    if step.matrix is not None:
        middle, reach, size = middle @ step.matrix.T, reach @ abs(step.matrix).T, size @ abs(step.matrix).T
    if step.bias is not None:
        middle, size = middle + step.bias, size + np.abs(step.bias)
    single = (step.terms + 2) * SINGLE if step.terms else 0.0
    if not (single < 0.5 and (size < LARGEST).all()):
        raise ProofError("A value of the network may overflow, or is too long a sum.")
    own = 8 * (max(step.size, step.terms) + 16) * DOUBLE
    error = size * (1.01 * single / (1 - single) + own) + TINY * (step.terms + 2)
    return middle - reach - error, middle + reach + error, error


def _tightened(network: PlainNetwork, bounds: Bounds, number: int) -> tuple[Array, Array, Array]:
    low, high, error = bounds[number]
    low, high = low.copy(), high.copy()
    boxes, places = np.nonzero((low < 0) & (high > 0))
    size = max(1, ROWS // (2 * max(step.size for step in network.steps)))
    for start in range(0, len(boxes), size):
        dom, place = boxes[start : start + size], places[start : start + size]
        rows = np.zeros((len(dom), low.shape[1]))
        rows[np.arange(len(dom)), place] = 1.0
        both = lower_bounds(network, bounds, number, np.concatenate([rows, -rows]), np.tile(dom, 2))
        low[dom, place] = np.maximum(low[dom, place], both[: len(dom)])
        high[dom, place] = np.minimum(high[dom, place], -both[len(dom) :])
    return low, high, error


def lower_bounds(
    network: PlainNetwork,
    bounds: Bounds,
    number: int,
    rows: Array,
    dom: Array | None,
    alphas: dict[int, Array] | None = None,
    extra: dict[int, Array] | None = None,
) -> Array:
    """Lower bounds of rows . value [R] over the box ``dom[i]`` of each row (the first box without ``dom``).

    Args:
        number: the value that the rows [R, size] multiply.
        alphas: lower slopes of open ReLUs; 0 or 1 by the larger side without them.
    """
    dom = np.zeros(len(rows), dtype=np.int64) if dom is None else dom
    pending, total = {number: rows}, np.zeros(len(rows))
    for place in range(number, 0, -1):
        A = pending.pop(place, None)
        step = network.steps[place]
        if A is None:
            continue
        if step.kind == "relu":
            low, high = (end[dom] for end in bounds[step.sources[0]][:2])
            under = (high > -low) * 1.0 if alphas is None or place not in alphas else alphas[place]
            active, dead = low >= 0, high <= 0
            chord = high / np.where(high > low, high - low, 1.0)
            over = np.where(active, 1.0, np.where(dead, 0.0, chord))
            under = np.where(active, 1.0, np.where(dead, 0.0, under))
            lift = np.where(active | dead, 0.0, -chord * low)
            added = 0.0 if extra is None or place not in extra else extra[place]
            total += (np.minimum(A, 0) * lift).sum(1)
            size = np.maximum(np.abs(low), np.abs(high))
            total -= ((np.abs(A) + np.abs(added)) * size).sum(1) * ((step.size + 16) * 8 * DOUBLE)
            backs = [A * np.where(A > 0, under, over) + added]
        else:
            total -= (np.abs(A) * bounds[place][2][dom]).sum(1) * (1 + (step.size + 16) * DOUBLE)
            total = total if step.bias is None else total + A @ step.bias
            backs = [A if step.matrix is None else np.asarray(A @ step.matrix)] * len(step.sources)
        for source, back in zip(step.sources, backs, strict=True):
            pending[source] = pending[source] + back if source in pending else back
    if 0 in pending:
        low, high = (end[dom] for end in bounds[0][:2])
        A, size = pending[0], np.maximum(np.abs(low), np.abs(high))
        total += (A * (low + high) / 2).sum(1) - (np.abs(A) * (high - low) / 2).sum(1)
        total -= (np.abs(A) * size).sum(1) * ((network.inputs + 16) * 8 * DOUBLE)
    return total
