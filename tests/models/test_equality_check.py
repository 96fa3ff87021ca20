"""A network that was read must compute what its module computes, up to rounding."""

from __future__ import annotations

import pytest
import torch

from radii.errors import InputError
from radii.models.equality_check import check_same


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-9])
def test_one_logit_may_lose_digits_but_not_change(size: float) -> None:
    """Terms of a sum may cancel: what is left is right to fewer digits than its type has."""
    logits = torch.tensor([[size]], dtype=torch.float64)
    rounded = logits * (1 + 1e-12)
    check_same(logits, (rounded, rounded))
    for other in (logits * 1.01, -logits):
        with pytest.raises(InputError, match="cannot be bounded"):
            check_same(logits, (other, other))


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-9])
def test_several_logits_are_compared_by_their_spread(size: float) -> None:
    logits = torch.tensor([[1.0, 1.0 + size]], dtype=torch.float64)
    check_same(logits, (logits, logits))
    other = logits + torch.tensor([[0.0, 0.01 * size]])
    with pytest.raises(InputError, match="cannot be bounded"):
        check_same(logits, (other, other))
