"""A domain in which every ReLU has a fixed sign: a linear program (by HiGHS), or in an L2 ball a cone program.

The solution is a candidate for a counterexample; its multipliers are a proof
attempt, which the bounds check. Nothing that the solver says is believed.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize
from torch import Tensor

from radii.certificates.bounds.bound_engine import Engine
from radii.certificates.bounds.rows import ValueBounds, least

HALVINGS = 50
Floats = NDArray[np.float64]
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
    if known.domain.radius is not None:
        return _in_ball(slope.numpy(), matrix, limit, known)
    bounds = list(zip(known.domain.lower[0].tolist(), known.domain.upper[0].tolist(), strict=True))
    answer = linprog(slope.numpy(), matrix, limit, bounds=bounds, method="highs")
    if answer.status != 0:
        return None, [0.0] * len(splits)
    return torch.from_numpy(answer.x), [max(0.0, -float(value)) for value in answer.ineqlin.marginals]


def _in_ball(slope: Floats, matrix: Floats, limit: Floats, known: ValueBounds) -> tuple[Tensor, list[float]]:
    """The least slope . x with matrix . x <= limit in an L2 ball and its box, by the dual (L-BFGS-B).

    For multipliers b >= 0 the dual is -b . limit + min over the region of (slope + matrix^T b) . x. It is concave,
    and its gradient is matrix . x - limit at that minimizer.
    """
    low, high = known.domain.lower[0].numpy(), known.domain.upper[0].numpy()
    assert known.domain.center is not None
    assert known.domain.radius is not None
    center, radius = known.domain.center[0].numpy(), known.domain.radius
    if not len(matrix):  # no sign is needed
        return torch.from_numpy(_farthest(slope, low, high, center, radius)), []
    rows = np.linalg.norm(matrix, axis=1)
    scale = float(np.linalg.norm(slope)) / max(1e-12, float(rows.mean()))

    def negated_dual(parameters: Floats) -> tuple[float, Floats]:
        betas = scale * parameters
        total = slope + betas @ matrix
        x = _farthest(total, low, high, center, radius)
        return float(betas @ limit - total @ x), scale * (limit - matrix @ x)

    best = minimize(
        negated_dual,
        np.zeros(len(matrix)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * len(matrix),
        options={"maxiter": 500, "ftol": 1e-13, "gtol": 1e-11, "maxcor": 30},
    )
    betas = np.maximum(best.x * scale, 0.0)
    x = _farthest(slope + betas @ matrix, low, high, center, radius)
    return torch.from_numpy(x), betas.tolist()


def _farthest(slope: Floats, low: Floats, high: Floats, center: Floats, radius: float) -> Floats:
    """The input of ball and box at which slope . x is least: clip(center - slope / m), m by bisection."""
    least_, most = 0.0, float(np.linalg.norm(slope)) / radius + 1e-300
    for _ in range(HALVINGS):
        middle = (least_ + most) / 2
        away = np.clip(center - slope / max(middle, 1e-300), low, high) - center
        least_, most = (middle, most) if away @ away > radius**2 else (least_, middle)
    result: Floats = np.clip(center - slope / most, low, high)
    return result


def _form(engine: Engine, known: ValueBounds, number: int, rows: Tensor) -> tuple[Tensor, float]:
    """A row of a value as a line of the input: slopes and constant, up to rounding."""
    slopes: list[Tensor] = []
    total = engine.lower(known, number, rows, visit=lambda place, A: slopes.append(A.clone()) if place == 0 else None)
    if not slopes:
        return torch.zeros(engine.program.sizes[0]).double(), float(total[0])
    return slopes[0][0].double(), float(total[0] - least(slopes[0], known.domain, None)[0])
