"""Products of a training in bfloat16, where the processor computes them: about half of the time of float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from radii.training.schedule import Precision


@contextmanager
def computed_in(precision: Precision, model: nn.Module) -> Iterator[None]:
    """In this context the products of ``model`` are computed in ``precision``, on a device that has such products.

    Weights, batch norms, logits, losses and the optimizer stay float32: the trained network is an ordinary float32
    network. A processor without bfloat16 products would have to imitate them, more slowly than in float32, so it
    computes in float32.
    """
    device = next(model.parameters()).device
    if precision == "float32" or not has_bfloat16(device):
        yield
        return
    own = vars(model).get("forward")
    model.forward = partial(_forward, model.forward, device.type)  # type: ignore[method-assign]
    try:
        yield
    finally:
        del model.forward
        if own is not None:
            model.forward = own


def has_bfloat16(device: torch.device) -> bool:
    """Whether ``device`` has instructions for products in bfloat16."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    known = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return device.type == "cpu" and any(getattr(torch.cpu, name, bool)() for name in known)


def _forward(plain: Callable[[Tensor], Tensor], device: str, x: Tensor) -> Tensor:
    # an autocast around this one, as steps of the store have it, would keep weights of earlier steps in its cache
    with torch.autocast(device, dtype=torch.bfloat16, cache_enabled=False):
        return plain(x).float()
