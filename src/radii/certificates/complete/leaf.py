"""A domain in which the sign of every ReLU is fixed: a linear program, solved by HiGHS.

Its solution is a candidate for a counterexample; its multipliers are a proof
attempt, which the bounds check. Nothing that the solver says is believed.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor

from radii.certificates.bounds.bound_engine import Engine
from radii.certificates.bounds.rows import ValueBounds, least

Split = tuple[int, int, int, float]  # source value, coordinate, sign, multiplier


def solve_leaf(
    engine: Engine, known: ValueBounds, row: Tensor, splits: tuple[Split, ...]
) -> tuple[Tensor | None, list[float]]:
    """The input that makes row . output least under the signs, and the multipliers of the signs.

    Args:
        engine: bounds of the network.
        known: bounds of one domain, with its signs.
        row: coefficients of the output.
        splits: the signs.

    Returns:
        The solver's input [inputs], None if it finds the signs contradictory; a multiplier for each split.
    """
    slope, _ = _form(engine, known, engine.program.output, row[None])
    forms = []
    for source, place, sign, _ in splits:
        unit = torch.zeros(1, engine.program.sizes[source], dtype=engine.program.dtype)
        unit[0, place] = sign
        forms.append(_form(engine, known, source, unit))
    matrix = np.array([-form[0].numpy() for form in forms]).reshape(len(forms), len(slope))  # sign * z >= 0
    limit = np.array([form[1] for form in forms])
    bounds = list(zip(known.domain.lower[0].tolist(), known.domain.upper[0].tolist(), strict=True))
    answer = linprog(slope.numpy(), matrix, limit, bounds=bounds, method="highs")
    if answer.status != 0:
        return None, [0.0] * len(splits)
    return torch.from_numpy(answer.x), [max(0.0, -float(value)) for value in answer.ineqlin.marginals]


def _form(engine: Engine, known: ValueBounds, number: int, rows: Tensor) -> tuple[Tensor, float]:
    """A row of a value as a line of the input: slopes and constant, up to rounding."""
    slopes: list[Tensor] = []
    total = engine.lower(known, number, rows, visit=lambda place, A: slopes.append(A.clone()) if place == 0 else None)
    if not slopes:
        return torch.zeros(engine.program.sizes[0]).double(), float(total[0])
    return slopes[0][0].double(), float(total[0] - least(slopes[0], known.domain, None)[0])
