"""Classifier: any network with its preprocessing inside, so that a radius means pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from radii.errors import InputError, reason
from radii.threat import Box

NORMALIZATIONS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {  # mean and std of pixels in [0, 1]
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "mnist": ((0.1307,), (0.3081,)),
}


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


def parse_normalization(mean: str | None, std: str | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and std per channel from the words of a user; empty where nothing is said.

    Args:
        mean: a name of :data:`NORMALIZATIONS`, one number, or numbers with commas. A name alone means its std, too.
        std: the same.

    Raises:
        InputError: neither a known name nor numbers, or a std that is not positive.

    >>> parse_normalization("0.5", "0.25")
    ((0.5,), (0.25,))
    """
    if mean is not None and std is None and mean in NORMALIZATIONS:
        return NORMALIZATIONS[mean]
    means = () if mean is None else _numbers(mean, "--mean", 0)
    stds = () if std is None else _numbers(std, "--std", 1)
    if any(value <= 0 for value in stds):
        raise InputError(f"--std must be positive in every channel, got {std} instead.")
    return means, stds


def _numbers(text: str, option: str, place: int) -> tuple[float, ...]:
    if text in NORMALIZATIONS:
        return NORMALIZATIONS[text][place]
    try:
        values = tuple(float(Fraction(part.strip())) if "/" in part else float(part) for part in text.split(","))
    except (ValueError, ZeroDivisionError):
        values = ()
    if not values or not all(isfinite(value) for value in values):
        names = ", ".join(NORMALIZATIONS)
        raise InputError(f"{option} must be one of {names}, or numbers as 0.485,0.456,0.406, got {text!r} instead.")
    return values


def _per_channel(values: float | Sequence[float]) -> Tensor:
    return torch.atleast_1d(torch.as_tensor(values, dtype=torch.float32))


def check_inputs(x: Tensor, box: Box | None = (0.0, 1.0)) -> None:
    """Refuse inputs that are not floating point pixels in ``box``, the most common silent mistake.

    Args:
        x: inputs [n, …].
        box: the range of allowed values; None allows every finite value.

    Raises:
        InputError: whole numbers, no rows, NaN, or values outside ``box``.
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
            f"Inputs must lie in [{box[0]:g}, {box[1]:g}], got [{low:.3g}, {high:.3g}]. "
            "Put normalization inside the model: radii.Classifier(net, mean=…, std=…)."
        )


def check_labels(y: Tensor, logits: Tensor) -> None:
    """Refuse labels that are not int64 class numbers of these logits.

    Args:
        y: labels [n].
        logits: what the model returned, [n, classes].

    Raises:
        InputError: other shapes, another type, or labels outside 0..classes-1.
    """
    if logits.dim() != 2 or len(logits) != len(y):
        raise InputError(f"The model must return logits [{len(y)}, classes], got shape {tuple(logits.shape)} instead.")
    if y.dtype != torch.int64:
        raise InputError(f"Labels must be int64 class numbers, got {y.dtype} instead.")
    if len(y) and not (int(y.min()) >= 0 and int(y.max()) < logits.shape[1]):
        raise InputError(
            f"Labels must lie in 0..{logits.shape[1] - 1}, the model's classes, got {int(y.min())}..{int(y.max())}."
        )


def ask(model: nn.Module, x: Tensor) -> Tensor:
    """The model's logits at ``x``: the one way in which certificates, attacks and evaluations call a model.

    The model gets a copy, because preprocessing such as ``x.sub_(mean)`` or a first
    ``Hardtanh(inplace=True)`` would otherwise change the caller's inputs. Gradients pass through the copy.

    Args:
        model: a network from inputs to logits, usually inside :func:`frozen`.
        x: inputs [n, …]; never changed.

    Returns:
        What the model returns, logits [n, classes].
    """
    answer: Tensor = model(x.clone())
    return answer


def first_answer(model: nn.Module, x: Tensor) -> Any:
    """What a user's model returns for a few inputs ``x`` [n, …] in eval mode.

    Raises:
        InputError: the model fails on them: another shape, type or device.
    """
    try:
        with torch.no_grad(), frozen(model):
            return ask(model, x)
    except (InputError, MemoryError):
        raise
    except Exception as error:
        kind = str(x.dtype).removeprefix("torch.")
        others = any(weight.is_floating_point() and weight.dtype != x.dtype for weight in model.parameters())
        hint = f" Its weights are not {kind}; radii works in float32: give model.float()." if others else ""
        sentence = f"The model fails on inputs of shape {tuple(x.shape)} ({kind}): {reason(error)}.{hint}"
        raise InputError(sentence) from error


@contextmanager
def frozen(model: nn.Module) -> Iterator[nn.Module]:
    """The model in eval mode, with parameters that need no gradients, in this context.

    Afterwards every submodule's mode and every parameter's ``requires_grad`` are
    as they were before, also after an exception.
    """
    modes = {module: module.training for module in model.modules()}
    wanted = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    model.eval()
    for parameter, _ in wanted:
        parameter.requires_grad_(False)
    try:
        yield model
    finally:
        for module, training in modes.items():
            module.training = training
        for parameter, needed in wanted:
            parameter.requires_grad_(needed)


@torch.no_grad()
def predict(model: nn.Module, x: Tensor, batch_size: int = 512) -> Tensor:
    """Predicted classes [n] of ``x`` [n, …] in eval mode.

    Args:
        model: a network that returns logits.
        x: inputs on the model's device.
        batch_size: inputs in one forward pass.

    Returns:
        The lowest class of the largest logit; -1 where a logit is NaN.
    """
    with frozen(model):
        return torch.cat([predicted_class(ask(model, chunk)) for chunk in x.split(batch_size)])


def predicted_class(logits: Tensor) -> Tensor:
    """argmax of ``logits``, and -1 where any logit is NaN: unknown is never a class."""
    largest, place = logits.max(1)  # NaN if any of them is
    return place.masked_fill_(largest.isnan(), -1)


def usable(device: str) -> torch.device:
    """The torch device called ``device``.

    Raises:
        InputError: this machine does not have the device.
    """
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"The device {device!r} cannot be used: {reason}. Try --device cpu.") from error
    return chosen
