"""Norms of every linear map against singular values of its matrix."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.bounds.linear_norms import in_float64, linear_norms
from radii.networks.operations.linear import Linear
from radii.networks.read_torch import read_torch

torch.manual_seed(4)
MAPS = {
    "a matrix": (nn.Linear(7, 5), (7,)),
    "a convolution": (nn.Conv2d(2, 3, 3, stride=2, padding=1), (2, 5, 5)),
    "a convolution in groups": (nn.Conv2d(4, 4, 2, groups=2), (4, 4, 4)),
    "a convolution of one axis": (nn.Conv1d(2, 3, 3, padding=1), (2, 6)),
    "a transposed convolution": (nn.ConvTranspose2d(2, 3, 3, stride=2), (2, 3, 3)),
    "a factor": (lambda x: x * torch.tensor([0.5, -3.0, 2.0]), (3,)),
    "overlapping averages": (lambda x: F.avg_pool2d(x, 3, 1), (1, 5, 5)),
    "averages apart": (lambda x: F.avg_pool2d(x, 2), (2, 4, 4)),
    "a mean of all": (lambda x: x.mean((2, 3)), (2, 3, 4)),
    "copies": (lambda x: x[:, [0, 0, 0, 1]], (3,)),
    "a transposed matrix": (lambda x: x.transpose(1, 2), (2, 3)),
}


class Called(nn.Module):
    """A function as a network."""

    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x).flatten(1)  # type: ignore[operator]


@pytest.mark.parametrize("name", MAPS)
@torch.no_grad()
def test_norms_are_above_the_largest_singular_values_and_near(name: str) -> None:
    function, shape = MAPS[name]
    program = read_torch(Called(function).eval(), shape)
    step = next(step for step in program.steps.values() if isinstance(step, Linear))
    linear = in_float64(step.linear)
    units = torch.eye(int(torch.tensor(step.in_shape).prod()), dtype=torch.float64).unflatten(1, step.in_shape)
    matrix = linear.apply(units).flatten(1)
    largest = [float(torch.linalg.matrix_norm(own, 2)) for own in (matrix, matrix.abs())]
    for prove in (False, True):
        for bound, norm in zip(linear_norms(linear, step.in_shape, step.out_shape, prove), largest, strict=True):
            assert norm * (1 - 1e-12) <= bound <= 1.6 * largest[1]
