"""The least value of a row over a region of inputs, against exact arithmetic."""

from __future__ import annotations

from decimal import Decimal, localcontext

import pytest
import torch
from torch import Tensor

from radii.bounds.regions import Domain, least


def exact(
    row: list[float], low: list[float], high: list[float], center: list[float], radius: float, kind: str
) -> Decimal:
    """The least row . x over the box, or over the ball around the center, with 60 digits."""
    a, low_, high_, c = (list(map(Decimal, part)) for part in (row, low, high, center))
    if kind == "box":
        return sum((min(x * y, x * z) for x, y, z in zip(a, low_, high_, strict=True)), Decimal(0))
    middle = sum((x * y for x, y in zip(a, c, strict=True)), Decimal(0))
    steep = sum((x * x for x in a), Decimal(0)).sqrt() if kind == "l2" else max(map(abs, a))
    return middle - Decimal(radius) * steep


@pytest.mark.parametrize("kind", ["box", "l2", "l1"])
def test_the_least_value_is_never_rounded_up(kind: str) -> None:
    """Numbers of many sizes that nearly cancel: float64 alone is above the truth in every other row."""
    torch.manual_seed(0)
    for _ in range(20):
        A: Tensor = torch.randn(4, 200).double() * 10.0 ** torch.randint(-3, 4, (4, 200)) / 3
        center = torch.rand(1, 200).double() - 0.5
        radius = 0.1
        low, high = center - radius, center + radius
        if kind == "box":
            domain = Domain(low, high)
        else:
            domain = Domain(low - 1, high + 1, center, radius, norm=kind)  # type: ignore[arg-type]
        found = least(A, domain, torch.zeros(4, dtype=torch.int64)).tolist()
        with localcontext(prec=60):
            for row, value in zip(A.tolist(), found, strict=True):
                truth = exact(row, low[0].tolist(), high[0].tolist(), center[0].tolist(), radius, kind)
                assert Decimal(value) <= truth
                assert float(truth - Decimal(value)) < 1e-9 * sum(map(abs, row))
