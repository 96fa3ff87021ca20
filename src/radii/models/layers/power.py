"""The spectral norm of a weight that changes slowly: one power iteration per training step, Lanczos in eval mode.

It is an estimate from below: good enough to train with and to scale a layer.
No certificate relies on it: :mod:`radii.models.lipschitz.network_bound` proves
the layer's constant, whatever the estimate was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.models.layers.effective import Remembering, full_precision
from radii.models.lipschitz.spectral import lanczos

EVAL_VECTORS = 60
FRESH_STEPS = 20
_TINY = 1e-30

Action = Callable[[Tensor], Tensor]


def unit(vector: Tensor) -> Tensor:
    """``vector`` divided by its norm."""
    return vector / vector.norm().clamp_min(_TINY)


def deterministic_start(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """A fixed random unit vector of ``shape``, in the type and on the device of ``like``."""
    generator = torch.Generator().manual_seed(0)
    return unit(torch.randn(shape, generator=generator)).to(like)


class WarmNorm(Remembering):
    """Base of layers that need the norm of their ``weight`` as an operator on inputs of one size.

    ``direction`` is the last estimate of the first singular vector, where the next
    iteration starts. It is a buffer, so it is saved, copied and loaded with the
    weights. Forward passes in train mode change it; in eval mode they only start
    from it. For another input size they start from a fixed vector. So the norm is
    a function of the weights, ``direction`` and the size only.
    """

    weight: nn.Parameter
    direction: Tensor | None

    def norm(self, size: tuple[int, ...]) -> Tensor:
        """The norm of the weight on inputs of ``size`` (channels and pixels), differentiable in it once."""
        if self.training:
            with full_precision():
                return self._followed(size)
        return self.remembered(lambda: self._settled(size), size)

    def _followed(self, size: tuple[int, ...]) -> Tensor:
        """One more power iteration from the warm vector; some more from a new one."""
        apply, transpose = self._actions()
        direction, steps = self._start(size)
        with torch.no_grad():
            for _ in range(steps):
                direction = unit(transpose(apply(direction)))
        self.direction = direction
        return apply(direction).norm()

    def _settled(self, size: tuple[int, ...]) -> Tensor:
        apply, transpose = self._actions()
        with torch.no_grad():
            _, direction = lanczos(lambda x: transpose(apply(x)), self._start(size)[0], EVAL_VECTORS)
        return apply(unit(direction)).norm()

    def _start(self, size: tuple[int, ...]) -> tuple[Tensor, int]:
        if self.direction is not None and tuple(self.direction.shape) == (1, *size):
            return self.direction, 1
        return deterministic_start((1, *size), self.weight), FRESH_STEPS

    def _actions(self) -> tuple[Action, Action]:
        """x -> W x and y -> W^T y; a 4-dimensional weight convolves and keeps the size."""
        if self.weight.dim() == 2:
            return lambda x: x @ self.weight.T, lambda y: y @ self.weight
        padding = (self.weight.shape[2] // 2, self.weight.shape[3] // 2)
        return (
            lambda x: F.conv2d(x, self.weight, padding=padding),
            lambda y: F.conv_transpose2d(y, self.weight, padding=padding),
        )

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """A stored direction of any size is accepted: it only warms the iteration."""
        stored = state.get(f"{prefix}direction")
        if stored is None:  # weights from before the first forward
            self.direction = None
        elif self.direction is None or self.direction.shape != stored.shape:
            self.direction = torch.empty_like(stored, dtype=self.weight.dtype, device=self.weight.device)
        super()._load_from_state_dict(state, prefix, *rest)
