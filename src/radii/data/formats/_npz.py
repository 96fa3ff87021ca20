"""Arrays in an .npz file: x and y, or x_train, y_train, x_test, y_test. Pickled contents are refused."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.data.formats._reader import Side, Source, class_numbers
from radii.errors import InputError, reason

LAYOUTS = ("nchw", "nhwc")
REQUIRED = (("x_train", "y_train", "x_test", "y_test"), ("x", "y"))  # one of these; the first one wins
OPTIONAL = ("classes", "layout")


def read(path: Path) -> Source:
    """Read the file ``path``; its entries ``classes`` (words) and ``layout`` (nchw or nhwc) are optional."""
    arrays = _load(path)
    if "x_train" in arrays:
        pairs = {side: (arrays[f"x_{side}"], arrays[f"y_{side}"]) for side in ("train", "test")}
    else:
        pairs = {"all": (arrays["x"], arrays["y"])}
    names = tuple(str(name) for name in arrays["classes"].ravel()) if "classes" in arrays else None
    layout = str(arrays["layout"].item()).lower() if "layout" in arrays and arrays["layout"].size == 1 else None
    labels = [y.reshape(-1) if y.ndim == 2 and y.shape[1] == 1 else y for _, y in pairs.values()]
    for (side, (x, _)), y in zip(pairs.items(), labels, strict=True):
        if x.ndim == 0 or y.ndim != 1 or len(x) != len(y):
            raise InputError(
                f"{path} must have one label for every input, got x of {x.shape} and y of {y.shape} ({side})."
            )
    numbered, classes = class_numbers(labels, names, path)
    return Source(
        classes,
        {side: Side(y, inputs(x, path, layout)) for (side, (x, _)), y in zip(pairs.items(), numbered, strict=True)},
    )


def inputs(x: NDArray[Any], where: Path, layout: str | None = None) -> NDArray[np.generic]:
    """``x`` as [n, c, h, w] images or [n, d] float32 features.

    [n, h, w] is grey. Of [n, a, b, c], the axis of length 1 or 3 among a and c
    is the channels; where both are or neither is, ``layout`` must say it.
    ``where`` is the file in error messages.
    """
    if layout not in (None, *LAYOUTS):
        raise InputError(f"The layout in {where} must be nchw or nhwc, got {layout!r} instead.")
    if x.ndim == 2:
        return _numbers(x, where).astype(np.float32)
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and _channels_last(x.shape, where, layout):
        x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    elif x.ndim != 4:
        raise InputError(
            f"x in {where} must be [n, d], [n, h, w], [n, c, h, w] or [n, h, w, c], got {x.shape} instead."
        )
    return _pixels(x, where)


def _channels_last(shape: tuple[int, ...], where: Path, layout: str | None) -> bool:
    if layout is not None:
        return layout == "nhwc"
    first, last = shape[1] in (1, 3), shape[3] in (1, 3)
    if first == last:
        raise InputError(
            f"x in {where} of shape {shape} may be [n, c, h, w] or [n, h, w, c]: "
            "add an entry layout='nchw' or layout='nhwc' to the file."
        )
    return last


def _pixels(x: NDArray[Any], where: Path) -> NDArray[np.generic]:
    if x.dtype == np.uint8:
        return x
    if x.dtype == bool:
        return x.astype(np.uint8) * np.uint8(255)
    x = _numbers(x, where)
    if x.dtype.kind in "iu":
        if x.size and not (x.min() >= 0 and x.max() <= 255):
            raise InputError(f"Whole-number pixels in {where} must lie in 0..255, got {x.min()}..{x.max()} instead.")
        return x.astype(np.uint8)
    return x.astype(np.float32)


def _numbers(x: NDArray[Any], where: Path) -> NDArray[Any]:
    if x.dtype.kind not in "iuf":
        raise InputError(f"x in {where} must be numbers, got {x.dtype} instead.")
    return x


def _load(path: Path) -> dict[str, NDArray[Any]]:
    """The entries that :func:`read` uses; all others stay on disk."""
    try:
        with np.load(path, allow_pickle=False) as file:
            required = next((names for names in REQUIRED if set(names) <= set(file.files)), None)
            if required is None:
                got = ", ".join(sorted(file.files)) or "nothing"
                raise InputError(
                    f"{path} must hold x and y, or x_train, y_train, x_test and y_test, got {got} instead."
                )
            return {name: file[name] for name in (*required, *OPTIONAL) if name in file.files}
    except InputError:
        raise
    except ValueError as error:
        if "pickle" in str(error).lower():
            raise InputError(
                f"{path} holds pickled Python objects, which are never opened: save plain numeric arrays instead."
            ) from error
        raise InputError(f"{path} is not a whole .npz file: {reason(error)}.") from error
    except (OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not a whole .npz file: {reason(error)}.") from error
