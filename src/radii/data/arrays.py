"""Inputs and labels as users have them (numpy arrays, lists, data frames, tensors) become tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from radii.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


def as_inputs(x: Any, *, nhwc: bool = False, single: bool = False) -> Tensor:
    """Inputs [n, …] as a tensor; images have their channels first.

    uint8 images are divided by 255. Numbers of numpy and Python become float32; a
    floating point tensor keeps its type. Whole-number features become float32.

    Args:
        x: a tensor, an array, a list, or anything that numpy reads.
        nhwc: ``x`` has its channels last.
        single: ``x`` is one input without a batch dimension.

    Raises:
        InputError: ``x`` is not a rectangular array of numbers, or ``nhwc`` is said of something else than images.
    """
    import torch

    tensor = x if isinstance(x, torch.Tensor) else _tensor_of(x)
    if tensor.requires_grad:  # the user's computation is not continued
        tensor = tensor.detach()
    if single:
        tensor = tensor[None]
    if tensor.dim() < 1:
        raise InputError(f"Inputs must be rows [n, …], got the number {tensor.item():g} instead.")
    if nhwc:
        if tensor.dim() != 4:
            raise InputError(f"nhwc means images [n, h, w, c], got shape {tuple(tensor.shape)} instead.")
        tensor = tensor.movedim(-1, 1).contiguous()
    if tensor.dtype == torch.uint8:
        return tensor.float() / 255
    if not isinstance(x, torch.Tensor) and (tensor.is_floating_point() or tensor.dim() == 2):
        return tensor.float()
    return tensor


def as_labels(y: Any) -> Tensor:
    """Labels as int64 class numbers [n].

    Args:
        y: class numbers of any whole-number type, whole floats, true and false, one-hot rows [n, classes] or a
            column [n, 1]; one number for a single input.

    Raises:
        InputError: words, fractions, or rows that are not one-hot.
    """
    import torch

    tensor = y.detach() if isinstance(y, torch.Tensor) else _tensor_of(y, "Labels")
    tensor = tensor.reshape(1) if tensor.dim() == 0 else tensor
    if tensor.dim() == 2 and tensor.shape[1] == 1:
        tensor = tensor[:, 0]
    if tensor.dim() == 2:
        if not bool(((tensor == 0) | (tensor == 1)).all() and (tensor.sum(1) == 1).all()):
            raise InputError("Labels [n, classes] must be one-hot rows: one 1 and otherwise 0 in each.")
        return tensor.argmax(1)
    if tensor.is_floating_point() and not torch.equal(tensor, tensor.round()):
        raise InputError("Labels must be whole class numbers 0, 1, 2, …, got fractions.")
    return tensor.long()


def is_single(y: Any) -> bool:
    """Whether ``y`` is the label of one input: a number without a dimension."""
    return np.ndim(y) == 0


def _tensor_of(values: Any, what: str = "Inputs") -> Tensor:
    import torch

    if isinstance(values, list | tuple) and values and all(isinstance(row, torch.Tensor) for row in values):
        try:
            return torch.stack(list(values))
        except RuntimeError as error:
            raise InputError(f"{what} must all have one shape: {error}.") from error
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{what} must all have one shape: {error}.") from error
    if array.dtype == object:
        raise InputError(f"{what} must be arrays of numbers, got {type(values).__name__}: x, y = data.test.tensors().")
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} must be numbers, got {array.dtype} instead.")
    if array.dtype.kind == "u" and array.dtype != np.uint8:
        array = array.astype(np.int64)
    return torch.from_numpy(np.array(array))  # a copy: arrays may be read-only or have negative strides
