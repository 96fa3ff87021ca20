"""Encoded images become one uint8 array on disk, in as many processes as there are cores.

Processes and not threads, measured on CIFAR-10: a 32 x 32 image decodes in
0.2 ms, most of it under the interpreter lock, so two threads take longer than
one and two processes half as long. Every process opens the source itself and
writes its rows into the shared array, so no pixels are sent between processes.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from radii import progress
from radii.data._image_size import apply_step
from radii.data.formats._reader import Encoded
from radii.errors import InputError
from radii.process import isolated_helpers

MOST_PIXELS = 1 << 27  # more than the 108 million of a telephone's camera; 400 MB decoded
IMAGES_PER_PROCESS = 4000  # with fewer, a second process starts later than the first one ends
CHUNK = 1000  # images in one task of a worker, and between two reports of progress
GREY_MODES = ("1", "L", "LA", "La")
DEEP_MODES = ("I;16", "I;16L", "I;16B", "I;16N", "I")
COLOR_MODES = ("RGB", "P", "RGBA", "PA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")
FORMATS = (
    "PNG", "JPEG", "MPO", "WEBP", "BMP", "DIB", "GIF", "TIFF", "PPM", "JPEG2000", "AVIF", "TGA", "PCX", "SGI", "QOI",
)  # fmt: skip  # no format that starts another program (EPS) or draws (WMF)
ORIENTATION = 0x0112  # the EXIF tag
ROTATED = "turned upright as their EXIF data says"
DEEP = "with 16 bits reduced to 8"
CLEAR = "with transparent parts painted on white"
MOVING = "with several frames, of which the first is taken"


@dataclass(frozen=True)
class Header:
    """What an image says of itself: size after rotation, whether it has colors, and what is done to it."""

    size: tuple[int, int]
    colored: bool
    treated: tuple[str, ...]


def header(file: Path) -> Header:
    """The header of an image file; no pixels are decoded."""
    try:
        with _opened(file) as image:
            orientation = _orientation(image)
            turned = orientation in (5, 6, 7, 8)
            treated = [ROTATED] if orientation in range(2, 9) else []
            treated += [DEEP] if image.mode in DEEP_MODES else []
            treated += [CLEAR] if image.has_transparency_data else []
            treated += [MOVING] if getattr(image, "is_animated", False) else []
            size = (image.height, image.width) if turned else image.size
            return Header(size, _colored(image), tuple(treated))
    except InputError:
        raise
    except Exception as error:  # Pillow's readers raise a dozen types on damaged files
        raise InputError(str(error).splitlines()[0] if str(error) else type(error).__name__) from error


def _opened(content: Path | io.BytesIO) -> Image.Image:
    """An image whose pixels are not decoded yet, of a known format and a sensible size."""
    Image.init()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the check below has a lower limit
        image = Image.open(content, formats=[name for name in FORMATS if name in Image.OPEN])
    if image.width * image.height > MOST_PIXELS:
        raise InputError(f"it has {image.width} x {image.height} pixels; {MOST_PIXELS / 1e6:.0f} million is the most")
    if image.mode not in GREY_MODES + DEEP_MODES + COLOR_MODES:
        raise InputError(f"it must have 8 or 16 bits per channel, got Pillow mode {image.mode}")
    return image


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 for upright; a PNG says it before its pixels, or all of it would be decoded."""
    if image.format == "PNG" and "exif" not in image.info:
        return 1
    value = image.getexif().get(ORIENTATION, 1)
    return value if isinstance(value, int) else 1


def _colored(image: Image.Image) -> bool:
    return image.mode not in GREY_MODES + DEEP_MODES


def decode_one(content: bytes, where: str, grey: bool | None = None, steps: Sequence[str] = ()) -> NDArray[np.uint8]:
    """Decode one image of any format in :data:`FORMATS`.

    The image is turned upright as its EXIF data says, 16 bits are reduced to 8 (the nearest of v / 257),
    transparent parts are painted on white, and of several frames the first is taken.

    Args:
        content: the bytes of the image file.
        grey: whether the dataset is grey; None if this is its first image. A
            grey image of a colored dataset gets three equal channels.
        steps: ``resize:…``, ``crop:…`` and ``gray``, applied in this order.

    Returns:
        uint8 [c, h, w] with one channel for grey images and three for all others.
    """
    try:
        image = _upright(_opened(io.BytesIO(content)))
        is_grey = not _colored(image)
        if grey and not is_grey and "gray" not in steps:
            raise InputError("it is colored, but the first image of the dataset is grey: add the variant gray")
        image = image.convert("L" if is_grey and grey is not False else "RGB")
        for step in steps:
            image = apply_step(image, step, where)
        pixels = np.asarray(image)
    except InputError as error:
        raise InputError(f"The image at {where} cannot be used: {str(error).removesuffix('.')}.") from error
    except Exception as error:  # Pillow's decoders raise a dozen types on damaged files
        raise InputError(f"The image at {where} cannot be decoded: {str(error) or type(error).__name__}.") from error
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _upright(image: Image.Image) -> Image.Image:
    """The image turned as its EXIF data says, with 8 bits, on white."""
    image = ImageOps.exif_transpose(image)
    if image.mode in DEEP_MODES:
        levels = np.clip(np.asarray(image.convert("I")), 0, 65535)
        return Image.fromarray(((levels + 128) // 257).astype(np.uint8))
    if not image.has_transparency_data:
        return image
    colors = image.convert("RGBA")
    if not _colored(image):
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), colors).convert("L")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), colors).convert("RGB")


