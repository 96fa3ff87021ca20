"""The kinds of changes of images, with what may be said of each."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Kind:
    """One kind of change.

    Attributes:
        meaning: the image at the strength t.
        signed: whether t may be negative.
        settings: what may stand behind the strength.
        most: the largest strength.
        form: ``line``: x + t D(x); ``curve``: smooth in t; ``attack``: nothing can be proved.
        parameters: how many numbers t has.
    """

    meaning: str
    signed: bool = True
    settings: tuple[str, ...] = ()
    most: float = inf
    form: str = "line"
    parameters: int = 1


KINDS: dict[str, Kind] = {
    "brightness": Kind("x + t"),
    "contrast": Kind("m + (1 + t)(x - m), m the mean of the grey image", most=1.0),
    "saturation": Kind("g + (1 + t)(x - g), g the grey image; color images only", most=1.0),
    "fade": Kind("x + t (1/2 - x): towards uniform grey", signed=False, most=1.0),
    "blur": Kind("x + t (Kx - x), K a Gaussian of `width` pixels (default 1)", signed=False, settings=("width",)),
    "sharpen": Kind("x - t (Kx - x), K as for blur", signed=False, settings=("width",)),
    "motion": Kind(
        "x + t (Kx - x), K the mean along `width` pixels (default 5) in the direction of `angle` degrees (default 0)",
        signed=False,
        settings=("width", "angle"),
    ),
    "bias": Kind(
        "x (1 + t b), b from -1 to 1 across the image in the direction of `angle` degrees (default 0)",
        settings=("angle",),
        most=1.0,
    ),
    "kernel": Kind("x + t (Kx - x), K the kernel in `file` (.npy)", signed=False, settings=("file",)),
    "direction": Kind("x + t d, d the array in `file` (.npy)", settings=("file",)),
    "gamma": Kind("x^exp(t)", most=5.0, form="curve"),
    "hue": Kind("colors turned by t degrees about the grey axis; color images only", most=180.0, form="curve"),
    "rotate": Kind("turned by t degrees", most=180.0, form="attack"),
    "translate": Kind("moved by t_1 and t_2 pixels", form="attack", parameters=2),
    "scale": Kind("enlarged by the factor 1 + t", most=0.9, form="attack"),
}
DEFAULTS = {"width": {"blur": 1.0, "sharpen": 1.0, "motion": 5.0}, "angle": {"motion": 0.0, "bias": 0.0}}
GRID, PIECES = "grid", "pieces"  # the attack on changes and their proof
