"""Forward passes without gradients, in a frozen graph where the model allows one."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.jit._trace import TracerWarning

AGREEMENT = 1e-4  # of the largest logit; a frozen graph rounds otherwise than the model


@torch.no_grad()
def forward_only(model: nn.Module, example: Tensor) -> Callable[[Tensor], Tensor]:
    """The model for passes without gradients; call inside :func:`radii.models.classifier.frozen`.

    On the CPU a traced and frozen graph spares a convolutional network a part of
    every pass (0.7 of the time on a LeNet). It is used only if tracing raised no
    warning (no branch on the data) and if it agrees with the model on two batch
    sizes; the choice involves no clock, so results repeat. What an attack finds
    with it is confirmed by the model itself.
    """
    if example.device.type != "cpu" or not any(isinstance(part, nn.Conv2d) for part in model.modules()):
        return model
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", TracerWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            graph = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, example[:2])))
    except Exception:  # whatever a foreign model does under tracing, it can still be asked directly
        return model
    return graph if all(_agrees(model, graph, example[:size]) for size in (1, 3, len(example))) else model


def _agrees(model: nn.Module, graph: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    wanted = model(x)
    try:
        came = graph(x)
    except RuntimeError:
        return False
    scale = float(wanted.abs().amax().clamp_min(1e-12))
    return came.shape == wanted.shape and bool(((came - wanted).abs() <= AGREEMENT * scale).all())
