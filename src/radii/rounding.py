"""Numbers for readers: radii as fractions of grey levels, and rounding that never says more than is known."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from math import isfinite
from typing import Literal

Toward = Literal["nearest", "down", "up"]
_ROUNDING = {"nearest": ROUND_HALF_EVEN, "down": ROUND_FLOOR, "up": ROUND_CEILING}


def format_radius(radius: float) -> str:
    """``8/255`` where the radius is a whole number of grey levels, else a short decimal."""
    levels = radius * 255
    if radius and levels < 255 and abs(levels - round(levels)) < 1e-6 and float(f"{radius:.3g}") != radius:
        return f"{round(levels)}/255"
    return f"{radius:.10g}"


def round_toward(value: float, digits: int, toward: Toward = "nearest") -> float:
    """``value`` with so many significant digits.

    Args:
        value: a number; infinity and NaN stay as they are.
        digits: significant digits.
        toward: ``down`` for a proved radius, ``up`` for a broken one, ``nearest`` for everything else.

    >>> round_toward(0.04689, 2), round_toward(0.04689, 2, "down"), round_toward(0.0461, 2, "up")
    (0.047, 0.046, 0.047)
    """
    if not isfinite(value):
        return value
    return float(Context(prec=digits, rounding=_ROUNDING[toward]).create_decimal_from_float(value))
