"""Residual layers: convex potential (CPL) and SDP-based (SLL) layers are 1-Lipschitz, the block of LiResNet is bounded.

Their norms are power-iterated while training (:class:`_WarmNorm`): estimates from below, on which no certificate
relies. :mod:`radii.models.lipschitz.network_bound` proves the constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.models.layers._cached_weights import Remembering, check_input, check_odd, full_precision, uniform_start
from radii.models.layers.aol import rescaled
from radii.models.layers.plain_layers import Residual, residual_step
from radii.models.lipschitz.operators import lanczos

EVAL_VECTORS = 60
FRESH_STEPS = 20
_TINY = 1e-30

Action = Callable[[Tensor], Tensor]


def _unit(vector: Tensor) -> Tensor:
    """``vector`` divided by its norm."""
    return vector / vector.norm().clamp_min(_TINY)


def _deterministic_start(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """A fixed random unit vector of ``shape``, in the type and on the device of ``like``."""
    generator = torch.Generator().manual_seed(0)
    return _unit(torch.randn(shape, generator=generator)).to(like)


class _WarmNorm(Remembering):
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
                direction = _unit(transpose(apply(direction)))
        self.direction = direction
        return apply(direction).norm()

    def _settled(self, size: tuple[int, ...]) -> Tensor:
        apply, transpose = self._actions()
        with torch.no_grad():
            _, direction = lanczos(lambda x: transpose(apply(x)), self._start(size)[0], EVAL_VECTORS)
        return apply(_unit(direction)).norm()

    def _start(self, size: tuple[int, ...]) -> tuple[Tensor, int]:
        if self.direction is not None and tuple(self.direction.shape) == (1, *size):
            return self.direction, 1
        return _deterministic_start((1, *size), self.weight), FRESH_STEPS

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


HEADROOM = 1e-5  # power iteration in float32 stays this close below the norm


class _ConvexPotential(_WarmNorm):
    """Convex potential layers: x - (2 / sigma^2) W^T relu(W x + b) (Meunier et al. 2022).

    A gradient step of a convex potential: 1-Lipschitz whenever sigma >= |W|.
    Cost: two convolutions per layer and one warm power iteration per step.

    The bias enters once, inside, as in the CPL paper (the authors' code of
    Prach & Lampert 2025 adds it again after W^T, which changes no constant).
    sigma is a power-iterated norm times 1 + 1e-5. Certifying proves the constant
    max(1, 2 |W|^2 / sigma^2 - 1), which is then 1.
    """

    bias: nn.Parameter | None

    def _scaled(self, size: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
        """W and b times sqrt(2) / sigma: relu commutes with positive factors, so 2 / sigma^2 splits."""
        scale = 2**0.5 / (self.norm(size) * (1 + HEADROOM)).clamp_min(1e-12)
        return self.weight * scale, None if self.bias is None else self.bias * scale

    def forward(self, x: Tensor) -> Tensor:
        """[n, …] -> the same shape."""
        check_input(self, x, self.weight)
        return residual_step(x, *self._scaled(tuple(x.shape[1:])))

    def folded_for(self, shape: tuple[int, ...]) -> Residual:
        """The residual layer with plain weights for inputs of ``shape``."""
        return Residual(*self._scaled(shape))


class CPLConv2d(_ConvexPotential):
    """x - (2 / sigma^2) W^T relu(W x + b) with a zero-padded convolution W. 1-Lipschitz.

    Args:
        kernel_size: side of the kernel; odd.
        hidden_channels: channels of W x; default ``channels``.
        bias: whether b is learned; default True.
        input_size: height and width of the images; if known, files of weights always fit. Default: at first use.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: int,
        hidden_channels: int | None = None,
        bias: bool = True,
        input_size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        check_odd(kernel_size)
        shape = (hidden_channels or channels, channels, kernel_size, kernel_size)
        self.weight, self.bias = uniform_start(shape, bias)
        start = None if input_size is None else _deterministic_start((1, channels, *input_size), self.weight)
        self.register_buffer("direction", start)