def shape_of(source: Encoded, steps: Sequence[str] = ()) -> tuple[int, int, int]:
    """Shape [c, h, w] that all images get: that of the first one that can be decoded."""
    colored = getattr(source, "colored", None)  # known where a census was taken
    fault: InputError | None = None
    for where, content in source.images(0, len(source)):
        try:
            channels, height, width = decode_one(content, where, None if colored is None else not colored, steps).shape
        except InputError as error:
            fault = fault or error
            continue
        return channels, height, width
    raise fault or InputError("There is no image to decode.")


def decode_range(
    source: Encoded, out: NDArray[np.uint8], start: int, stop: int, steps: Sequence[str] = ()
) -> list[tuple[int, str]]:
    """Decode the images start..stop-1 into those rows of ``out``.

    Args:
        out: [n, c, h, w].
    """
    grey, faults = out.shape[1] == 1, []
    for row, (where, content) in enumerate(source.images(start, stop), start):
        try:
            pixels = decode_one(content, where, grey, steps)
            if pixels.shape != out.shape[1:]:
                raise InputError(
                    f"All images must have one size, got {_size(pixels)} at {where} and {_size(out[0])} in the first "
                    "image; the variant resize:64 or crop:64 gives them one."
                )
            out[row] = pixels
        except InputError as error:
            faults.append((row, str(error)))
    return faults


def decode(
    source: Encoded, out: NDArray[np.uint8], path: Path, what: str, steps: Sequence[str] = ()
) -> list[tuple[int, str]]:
    """Decode all images of ``source``.

    Args:
        out: the memory-mapped array [n, c, h, w] to fill.

    Returns:
        Row and reason of every image that cannot be decoded, in the order of rows.
    """
    count = len(source)
    workers = min(_cores(), count // IMAGES_PER_PROCESS) if sys.executable else 1
    with progress.task(what, total=count, unit="images") as task:
        if workers > 1:
            return sorted(_decode_in_processes(source, path, count, workers, task.advance, tuple(steps)))
        faults = []
        for start in range(0, count, CHUNK):
            stop = min(start + CHUNK, count)
            faults += decode_range(source, out, start, stop, steps)
            task.advance(stop - start)
        return faults


def _decode_in_processes(
    source: Encoded, path: Path, count: int, workers: int, advance: Callable[[float], None], steps: tuple[str, ...]
) -> list[tuple[int, str]]:
    spawn = multiprocessing.get_context("spawn")  # a forked child would copy locks and threads of the caller
    pool = ProcessPoolExecutor(workers, spawn, initializer=_start_worker, initargs=(source, path, steps))
    faults: list[tuple[int, str]] = []
    try:
        with _without_main_module(), isolated_helpers():
            tasks = [pool.submit(_decode_chunk, start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
        for task in as_completed(tasks):
            size, some = task.result()
            faults += some
            advance(size)
    except BrokenProcessPool as error:
        raise InputError(
            "A process that decodes images died (often because memory was short). Close other programs and try again."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
    return faults


@contextmanager
def _without_main_module() -> Iterator[None]:
    """Start processes that do not import the caller's main script.

    A spawned process imports the main module of its parent. A user's script
    without ``if __name__ == "__main__"`` would run a second time there.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


_work: tuple[Encoded, NDArray[np.uint8], tuple[str, ...]] | None = (
    None  # of a worker process: what it reads and where it writes
)


def _start_worker(source: Encoded, path: Path, steps: tuple[str, ...]) -> None:
    global _work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _work = source, np.load(path, mmap_mode="r+", allow_pickle=False), steps


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _decode_chunk(start: int, stop: int) -> tuple[int, list[tuple[int, str]]]:
    assert _work is not None, "the initializer has run"
    source, out, steps = _work
    return stop - start, decode_range(source, out, start, stop, steps)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _size(pixels: NDArray[np.uint8]) -> str:
    channels, height, width = pixels.shape
    return f"{width} x {height} ({'grey' if channels == 1 else 'color'})"
