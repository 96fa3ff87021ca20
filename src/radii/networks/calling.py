"""How a model is called: in eval mode, on a copy of the inputs, with one sentence if it fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import isqrt
from typing import Any

import torch
from torch import Tensor, nn

from radii.errors import InputError, reason

NODE_NAMES: ContextVar[Callable[[str], None] | None] = ContextVar("NODE_NAMES", default=None)
"""Hears the name of each node of a file before it runs, so that a refusal can name it."""


def ask(model: nn.Module, x: Tensor) -> Tensor:
    """The model's logits at ``x``: the one way in which certificates, attacks and evaluations call a model.

    The model gets a copy, because preprocessing such as ``x.sub_(mean)`` or a first
    ``Hardtanh(inplace=True)`` would otherwise change the caller's inputs. Gradients pass through the copy.

    Args:
        x: inputs [n, …]; never changed.

    Returns:
        What the model returns, logits [n, classes].
    """
    return answer(model, x.clone())


def answer(model: nn.Module, x: Tensor) -> Tensor:
    """What the model returns at ``x`` itself, which it may change; its failure becomes one sentence."""
    try:
        logits: Tensor = model(x)
        return logits
    except InputError:
        raise
    except Exception as error:
        if is_about_memory(error):
            raise
        kind = str(x.dtype).removeprefix("torch.")
        others = any(weight.is_floating_point() and weight.dtype != x.dtype for weight in model.parameters())
        hint = f" Its weights are not {kind}; radii works in float32: give model.float()." if others else ""
        if x.dim() == 4 and x.shape[-1] in (1, 3) and x.shape[1] not in (1, 3):
            hint += " Channels stand first, [n, c, h, w]; if they are last, give nhwc=True."
        hint += _other_images(str(error), x)
        sentence = f"The model fails on inputs of shape {tuple(x.shape)} ({kind}): {reason(error)}.{hint}"
        raise InputError(sentence) from error


def _other_images(said: str, x: Tensor) -> str:
    """The variant of a dataset that has the images for which a network was made, where its failure says so."""
    if x.dim() != 4:
        return ""
    shapes = re.search(r"shapes cannot be multiplied \(\d+x(\d+) and (\d+)x", said)
    if shapes and int(shapes[1]) == x[0].numel():
        side = isqrt(int(shapes[2]) // x.shape[1])
        if side and side * side * x.shape[1] == int(shapes[2]):
            return f" It was made for images of {side} x {side}: DATASET+resize:{side} scales them."
    if x.shape[1] == 3 and "to have 1 channels" in said:
        return " It was made for grey images: DATASET+gray."
    return ""


def is_about_memory(error: Exception) -> bool:
    """Whether ``error`` says that memory ran out."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error)


def probe(model: nn.Module, x: Tensor) -> Any:
    """What a user's model returns for a few inputs ``x`` [n, …] in eval mode."""
    with torch.no_grad(), frozen(model):
        return ask(model, x)


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


def predicted_class(logits: Tensor) -> Tensor:
    """argmax of ``logits``, and -1 where any logit is NaN: unknown is never a class."""
    largest, place = logits.max(1)  # NaN if any of them is
    return place.masked_fill_(largest.isnan(), -1)
