"""The grammar NAME+VARIANT:ARGUMENT+… of datasets with variants: parsed, applied and hashed.

``cifar10+pca:1-16,513-3072+saturate:8`` is the dataset ``cifar10`` and two
variants, applied from left to right. The digest of a variant is computed from
the digest of its input and its canonical text, so that a spec can refer to it
without computing it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from radii.data import _image_size as image_size
from radii.data import cache
from radii.data._image_size import parse_size
from radii.data.dataset import Data
from radii.data.formats._reader import Reading
from radii.errors import InputError, unknown_name
from radii.registry import Registry

if TYPE_CHECKING:
    from radii.data.variants import Pixels

MAPS, SIZES = "radii.data.variants", "radii.data._image_size"
REVISION = 1  # raise it when the meaning of a variant changes: all digests and runs change with it
CACHED_FROM_IMAGES = 2000  # a slow variant of at least so many images is stored in the cache
GRAMMAR = "Write NAME+VARIANT:ARGUMENT, for example mnist+smooth:3 or cifar10+pca:1-16,513-3072+saturate:8."


@dataclass(frozen=True)
class Kind:
    """One kind of variant.

    Args:
        read: reads its argument; None if it takes none.
        pixels: the module whose function of this name maps the pixels; it is imported when it is
            used. None for ``pca`` and for those of ``POINTS``, which need the whole dataset.
        allows: whether an argument that was read is one; default: any.
    """

    read: Callable[[str], Any] | None
    pixels: str | None
    meaning: str
    allows: Callable[[Any], bool] = lambda _: True


@dataclass(frozen=True)
class Variant:
    """One variant: its kind, and its argument in canonical text."""

    kind: str
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.argument}" if self.argument else self.kind

    def apply(self, data: Data) -> Data:
        """This variant of both splits; ``pca`` is fitted on train, ``POINTS`` change train only, ``TEST_ONLY`` test."""
        name = f"{data.name}+{self}"
        digests = self.digests(data.train.digest, data.test.digest)
        if self.kind in POINTS:
            from radii.data import variants

            points = getattr(variants, self.kind)(data.train, int(self.argument))
            train_x, train_y, test_x = points.x, points.y, data.test.x
        elif self.kind == "edges" and len(data.train) >= CACHED_FROM_IMAGES:
            cached = self._cached(data, digests)
            train_x, train_y, test_x = cached.train.x, data.train.y, cached.test.x
        else:
            (train_x, test_x), train_y = self._pixels(data), data.train.y
        train = replace(data.train, x=train_x, y=train_y, name=f"{name} train", known_digest=digests[0])
        test = replace(data.test, x=test_x, name=f"{name} test", known_digest=digests[1])
        return Data(train, test, name)

    def digests(self, train: str, test: str) -> tuple[str, str]:
        """The digests of this variant of splits with the digests ``train`` and ``test``."""
        if self.kind in POINTS:
            return self._hash(train), test
        if self.kind in TEST_ONLY:
            return train, self._hash(test)
        if self.kind == "pca":  # the test split, too, is projected on the components of train
            return self._hash(train), self._hash(test, train)
        return self._hash(train), self._hash(test)

    def _hash(self, *digests: str) -> str:
        return hashlib.sha256("\x1f".join(("variant", str(REVISION), *digests, str(self))).encode()).hexdigest()

    def _cached(self, data: Data, digests: tuple[str, str]) -> Data:
        """This variant from the cache, where it is stored at first use: Canny takes 0.5 ms per image."""
        identity = {"variant": list(digests)}

        def fill(folder: Path) -> tuple[str, ...]:
            for side, part, x in zip(cache.SIDES, (data.train, data.test), self._pixels(data), strict=True):
                np.save(folder / f"{side}-x.npy", x)
                np.save(folder / f"{side}-y.npy", part.y)
            return data.classes

        return cache.read(identity, data.name) or cache.build(identity, data.name, fill)

    def pixels_of(self, x: Pixels) -> Pixels:
        """This variant of the images ``x`` [n, c, h, w]; not for ``pca`` and those of ``POINTS``."""
        if self.kind not in KINDS:
            return _of_another_package(self, x)
        kind = KINDS[self.kind]
        assert kind.pixels is not None, "a function of the pixels alone"
        function = getattr(import_module(kind.pixels), self.kind)
        return function(x) if kind.read is None else function(x, kind.read(self.argument))

    def _pixels(self, data: Data) -> tuple[Pixels, Pixels]:
        if self.kind == "pca":
            from radii.data import subspace

            basis = subspace.cached_basis(data.train)
            ranges = subspace.parse_ranges(self.argument)
            return basis.project(data.train.x, ranges), basis.project(data.test.x, ranges)
        train = data.train.x if self.kind in TEST_ONLY else self.pixels_of(data.train.x)
        return train, self.pixels_of(data.test.x)


def parse(text: str) -> Variant:
    """Read ``text``, one ``VARIANT:ARGUMENT``; the argument is put into its canonical form.

    >>> str(parse("gamma:0.70"))
    'gamma:0.7'
    """
    name, _, argument = text.strip().partition(":")
    if name not in KINDS and name in VARIANTS:
        return Variant(name, argument)
    if name not in KINDS:
        raise unknown_name("variant", name, [*KINDS, *VARIANTS], GRAMMAR)
    read = KINDS[name].read
    if read is None:
        if argument:
            raise InputError(f"The variant {name!r} takes no argument, got {argument!r}. {GRAMMAR}")
        return Variant(name)
    if not argument:
        raise InputError(f"The variant {name!r} needs an argument: {KINDS[name].meaning}. {GRAMMAR}")
    value = read(argument)
    if not KINDS[name].allows(value):
        raise InputError(f"The variant {name!r} needs {KINDS[name].meaning}, got {argument!r} instead. {GRAMMAR}")
    if name == "pca":
        from radii.data.subspace import format_ranges

        return Variant(name, format_ranges(value))
    if name in ("resize", "crop"):
        return Variant(name, image_size.format_size(value))
    if name == "label":
        return Variant(name, value)
    if name == "corrupt":
        return Variant(name, f"{value[0]}:{value[1]}")
    return Variant(name, f"{value:.12g}")


def reading(chain: Sequence[Variant]) -> tuple[Reading, tuple[Variant, ...]]:
    """How the file is read, and the variants that are applied to what was read."""
    label = next((variant.argument for variant in chain if variant.kind == "label"), None)
    rest = [variant for variant in chain if variant.kind not in READING]
    skip_bad = any(variant.kind == "skip-bad" for variant in chain)
    steps = list(takewhile(lambda variant: variant.kind in SHAPING, rest))
    return Reading(label, skip_bad, tuple(map(str, steps))), tuple(rest[len(steps) :])


def split(text: str) -> tuple[str, tuple[Variant, ...]]:
    """The name or path of a dataset and its variants, read from ``text``; a ``+`` in an existing path belongs to it."""
    parts = text.strip().split("+")
    for length in range(len(parts), 0, -1):
        base = "+".join(parts[:length])
        if length == 1 or os.path.exists(os.path.expanduser(base)):
            return base.strip(), tuple(parse(part) for part in parts[length:])
    raise AssertionError("unreachable: text.split gives at least one part")


def _of_another_package(variant: Variant, x: Pixels) -> Pixels:
    """A published variant of ``x``; it must keep the number of inputs, their type and, for images, their range."""
    function = VARIANTS.factory(variant.kind)
    result = np.asarray(function(x, variant.argument) if variant.argument else function(x))
    if result.ndim != x.ndim or len(result) != len(x) or result.dtype not in (np.uint8, np.float32):
        raise InputError(
            f"The variant {variant.kind!r} must return {len(x)} inputs of {x.ndim - 1} dimensions, uint8 or float32, "
            f"got {result.dtype} of shape {result.shape} instead."
        )
    return result


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"A variant's argument must be a number, got {text!r} instead. {GRAMMAR}") from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"A variant's argument must be a whole number, got {text!r} instead. {GRAMMAR}") from None


def _is_count(value: int) -> bool:
    """Whether it counts something, with so few digits that its text keeps all of them."""
    return 1 <= value < 10**12


def _ranges(text: str) -> Any:
    from radii.data.subspace import parse_ranges

    return parse_ranges(text)


def _corruption(text: str) -> tuple[str, int]:
    from radii.data.corruptions import parse_corruption

    return parse_corruption(text)


VARIANTS = Registry("variant", {})  # those of other packages, by entry point only: names of datasets stand in files
POINTS = ("subset", "rest", "deform", "draw")  # which training points there are: radii.data.variants
TEST_ONLY = ("corrupt",)  # training images stay as they are
READING = ("label", "skip-bad")  # said of the file, wherever they stand
SHAPING = ("resize", "crop", "gray")  # applied while images are decoded, where they stand first
KINDS = {
    "label": Kind(str, None, "the label column of a CSV or parquet file"),
    "skip-bad": Kind(None, None, ""),
    "resize": Kind(parse_size, SIZES, image_size.SIDES),
    "crop": Kind(parse_size, SIZES, image_size.SIDES),
    "gray": Kind(None, SIZES, ""),
    "smooth": Kind(_whole, MAPS, "the filter's length in pixels, at least 1", _is_count),
    "smooth2d": Kind(_whole, MAPS, "the filter's side in pixels, at least 1", _is_count),
    "saturate": Kind(_number, MAPS, "p > 0, or inf", lambda p: p > 0),
    "gamma": Kind(_number, MAPS, "the exponent, finite and above 0", lambda g: 0 < g < inf),
    "scale": Kind(_number, MAPS, "the factor, in [0, 1]", lambda a: 0 <= a <= 1),
    "binarize": Kind(None, MAPS, ""),
    "edges": Kind(None, MAPS, ""),
    "corrupt": Kind(_corruption, "radii.data.corruptions", "a kind and a severity from 1 to 5, as fog:3"),
    "pca": Kind(_ranges, None, "ranges of components, as 1-16,513-3072"),
    "subset": Kind(_whole, None, "the number of training points, at least 1", _is_count),
    "rest": Kind(_whole, None, "the number of training points that subset would keep, at least 1", _is_count),
    "deform": Kind(_whole, None, "the number of deformed copies of each training image, at least 1", _is_count),
    "draw": Kind(_whole, None, "the number of training points to draw, at least 1", _is_count),
}
