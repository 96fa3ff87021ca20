"""Labelled inputs as users hold them: pictures of PIL, data loaders, datasets of torch and of Hugging Face, frames."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.data.dataset import Dataset
from radii.errors import InputError, brief

LABELS = ("label", "labels", "target", "class", "fine_label", "y")
FORMS = "a radii.Dataset, a DataLoader, a dataset of torch or of Hugging Face"


def _is_picture(value: Any) -> bool:
    """Whether ``value`` is an image of PIL."""
    return hasattr(value, "convert") and hasattr(value, "mode") and hasattr(value, "size")


def pixels(pictures: Sequence[Any]) -> NDArray[np.uint8]:
    """Images of PIL as [n, c, h, w]: one channel if all of them are grey, else three."""
    sizes = {picture.size for picture in pictures}
    if len(sizes) > 1:
        (width, height), *_ = sorted(sizes)
        raise InputError(
            f"All pictures must have one size, got {len(sizes)} sizes from {min(sizes)} to {max(sizes)}: "
            f"[picture.resize(({width}, {height})) for picture in pictures]."
        )
    mode = "L" if all(picture.mode in ("L", "1") for picture in pictures) else "RGB"
    arrays = np.stack([np.asarray(picture.convert(mode)) for picture in pictures])
    return np.ascontiguousarray(np.moveaxis(arrays.reshape(*arrays.shape[:3], -1), -1, 1))


def _is_frame(value: Any) -> bool:
    """Whether ``value`` is a data frame of pandas."""
    return hasattr(value, "columns") and hasattr(value, "iloc")


def _holds_labels(x: Any) -> bool:
    """Whether ``x`` has inputs and labels together."""
    frame = _is_frame(x) or isinstance(x, Dataset) or hasattr(x, "column_names")
    plain = isinstance(x, Sequence | np.ndarray) or hasattr(x, "detach") or _is_picture(x)
    return frame or (not plain and (_is_loader(x) or (hasattr(x, "__getitem__") and hasattr(x, "__len__"))))


def _is_loader(x: Any) -> bool:
    return hasattr(x, "dataset") and hasattr(x, "batch_size")


def separated(x: Any, y: Any) -> tuple[Any, Any]:
    """Inputs and labels of something that holds both, or the labels of the column ``y`` of it.

    Args:
        y: the name of the column with the labels; None where that is known.
    """
    if not _holds_labels(x):
        raise InputError(f"y must be the labels of the inputs, got {brief(y)}; without it x must be {FORMS}.")
    if isinstance(x, Dataset):
        return x.tensors()
    if _is_frame(x):
        name = _label_of([str(column) for column in x.columns], y)
        return x.drop(columns=[name]), x[name].to_numpy()
    if hasattr(x, "column_names"):
        return _of_hub(x, y)
    if y is not None:
        raise InputError(f"y must be the labels or None for {type(x).__name__}, got {brief(y)} instead.")
    pairs = list(x) if _is_loader(x) else [x[k] for k in range(len(x))]
    if not pairs or not isinstance(pairs[0], tuple | list) or len(pairs[0]) < 2:
        raise InputError(
            f"{type(x).__name__} must give pairs of input and label, got {brief(next(iter(pairs), None))}."
        )
    inputs, labels = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return (_joined(inputs), _joined(labels)) if _is_loader(x) else (inputs, labels)


def _joined(parts: list[Any]) -> Any:
    if hasattr(parts[0], "detach"):
        import torch

        return torch.cat([part.detach() for part in parts])
    return np.concatenate([np.asarray(part) for part in parts])


def _of_hub(x: Any, y: str | None) -> tuple[Any, Any]:
    """Pictures or numbers, and labels by their names where the dataset knows them."""
    label = _label_of(list(x.column_names), y)
    first = x[0]
    inputs = next((name for name in x.column_names if name != label and _is_picture(first[name])), None)
    inputs = inputs or next((name for name in x.column_names if name != label), None)
    if inputs is None:
        raise InputError(f"The dataset has no column beside the label {label!r}.")
    labels = list(islice(x[label], None))
    names = getattr(getattr(x, "features", {}).get(label), "names", None)
    return list(islice(x[inputs], None)), [names[k] for k in labels] if names else labels


def _label_of(columns: list[str], wanted: str | None) -> str:
    if wanted is not None and wanted in columns:
        return wanted
    known = next((name for name in columns if wanted is None and name in LABELS), None)
    if known is None:
        got = "" if wanted is None else f", got {wanted!r}"
        raise InputError(f"Which column has the labels? Give its name as y, one of {', '.join(columns)}{got}.")
    return known
