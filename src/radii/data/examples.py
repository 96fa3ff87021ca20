"""Labelled inputs as users hold them: pictures of PIL, data loaders, datasets of torch and of Hugging Face, frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.data._feature_rules import FeatureRules
from radii.data.arrays import as_labels, words_of
from radii.data.columns import Columns
from radii.data.dataset import Data, Dataset
from radii.errors import InputError, brief, unknown_name

LABELS = ("label", "labels", "target", "class", "fine_label", "y")
FORMS = "a radii.Dataset, the name of a dataset, a DataLoader, a dataset of torch or of Hugging Face"


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


def holds_labels(x: Any) -> bool:
    """Whether ``x`` has inputs and labels together."""
    frame = _is_frame(x) or isinstance(x, Data | Dataset | str) or hasattr(x, "column_names")
    plain = isinstance(x, Sequence | np.ndarray) or hasattr(x, "detach") or _is_picture(x)
    return frame or (not plain and (_is_loader(x) or (hasattr(x, "__getitem__") and hasattr(x, "__len__"))))


def _is_loader(x: Any) -> bool:
    return hasattr(x, "dataset") and hasattr(x, "batch_size")


def dataset_of(x: Any) -> Data | None:
    """The dataset that ``x`` is or names, one split for both if it is one; None where it is none."""
    if isinstance(x, str):
        from radii.data.sources import load

        return load(x)
    if isinstance(x, Dataset):
        return Data(x, x, x.name)
    return x if isinstance(x, Data) else None


def separated(x: Any, y: Any) -> tuple[Any, Any, tuple[str, ...]]:
    """Inputs and labels of something that holds both, and the names of its classes; empty where it knows none.

    Args:
        x: see :func:`holds_labels`; of data with two splits the test split is taken.
        y: the name of the column with the labels; None where that is known.
    """
    if not holds_labels(x):
        raise InputError(f"y must be the labels of the inputs, got {brief(y)}; without it x must be {FORMS}.")
    if (data := dataset_of(x)) is not None:
        return *data.test.tensors(), data.classes
    if _is_frame(x):
        name = _label_of([str(column) for column in x.columns], y)
        return x.drop(columns=[name]), x[name].to_numpy(), ()
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
    return (_joined(inputs), _joined(labels), ()) if _is_loader(x) else (inputs, labels, ())


def gathered(x: NDArray[np.generic], y: NDArray[np.int64], fixed: tuple[int, ...] = ()) -> Dataset:
    """Inputs [n, …] and labels [n] as a dataset whose features ``fixed`` may not change."""
    names = tuple(map(str, range(int(y.max(initial=0)) + 1)))
    return Dataset(x, y, names, rules=FeatureRules(immutable=fixed) if fixed else None)


def of_frame(frame: Any, y: Any) -> Dataset:
    """The rows of a data frame as features: numbers as they are, words as groups of 0 and 1 that no change touches.

    Args:
        y: the name of the column with the labels, or the labels.
    """
    if y is None or isinstance(y, str):
        frame, y, _ = separated(frame, y)
    columns, words = Columns.of_frame(frame), words_of(y)
    points = gathered(columns.features(frame), as_labels(y, words or None).numpy(), columns.fixed)
    return replace(points, classes=words) if words else points


def _joined(parts: list[Any]) -> Any:
    if hasattr(parts[0], "detach"):
        import torch

        return torch.cat([part.detach() for part in parts])
    return np.concatenate([np.asarray(part) for part in parts])


def _of_hub(x: Any, y: str | None) -> tuple[Any, Any, tuple[str, ...]]:
    """Pictures or numbers, labels, and the names of the classes where the dataset knows them."""
    if isinstance(x, Mapping):
        raise InputError(f"The data have {len(x)} splits: give one of them, data[{next(iter(x), 'test')!r}].")
    label = _label_of(list(x.column_names), y)
    first = x[0]
    inputs = next((name for name in x.column_names if name != label and _is_picture(first[name])), None)
    inputs = inputs or next((name for name in x.column_names if name != label), None)
    if inputs is None:
        raise InputError(f"The dataset has no column beside the label {label!r}.")
    names = getattr(getattr(x, "features", {}).get(label), "names", None)
    return list(islice(x[inputs], None)), list(islice(x[label], None)), tuple(names or ())


def _label_of(columns: list[str], wanted: str | None) -> str:
    if wanted is not None and wanted in columns:
        return wanted
    known = next((name for name in columns if wanted is None and name in LABELS), None)
    if known is None and wanted is not None:
        raise unknown_name("column of labels", wanted, columns)
    if known is None:
        raise InputError(f"Which column has the labels? Give its name as y, one of {', '.join(columns)}.")
    return known
