"""What constrained layers share: weights computed once while parameters stay the same, second derivatives, checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from radii.errors import InputError

Plain = TypeVar("Plain", nn.Conv2d, nn.Linear)


@contextmanager
def full_precision() -> Iterator[None]:
    """Switch autocast off in this context: a constraint must hold to all digits."""
    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


def is_followed() -> bool:
    """Whether operations are read one by one, for an export, a compiler or bounds: nothing may be overwritten then."""
    return torch.compiler.is_exporting() or torch.compiler.is_compiling() or is_recorded()


def is_recorded() -> bool:
    """Whether operations are recorded for bounds, and neither exported nor compiled."""
    otherwise = torch.compiler.is_exporting() or torch.compiler.is_compiling()
    return not otherwise and is_in_torch_dispatch_mode(include_infra_modes=False)


class Remembering(nn.Module):
    """Base of layers that compute a tensor from their parameters and buffers.

    Where no gradient to the weights is needed, the result is stored with a copy of
    all parameters and buffers. It is used again only while each of them equals its
    copy, value for value. Therefore it can never be outdated: ``load_state_dict``,
    a write through ``.data``, ``deepcopy``, ``.double()`` and moving averages all
    lead to a new computation, and a second backward finds its own graph.
    """

    _kept: tuple[tuple[int, ...], list[Tensor], Tensor] | None = None

    def remembered(self, compute: Callable[[], Tensor], key: tuple[int, ...] = ()) -> Tensor:
        """``compute()``, or its last result for the same ``key`` if nothing has changed since."""
        sources = [*self.parameters(), *self.buffers()]
        differentiated = torch.is_grad_enabled() and any(source.requires_grad for source in sources)
        tracing = torch.compiler.is_exporting() or torch.compiler.is_compiling()
        if differentiated or tracing or not sources:  # a replica of DataParallel lists no parameters
            with full_precision():
                return compute()
        kept = self._kept  # read once: another thread may replace it
        if kept is None or kept[0] != key or not _same(sources, kept[1]):
            # An inference tensor could not be used in a backward.
            with torch.inference_mode(False), torch.no_grad(), full_precision():
                result = compute()
                kept = (key, [source.detach().clone() for source in (*self.parameters(), *self.buffers())], result)
            self._kept = kept
        return kept[2]

    def extra_repr(self) -> str:
        """What nn.Module prints: the plain layer's arguments, or the shapes of the parameters."""
        shapes = (f"{name}={tuple(value.shape)}" for name, value in self.named_parameters(recurse=False))
        return super().extra_repr() or ", ".join(shapes)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles leave out the stored result."""
        return {**self.__dict__, "_kept": None}


class EffectiveWeight(Remembering):
    """Base of layers that apply ``compute_effective_weight()`` instead of the parameter ``weight``."""

    def compute_effective_weight(self) -> Tensor:
        """The weight that is really applied, differentiable in the parameters."""
        raise NotImplementedError

    def effective_weight(self) -> Tensor:
        """The weight that is really applied; recomputed unless nothing has changed."""
        return self.remembered(self.compute_effective_weight)

    def filled(self, plain: Plain, bias: Tensor | None) -> Plain:
        """``plain`` with the effective weight of this layer and ``bias``, in its dtype and place."""
        with torch.no_grad():
            weight = self.effective_weight()
            plain.to(weight)
            plain.weight.copy_(weight)
            if bias is not None and plain.bias is not None:
                plain.bias.copy_(bias)
        return plain.eval()


def differentiable_gradients(
    function: Callable[..., Tensor], inputs: Sequence[Tensor | None], gradient: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of ``function(*inputs)``, which can be differentiated again.

    A hand-written backward returns them when torch will differentiate it, that is
    when gradients are enabled inside the backward (``create_graph=True``).

    Args:
        inputs: its arguments; None stands for a missing bias.

    Returns:
        One gradient per input; None for inputs that need none.
    """
    needed = [value is not None and value.requires_grad for value in inputs]
    with torch.enable_grad():
        wanted = [value for value, need in zip(inputs, needed, strict=True) if need and value is not None]
        gradients = iter(torch.autograd.grad(function(*inputs), wanted, gradient, create_graph=True))
    return tuple(next(gradients) if need else None for need in needed)


def _same(now: list[Tensor], then: list[Tensor]) -> bool:
    return all(
        a.dtype == b.dtype and a.device == b.device and torch.equal(a, b) for a, b in zip(now, then, strict=True)
    )


def check_odd(kernel_size: int) -> None:
    """Refuse an even ``kernel_size``: without a center pixel, the transpose would shift the image."""
    if not isinstance(kernel_size, int) or kernel_size < 1 or kernel_size % 2 == 0:
        raise InputError(f"kernel_size must be an odd number in a residual layer, got {kernel_size} instead.")


def check_input(layer: nn.Module, x: Tensor, weight: Tensor) -> None:
    """Refuse inputs ``x`` of ``layer`` that ``weight`` cannot be applied to."""
    if x.dim() != weight.dim() or x.shape[1] != weight.shape[1]:
        wanted = f"[n, {weight.shape[1]}{', h, w' if weight.dim() == 4 else ''}]"
        raise InputError(f"{type(layer).__name__} takes {wanted}, got {tuple(x.shape)} instead.")


def uniform_start(shape: tuple[int, ...], bias: bool) -> tuple[nn.Parameter, nn.Parameter | None]:
    """A weight of ``shape`` by torch's initialization (Kaiming uniform, a = sqrt 5), and zeros if ``bias``."""
    weight = nn.Parameter(torch.empty(shape))
    nn.init.kaiming_uniform_(weight, a=5**0.5)
    return weight, nn.Parameter(torch.zeros(shape[0])) if bias else None
