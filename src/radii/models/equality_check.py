"""Checks, on many small batches, that a network which was read out of a module computes what the module computes.

Reading (tracing, folding) can miss a branch on the batch size, a value that leaves torch, a state that
advances. The answers must agree to a share of the spread of the logits: an absolute tolerance is empty for
a network with small logits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from radii.errors import InputError
from radii.networks.calling import ask
from radii.networks.model_state import ModelState

SHARE = 1e-3  # of the spread of the logits
NARROW_SHARE = 5e-2  # in float16 and bfloat16
ROUNDINGS = 8  # of the largest logit, in the model's own type
SIZES = (1, 2, 3, 5, 33)

Interval = tuple[Tensor, Tensor]


def probes(shape: tuple[int, ...], like: Tensor) -> Iterator[Tensor]:
    """Small batches of inputs [n, *shape]: random in [0, 1], random corners, and constants."""
    generator = torch.Generator().manual_seed(0)
    for size in SIZES:
        yield torch.rand(size, *shape, generator=generator).to(like)
    yield torch.rand(2, *shape, generator=generator).round().to(like)
    yield torch.stack([torch.full(shape, value) for value in (0.0, 0.5, 1.0)]).to(like)


def check_agreement(model: nn.Module, read: Callable[[Tensor], Interval], shape: tuple[int, ...], like: Tensor) -> None:
    """Refuse a model that differs from the network read out of it, or from itself when asked again.

    Args:
        read: bounds of the read network's logits at single inputs [n, …]: two tensors [n, classes].
    """
    before = ModelState.of(model)
    for x in probes(shape, like):
        logits, again = ask(model, x), ask(model, x)
        if logits.shape != again.shape or not torch.equal(logits.nan_to_num(), again.nan_to_num()):
            raise InputError("The model gives two answers to the same input in eval mode: it is random or has a state.")
        check_same(logits, read(x))
    if change := before.difference(ModelState.of(model)):
        raise InputError(f"The model changes itself while it runs in eval mode: {change}.")


def check_same(logits: Tensor, read: Interval) -> None:
    """Refuse ``logits`` [n, classes] of the model that differ from those of the read network.

    Args:
        logits: the model's answers; rows with NaN are not compared, because nothing is proved for them.
        read: lower and upper bounds of the read network's logits at the same inputs.
    """
    found = f"it returns the shape {tuple(logits.shape)}, and what was read of it {tuple(read[0].shape)}"
    same = logits.shape == read[0].shape
    if same:
        logits, lower, upper = (part.flatten(1) for part in (logits, *read))
        known = ~(logits.isnan().any(1) | lower.isnan().any(1) | upper.isnan().any(1))
        wanted, middle = logits[known].double(), ((lower.double() + upper.double()) / 2)[known]
        both = wanted.isfinite() & middle.isfinite()
        rows = both.all(1)
        room = _room(logits, wanted[rows]) if bool(rows.any()) else 0.0
        far = torch.where(both, ~((wanted - middle).abs() <= room) & rows[:, None], wanted != middle)
        same = not bool(far.any())
        if not same:
            row, place = torch.nonzero(far)[0].tolist()
            found = (
                f"for input {int(torch.nonzero(known)[row])} of a batch of {len(logits)} it returns "
                f"{float(wanted[row, place]):.6g} at output {place}, and what was read of it "
                f"{float(middle[row, place]):.6g}"
            )
    if not same:
        raise InputError(
            f"The model does not do what its layers do one after the other: {found}. Its forward pass does different "
            "things to different inputs or batches, or float32 rounding decides its logits. It cannot be bounded."
        )


def _room(logits: Tensor, wanted: Tensor) -> Tensor:
    narrow = logits.dtype in (torch.float16, torch.bfloat16)
    # one logit has no spread: its own size stands for it, where terms of its sum may have cancelled
    spread = (wanted.amax(1) - wanted.amin(1)).max() if wanted.shape[1] > 1 else wanted.abs().max()
    rounding = ROUNDINGS * torch.finfo(logits.dtype).eps * wanted.abs().max()
    return (NARROW_SHARE if narrow else SHARE) * spread + rounding
