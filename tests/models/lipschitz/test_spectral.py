"""Proved norms are never below the exact singular values of the unrolled operator, and close above."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from radii.models.lipschitz.operators import (
    convolution_operators,
    estimated_norm,
    fallback_norm,
    grid_norm,
    matrix_operator,
    proved_norm,
)

ROOM = 1e-12  # what the SVD itself may be off by


def unrolled(weight: Tensor, size: tuple[int, int], **settings: object) -> Tensor:
    """The matrix of the convolution: its action on every basis image."""
    into = weight.shape[1] * int(settings.get("groups", 1))  # type: ignore[call-overload]
    basis = torch.eye(into * size[0] * size[1], dtype=torch.float64).view(-1, into, *size)
    return F.conv2d(basis, weight, **settings).flatten(1)  # type: ignore[arg-type]


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    into=st.integers(1, 3),
    out=st.integers(1, 3),
    groups=st.integers(1, 2),
    taps=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    dilation=st.integers(1, 2),
    size=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_never_below_the_truth_and_close_above(
    seed: int,
    into: int,
    out: int,
    groups: int,
    taps: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: int,
    size: tuple[int, int],
    scale: float,
) -> None:
    for axis in (0, 1):
        assume(size[axis] + 2 * padding[axis] >= dilation * (taps[axis] - 1) + 1)
    generator = torch.Generator().manual_seed(seed)
    weight = scale * torch.randn(out * groups, into, *taps, generator=generator, dtype=torch.float64)
    matrix = unrolled(weight, size, stride=stride, padding=padding, dilation=dilation, groups=groups)
    truth = float(torch.linalg.matrix_norm(matrix, 2))
    around = ((padding[0],) * 2, (padding[1],) * 2)
    operators = convolution_operators(weight, size, stride, around, (dilation, dilation), groups)
    proofs = [proved_norm(operator, estimated_norm(operator)) for operator in operators]
    if all(proof is not None for proof in proofs):
        proved = max(proof for proof in proofs if proof is not None)
        assert truth * (1 - ROOM) <= proved <= truth * (1 + 1e-5) + 1e-300
    else:  # only an operator that no output reads may have nothing to prove
        assert truth == 0.0
    assert max(fallback_norm(operator) for operator in operators) >= truth * (1 - ROOM)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 40), columns=st.integers(1, 40))
def test_matrices(seed: int, rows: int, columns: int) -> None:
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    truth = float(torch.linalg.matrix_norm(weight, 2))
    operator = matrix_operator(weight)
    proved = proved_norm(operator, estimated_norm(operator))
    assert proved is not None
    assert truth * (1 - ROOM) <= proved <= truth * (1 + 1e-5)
    assert truth * (1 - ROOM) <= fallback_norm(operator) <= truth * (1 + 1e-5)


def test_a_low_estimate_is_not_proved() -> None:
    """What power iteration would have reported after one step is refused, not certified."""
    operator = matrix_operator(torch.randn(30, 30, generator=torch.Generator().manual_seed(0)))
    truth = estimated_norm(operator)
    assert proved_norm(operator, 0.99 * truth) is None
    raised = proved_norm(operator, truth * (1 - 3e-6))
    assert raised is not None
    assert raised >= truth


def test_the_fallback_is_within_one_percent_at_32() -> None:
    generator = torch.Generator().manual_seed(0)
    for channels in (4, 8):
        weight = torch.randn(channels, channels, 3, 3, generator=generator, dtype=torch.float64)
        (operator,) = convolution_operators(weight, (32, 32), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
        proved = proved_norm(operator, estimated_norm(operator))
        assert proved is not None
        assert proved / (1 + 1e-5) <= fallback_norm(operator) <= 1.01 * proved


def test_circular_convolutions_by_the_dft() -> None:
    weight = torch.randn(3, 2, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    basis = torch.eye(2 * 5 * 4, dtype=torch.float64).view(-1, 2, 5, 4)
    matrix = F.conv2d(F.pad(basis, (1, 1, 1, 1), mode="circular"), weight).flatten(1)
    truth = float(torch.linalg.matrix_norm(matrix, 2))
    assert truth <= grid_norm(weight, (5, 4)) <= truth * (1 + 1e-8)


@pytest.mark.parametrize("channels", [2, 3])
def test_groups_take_the_maximum(channels: int) -> None:
    """A peer multiplies the groups' norms: 0.1 reported where the truth is 1."""
    weight = torch.zeros(2 * channels, channels, 1, 1, dtype=torch.float64)
    weight[:channels, :, 0, 0] = torch.eye(channels)
    weight[channels:, :, 0, 0] = 0.1 * torch.eye(channels)
    operators = convolution_operators(weight, (4, 4), (1, 1), ((0, 0), (0, 0)), (1, 1), 2)
    assert max(proved_norm(operator, estimated_norm(operator)) or 0 for operator in operators) >= 1.0
