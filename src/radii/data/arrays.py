"""Inputs and labels as users have them (numpy arrays, lists, data frames, tensors) become tensors."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from radii.errors import InputError, reason

if TYPE_CHECKING:
    from torch import Tensor


def as_inputs(x: Any, *, nhwc: bool = False, single: bool = False, exact: bool = False) -> Tensor:
    """Inputs [n, …] as a tensor; images have their channels first.

    uint8 images are divided by 255. Numbers of numpy and Python become float32; a
    floating point tensor keeps its type. Whole-number features become float32.

    Args:
        single: ``x`` is one input without a batch dimension.
        exact: keep numbers of numpy and Python as they are, in float64.
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
        return tensor.double() if exact else tensor.float()
    return tensor


def as_labels(y: Any, names: Sequence[Any] | None = None) -> Tensor:
    """Labels as int64 class numbers [n].

    Args:
        y: class numbers of any whole-number type, whole floats, true and false, one-hot rows [n, classes] or a
            column [n, 1]; one number for a single input. Words, too, which are numbered as in ``names``.
        names: of the classes, in the model's order; without them words are numbered in alphabetical order.
    """
    import torch

    if not isinstance(y, torch.Tensor) and (_are_words(y) or _are_named(y, names)):
        return torch.tensor(_numbered(np.asarray(y).reshape(-1).tolist(), names))
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


def class_count(y: Any) -> int:
    """How many classes the labels ``y`` name at least: so many words, or the largest number and 0."""
    return len(set(np.asarray(y).reshape(-1).tolist())) if _are_words(y) else int(as_labels(y).max()) + 1


def words_of(y: Any) -> tuple[str, ...]:
    """The different words among labels in the order in which :func:`as_labels` numbers them; () for numbers."""
    import torch

    return (
        tuple(sorted(set(np.asarray(y).reshape(-1).tolist())))
        if not isinstance(y, torch.Tensor) and _are_words(y)
        else ()
    )


def _are_words(y: Any) -> bool:
    array = np.asarray(y, dtype=object).reshape(-1)
    return len(array) > 0 and all(isinstance(value, str) for value in array)


def _are_named(y: Any, names: Sequence[Any] | None) -> bool:
    """Whether classes have numbers of their own, as 1 and 2 or -1 and 1."""
    own = names is not None and not isinstance(names[0], str) and list(names) != list(range(len(names)))
    return own and np.ndim(y) == 1


def _numbered(words: list[Any], names: Sequence[Any] | None) -> list[int]:
    if names is None:
        names = sorted(set(words))
        shown = ", ".join(f"{name} is {number}" for number, name in enumerate(names[:4]))
        more = ", …" if len(names) > 4 else ""
        logging.getLogger("radii").warning("The labels are words, numbered in alphabetical order: %s%s.", shown, more)
    place = {name: number for number, name in enumerate(names)}
    unknown = [word for word in dict.fromkeys(words) if word not in place]
    if unknown:
        known = ", ".join(map(str, list(names)[:8]))
        raise InputError(f"The label {unknown[0]!r} is no class of the model; its classes are {known}.")
    return [place[word] for word in words]


def is_single(y: Any) -> bool:
    """Whether ``y`` is the label of one input: a number without a dimension."""
    return np.ndim(y) == 0 and not isinstance(y, str)


def _remedy(values: Any) -> str:
    """What to give in place of an array of objects."""
    if values.ndim == 2:
        first = next((each for each in values.reshape(-1).tolist() if isinstance(each, str)), "")
        words = f" with words, such as {first!r}" if first else " of objects"
        return f"{words}: give a pandas.DataFrame with the columns that the model was fitted to."
    return ": x, y = data.test.tensors()."


def _tensor_of(values: Any, what: str = "Inputs") -> Tensor:
    import torch

    if isinstance(values, list | tuple) and values and all(isinstance(row, torch.Tensor) for row in values):
        try:
            return torch.stack(list(values))
        except RuntimeError as error:
            raise InputError(f"{what} must all have one shape: {reason(error)}.") from error
    if isinstance(values, list | tuple) and values and hasattr(values[0], "convert"):
        from radii.data.examples import pixels

        return torch.from_numpy(pixels(values))
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{what} must all have one shape: {reason(error)}.") from error
    if array.dtype == object:
        raise InputError(f"{what} must be arrays of numbers, got {type(values).__name__}{_remedy(array)}")
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} must be numbers, got {array.dtype} instead.")
    if array.dtype.kind == "u" and array.dtype != np.uint8:
        array = array.astype(np.int64)
    return torch.from_numpy(np.array(array))  # a copy: arrays may be read-only or have negative strides
