"""Second derivatives of layers whose backward is written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def differentiable_gradients(
    function: Callable[..., Tensor], inputs: Sequence[Tensor | None], gradient: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of ``function(*inputs)``, which can be differentiated again.

    A hand-written backward returns them when torch will differentiate it, that is
    when gradients are enabled inside the backward (``create_graph=True``).

    Args:
        function: the layer written with plain torch operations.
        inputs: its arguments; None stands for a missing bias.
        gradient: the gradient of the result.

    Returns:
        One gradient per input; None for inputs that need none.
    """
    needed = [value is not None and value.requires_grad for value in inputs]
    with torch.enable_grad():
        wanted = [value for value, need in zip(inputs, needed, strict=True) if need and value is not None]
        gradients = iter(torch.autograd.grad(function(*inputs), wanted, gradient, create_graph=True))
    return tuple(next(gradients) if need else None for need in needed)
