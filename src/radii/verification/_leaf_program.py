"""A domain in which every ReLU has a fixed sign: a linear program (by HiGHS), or in an L2 ball a cone program.

The solution is a candidate for a counterexample; its multipliers are a proof
attempt, which the bounds check. Nothing that the solver says is believed.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radii.bounds.bound_engine import Engine
from radii.bounds.regions import Domain, ValueBounds, least
from radii.verification.answer import Limits

HALVINGS = 50
Floats = NDArray[np.float64]
Split = tuple[int, int, int, float]  # source value, coordinate, sign, multiplier


def solve_leaf(
    engine: Engine, known: ValueBounds, row: Tensor, splits: tuple[Split, ...], limits: Limits
) -> tuple[Tensor | None, list[float]]:
    """The input that makes row . output least under the signs, and the multipliers of the signs.

    The solvers end at the deadline of ``limits``.

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
    if known.domain.radius is not None and known.domain.norm == "l2":
        return _in_ball(slope.numpy(), matrix, limit, known, limits)
    bounds = list(zip(known.domain.lower[0].tolist(), known.domain.upper[0].tolist(), strict=True))
    seconds = max(0.01, min(1e9, limits.left()))
    from scipy.optimize import linprog  # takes its time to start

    costs = slope.numpy()
    if known.domain.radius is not None:
        costs, matrix, limit, bounds = _with_l1(costs, matrix, limit, bounds, known.domain)
    answer = linprog(costs, matrix, limit, bounds=bounds, method="highs", options={"time_limit": seconds})
    limits.check()
    if answer.status != 0:
        return None, [0.0] * len(splits)
    multipliers = answer.ineqlin.marginals[: len(splits)]
    return torch.from_numpy(answer.x[: len(slope)]), [max(0.0, -float(value)) for value in multipliers]


def _with_l1(
    costs: Floats, matrix: Floats, limit: Floats, bounds: list[tuple[float, float]], domain: Domain
) -> tuple[Floats, Floats, Floats, list[tuple[float, float]]]:
    """The program with lengths t_j >= |x_j - c_j| / scale_j whose sum is at most the radius, below its other rows."""
    assert domain.center is not None
    assert domain.radius is not None
    size, center = len(costs), domain.center[0].numpy()
    scale = np.diag(domain.scales()[0].numpy())
    lengths = np.block([[np.eye(size), -scale], [-np.eye(size), -scale]])
    total = np.concatenate([np.zeros(size), np.ones(size)])[None]
    wide = np.concatenate([matrix, np.zeros_like(matrix)], 1)
    return (
        np.concatenate([costs, np.zeros(size)]),
        np.concatenate([wide, lengths, total]),
        np.concatenate([limit, center, -center, [domain.radius]]),
        bounds + [(0.0, np.inf)] * size,
    )


def _in_ball(
    slope: Floats, matrix: Floats, limit: Floats, known: ValueBounds, limits: Limits
) -> tuple[Tensor, list[float]]:
    """The least slope . x with matrix . x <= limit in an L2 ball and its box, by the dual (L-BFGS-B).

    For multipliers b >= 0 the dual is -b . limit + min over the region of (slope + matrix^T b) . x. It is concave,
    and its gradient is matrix . x - limit at that minimizer.
    """
    low, high = known.domain.lower[0].numpy(), known.domain.upper[0].numpy()
    assert known.domain.center is not None
    assert known.domain.radius is not None
    center, radius, scale = known.domain.center[0].numpy(), known.domain.radius, known.domain.scales()[0].numpy()
    if not len(matrix):  # no sign is needed
        return torch.from_numpy(_farthest(slope, low, high, center, radius, scale)), []
    rows = np.linalg.norm(matrix, axis=1)
    pace = float(np.linalg.norm(slope)) / max(1e-12, float(rows.mean()))

    def negated_dual(parameters: Floats) -> tuple[float, Floats]:
        limits.check()
        betas = pace * parameters
        total = slope + betas @ matrix
        x = _farthest(total, low, high, center, radius, scale)
        return float(betas @ limit - total @ x), pace * (limit - matrix @ x)

    from scipy.optimize import minimize

    best = minimize(
        negated_dual,
        np.zeros(len(matrix)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * len(matrix),
        options={"maxiter": 500, "ftol": 1e-13, "gtol": 1e-11, "maxcor": 30},
    )
    betas = np.maximum(best.x * pace, 0.0)
    x = _farthest(slope + betas @ matrix, low, high, center, radius, scale)
    return torch.from_numpy(x), betas.tolist()


def _farthest(slope: Floats, low: Floats, high: Floats, center: Floats, radius: float, scale: Floats) -> Floats:
    """The input of ball and box at which slope . x is least: clip(center - scale^2 slope / m), m by bisection."""
    way, unit = scale * scale * slope, np.where(scale > 0, scale, 1.0)
    least_, most = 0.0, float(np.linalg.norm(scale * slope)) / radius + 1e-300
    for _ in range(HALVINGS):
        middle = (least_ + most) / 2
        away = (np.clip(center - way / max(middle, 1e-300), low, high) - center) / unit
        least_, most = (middle, most) if away @ away > radius**2 else (least_, middle)
    result: Floats = np.clip(center - way / most, low, high)
    return result


def _form(engine: Engine, known: ValueBounds, number: int, rows: Tensor) -> tuple[Tensor, float]:
    """A row of a value as a line of the input: slopes and constant, up to rounding."""
    slopes: list[Tensor] = []
    total = engine.lower(known, number, rows, visit=lambda place, A: slopes.append(A.clone()) if place == 0 else None)
    if not slopes:
        return torch.zeros(engine.program.sizes[0]).double(), float(total[0])
    return slopes[0][0].double(), float(total[0] - least(slopes[0], known.domain, None)[0])