class CPLLinear(_ConvexPotential):
    """x - (2 / sigma^2) W^T relu(W x + b) with a matrix W [``hidden_features``, ``features``]. 1-Lipschitz."""

    def __init__(self, features: int, hidden_features: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.weight, self.bias = uniform_start((hidden_features or features, features), bias)
        self.register_buffer("direction", _deterministic_start((1, features), self.weight))


class _SDPLayer(Remembering):
    """SDP-based Lipschitz layers: x - 2 W^T T^{-1} relu(W x + T^{1/2} b / sqrt(2)) (Araujo et al. 2023).

    T_i = sum_j |W W^T|_{ij} q_j / q_i with positive q. Since |q_i w_i . q_j w_j|
    = q_i q_j |w_i . w_j|, the weights q only rescale the rows of W; with them
    absorbed, sqrt(2) T^{-1/2} W is sqrt(2) times the AOL rescaling of W's rows,
    and relu commutes with T^{-1/2} > 0, which gives the residual form below.
    The paper adds b itself; a bias in units of the rescaled rows is the same
    family of functions and does not depend on T.

    Guarantee: 1-Lipschitz for any weights, any image size. Cost: two convolutions
    and the rescaling of AOL; no power iteration.
    """

    weight: nn.Parameter
    bias: nn.Parameter | None

    def _effective(self) -> Tensor:
        """sqrt(2) T^{-1/2} W."""
        kernel = self.weight if self.weight.dim() == 4 else self.weight[:, :, None, None]
        scaled = 2**0.5 * rescaled(kernel.transpose(0, 1)).transpose(0, 1)
        return scaled if self.weight.dim() == 4 else scaled[:, :, 0, 0]

    def forward(self, x: Tensor) -> Tensor:
        """[n, …] -> the same shape."""
        check_input(self, x, self.weight)
        return residual_step(x, self.remembered(self._effective), self.bias)

    def folded(self) -> Residual:
        """The residual layer with plain weights."""
        return Residual(self.remembered(self._effective), self.bias)


class SLLConv2d(_SDPLayer):
    """The SDP-based layer with a zero-padded convolution; ``hidden_channels`` defaults to ``channels``."""

    def __init__(self, channels: int, kernel_size: int, hidden_channels: int | None = None, bias: bool = True) -> None:
        super().__init__()
        check_odd(kernel_size)
        shape = (hidden_channels or channels, channels, kernel_size, kernel_size)
        self.weight, self.bias = uniform_start(shape, bias)


class SLLLinear(_SDPLayer):
    """The SDP-based layer with a matrix [hidden, features]."""

    def __init__(self, features: int, hidden_features: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.weight, self.bias = uniform_start((hidden_features or features, features), bias)


class LinearResidualConv2d(_WarmNorm):
    """x + gain * conv(x), zero-padded; keeps channels and image size: the block of LiResNet (Hu et al. 2023).

    x + gain * conv(x) is a single convolution whose norm is free. The network's
    constant is the product of the norms, estimated while training by warm power
    iterations for the GloRo loss (Leino et al. 2021,
    :class:`radii.training.objectives.cross_entropies.GloRo`) and proved when certifying.
    Cost: one convolution and one warm power iteration per step.

    ``gain`` is the paper's 1 / sqrt(number of blocks). Bounded: the constant is whatever
    the norm of I + gain W is.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: int,
        gain: float = 1.0,
        bias: bool = True,
        input_size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        check_odd(kernel_size)
        self.gain = gain
        self.weight = nn.Parameter(torch.empty(channels, channels, kernel_size, kernel_size))
        nn.init.normal_(self.weight, std=0.1 / (kernel_size * channels**0.5))
        self.bias = nn.Parameter(torch.zeros(channels)) if bias else None
        start = None if input_size is None else _deterministic_start((1, channels, *input_size), self.weight)
        self.register_buffer("direction", start)

    def kernel(self) -> Tensor:
        """The kernel of I + gain W."""
        identity = nn.init.dirac_(torch.empty_like(self.weight))
        return identity + self.gain * self.weight

    def _actions(self) -> tuple[Action, Action]:
        kernel, padding = self.kernel(), self.weight.shape[2] // 2
        return (
            lambda x: F.conv2d(x, kernel, padding=padding),
            lambda y: F.conv_transpose2d(y, kernel, padding=padding),
        )

    def lipschitz_estimate(self) -> Tensor:
        """The norm on the image size last trained on, from below, differentiable: for losses only."""
        assert self.direction is not None, "run a forward in train mode first"
        return self.norm(tuple(self.direction.shape[1:]))

    def forward(self, x: Tensor) -> Tensor:
        """[n, c, h, w] -> the same shape."""
        if self.training and (self.direction is None or self.direction.shape[1:] != x.shape[1:]):
            self.direction = _deterministic_start((1, *x.shape[1:]), self.weight)
        return F.conv2d(x, self.kernel(), self.bias, padding=self.weight.shape[2] // 2)

    def folded(self) -> nn.Conv2d:
        """The plain convolution with the same outputs."""
        out, _, size, _ = self.weight.shape
        plain = nn.utils.skip_init(nn.Conv2d, out, out, size, padding=size // 2, bias=self.bias is not None)
        with torch.no_grad():
            plain.to(self.weight)
            plain.weight.copy_(self.kernel())
            if self.bias is not None:
                plain.bias.copy_(self.bias)
        return plain.eval()
