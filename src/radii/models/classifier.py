"""Classifier: any network with its preprocessing inside, so that a radius means pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn

from radii.errors import InputError, reason
from radii.networks.calling import ask, frozen, is_about_memory, predicted_class
from radii.threat import Box


class Classifier(nn.Module):
    """A network from pixels in [0, 1] to logits: ``net((x - mean) / std)``.

    The preprocessing is part of the model, so a radius always means pixels.
    ``mean`` and ``std`` are buffers: they are saved with the weights and follow
    the device.

    Args:
        net: the network behind the preprocessing.
        mean: subtracted from the pixels, one number or one per channel.
        std: the pixels are divided by it, one number or one per channel; positive.

    Raises:
        InputError: a ``std`` that is not positive.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, net: nn.Module, mean: float | Sequence[float] = 0.0, std: float | Sequence[float] = 1.0) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("mean", _per_channel(mean))
        self.register_buffer("std", _per_channel(std))
        if not bool((self.std > 0).all()):
            raise InputError(f"std must be positive in every channel, got {std} instead.")

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of pixels [n, c, h, w]."""
        shape = (-1, *[1] * (x.dim() - 2))
        return self.net((x - self.mean.view(shape)) / self.std.view(shape))


def _per_channel(values: float | Sequence[float]) -> Tensor:
    return torch.atleast_1d(torch.as_tensor(values, dtype=torch.float32))


GREY = 16  # inputs that reach it are grey levels, not normalized pixels


def check_inputs(x: Tensor, box: Box | None = (0.0, 1.0)) -> None:
    """Refuse inputs that are not floating point pixels in ``box``, the most common silent mistake.

    Args:
        x: inputs [n, …].
        box: the range of allowed values; None allows every finite value.
    """
    if not x.is_floating_point():
        raise InputError(f"Inputs must be floating point pixels in [0, 1], got {x.dtype}; divide uint8 images by 255.")
    if x.numel() == 0:
        raise InputError("Inputs must have at least one row, got none.")
    low, high = (float(value) for value in torch.aminmax(x.detach()))
    if low != low or high != high:
        raise InputError("Inputs must be finite numbers, got NaN.")
    if box is not None and (low < box[0] or high > box[1]):
        raise InputError(
            f"Inputs must lie in [{box[0]:g}, {box[1]:g}], got [{low:.3g}, {high:.3g}]. {_way_into_box(x, low, high)}"
        )


def _way_into_box(x: Tensor, low: float, high: float) -> str:
    """What to do with inputs from ``low`` to ``high`` that leave the box."""
    if x.dim() == 2:
        return (
            "Write the threat of a table as linf:0.1sd, a tenth of each column's standard deviation, or as "
            "linf:0.1,nobox, 0.1 in the units of every column."
        )
    if low >= 0 and GREY <= high <= 255:
        return (
            "They look like grey levels 0..255: give x / 255. Put the factor into a model that expects such levels: "
            "radii.Classifier(net, std=1 / 255), or lambda x: model(255 * x)."
        )
    return "Put normalization inside the model: radii.Classifier(net, mean=…, std=…)."


def check_labels(y: Tensor, logits: Tensor) -> None:
    """Refuse labels that are not int64 class numbers of these logits.

    Args:
        y: labels [n].
        logits: what the model returned, [n, classes].
    """
    if logits.dim() != 2 or len(logits) != len(y):
        raise InputError(f"The model must return logits [{len(y)}, classes], got shape {tuple(logits.shape)} instead.")
    if y.dtype != torch.int64:
        raise InputError(f"Labels must be int64 class numbers, got {y.dtype} instead.")
    if len(y) and not (int(y.min()) >= 0 and int(y.max()) < logits.shape[1]):
        raise InputError(
            f"Labels must lie in 0..{logits.shape[1] - 1}, the model's classes, got {int(y.min())}..{int(y.max())}."
        )


def input_gradient(objective: Tensor, x: Tensor) -> Tensor:
    """The gradient of ``objective``, computed from a model's answers at ``x``, by ``x``."""
    advice = (
        "Attack it without gradients: suite 'black-box', the attack 'square', or 'exact' for linear models and trees."
    )
    try:
        gradient = torch.autograd.grad(objective, x, allow_unused=True)[0] if objective.requires_grad else None
    except RuntimeError as error:
        if is_about_memory(error):
            raise
        raise InputError(f"The model's gradient cannot be computed: {reason(error)}. {advice}") from error
    if gradient is None:
        raise InputError(f"The model gives no gradient of its logits with respect to its input. {advice}")
    return gradient


@torch.no_grad()
def predict(model: nn.Module, x: Tensor, batch_size: int = 512) -> Tensor:
    """Predicted classes [n] of ``x`` [n, …] in eval mode.

    Returns:
        The lowest class of the largest logit; -1 where a logit is NaN.
    """
    with frozen(model):
        return torch.cat([predicted_class(ask(model, chunk)) for chunk in x.split(batch_size)])


def torch_device(device: str) -> torch.device:
    """The torch device called ``device``."""
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"The device {device!r} cannot be used: {reason}. Try --device cpu.") from error
    return chosen


def _reorderable(model: nn.Module) -> list[nn.Conv2d]:
    """The plain convolutions of ``model``, whose weights may change their order; other layers compute their weights.

    None in networks with strided 1x1 convolutions: the CPU kernel of torch 2.13
    writes out of bounds there (4 channels, stride 2).
    """
    plain = [module for module in model.modules() if type(module) is nn.Conv2d]
    return [] if any(max(module.kernel_size) == 1 and max(module.stride) > 1 for module in plain) else plain


def channels_last(model: nn.Module, trained: bool = False) -> Callable[[], AbstractContextManager[None]]:
    """A context in which the weights of the model's plain convolutions are stored channels last.

    On one thread a forward pass of a LeNet costs 0.5 of the plain order and a pass with a gradient 0.7; a
    wide ResNet costs the same. The rule depends on the model and on nothing else, so results repeat.
    Parameters keep their identity; only their memory is exchanged, so entering costs microseconds.
    ``Tensor.to`` also changes the strides of weights of one input channel, which ``contiguous`` does not.

    Args:
        model: any network; layers that compute their weights are left alone.
        trained: the weights change in the context, on any device; at its end the new values are copied to the
            old order. Default: the weights are constant, and only those on the CPU are reordered.
    """
    weights = [
        (part.weight, part.weight.data, part.weight.data.to(memory_format=torch.channels_last))
        for part in _reorderable(model)
        if trained or part.weight.device.type == "cpu"
    ]

    @contextmanager
    def layout() -> Iterator[None]:
        for weight, _, reordered in weights:
            weight.data = reordered
        try:
            yield
        finally:
            for weight, own, _ in weights:
                weight.data = own.copy_(weight.data) if trained else own

    return layout
