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
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from radii import progress
from radii.data.formats.reader import Encoded
from radii.environment import isolated_helpers
from radii.errors import InputError

MOST_PIXELS = 4096 * 4096
IMAGES_PER_PROCESS = 4000  # with fewer, a second process starts later than the first one ends
CHUNK = 1000  # images in one task of a worker, and between two reports of progress
GREY_MODES = ("1", "L", "LA")
COLOR_MODES = ("RGB", "P", "RGBA", "PA", "CMYK", "YCbCr")


def decode_one(content: bytes, where: str, grey: bool | None = None) -> NDArray[np.uint8]:
    """Decode one PNG, JPEG or WebP image.

    Args:
        content: the bytes of the image file.
        where: the place of the image, for error messages.
        grey: whether the dataset is grey; None if this is its first image. A
            grey image of a colored dataset gets three equal channels.

    Returns:
        uint8 [c, h, w] with one channel for grey images and three for all others.

    Raises:
        InputError: the image is damaged, too large, not 8-bit, partly
            transparent, or colored in a grey dataset.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the check below has a lower limit
            image = Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "WEBP"))
        if image.width * image.height > MOST_PIXELS:
            raise InputError(
                f"The image at {where} has {image.width} x {image.height} pixels; {MOST_PIXELS} is the most."
            )
        mode = _mode(image, where, grey)
        pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    except InputError:
        raise
    except Exception as error:  # Pillow's decoders raise a dozen types on damaged files
        raise InputError(f"The image at {where} cannot be decoded: {str(error) or type(error).__name__}.") from error
    return pixels[None] if mode == "L" else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _mode(image: Image.Image, where: str, grey: bool | None) -> str:
    if image.mode not in GREY_MODES + COLOR_MODES:
        raise InputError(f"The image at {where} must have 8 bits per channel, got Pillow mode {image.mode} instead.")
    if image.has_transparency_data and np.asarray(image.convert("RGBA"))[..., 3].min() < 255:
        raise InputError(f"The image at {where} is partly transparent: paint it on a background first.")
    is_grey = image.mode in GREY_MODES
    if grey and not is_grey:
        raise InputError(f"The image at {where} is colored, but the first image of the dataset is grey.")
    return "L" if is_grey and grey is not False else "RGB"


def shape_of(source: Encoded) -> tuple[int, int, int]:
    """Shape [c, h, w] of the first image of ``source``, which all others must have."""
    where, content = next(iter(source.images(0, 1)))
    channels, height, width = decode_one(content, where).shape
    return channels, height, width


def decode_range(source: Encoded, out: NDArray[np.uint8], start: int, stop: int) -> int:
    """Decode the images ``start``..``stop``-1 of ``source`` into those rows of ``out``; returns their number."""
    grey = out.shape[1] == 1
    for row, (where, content) in enumerate(source.images(start, stop), start):
        pixels = decode_one(content, where, grey)
        if pixels.shape != out.shape[1:]:
            raise InputError(
                f"All images must have one size, got {_size(pixels)} at {where} and {_size(out[0])} in the first image."
            )
        out[row] = pixels
    return stop - start


def decode(source: Encoded, out: NDArray[np.uint8], path: Path, what: str) -> None:
    """Decode all images of ``source``.

    Args:
        source: the encoded images.
        out: the memory-mapped array [n, c, h, w] to fill.
        path: the file of ``out``, which worker processes open themselves.
        what: the name of the work on the progress bar.

    Raises:
        InputError: an image cannot be decoded, or a worker process died.
    """
    count = len(source)
    workers = min(_cores(), count // IMAGES_PER_PROCESS) if sys.executable else 1
    with progress.task(what, total=count, unit="images") as task:
        if workers > 1:
            _decode_in_processes(source, path, count, workers, task.advance)
        else:
            for start in range(0, count, CHUNK):
                task.advance(decode_range(source, out, start, min(start + CHUNK, count)))


def _decode_in_processes(
    source: Encoded, path: Path, count: int, workers: int, advance: Callable[[float], None]
) -> None:
    spawn = multiprocessing.get_context("spawn")  # a forked child would copy locks and threads of the caller
    pool = ProcessPoolExecutor(workers, spawn, initializer=_start_worker, initargs=(source, path))
    try:
        with _without_main_module(), isolated_helpers():
            tasks = [pool.submit(_decode_chunk, start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
        for task in as_completed(tasks):
            advance(task.result())
    except BrokenProcessPool as error:
        raise InputError(
            "A process that decodes images died (often because memory was short). Close other programs and try again."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


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


_work: tuple[Encoded, NDArray[np.uint8]] | None = None  # of a worker process: what it reads and where it writes


def _start_worker(source: Encoded, path: Path) -> None:
    global _work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _work = source, np.load(path, mmap_mode="r+", allow_pickle=False)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _decode_chunk(start: int, stop: int) -> int:
    assert _work is not None, "the initializer has run"
    return decode_range(*_work, start, stop)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _size(pixels: NDArray[np.uint8]) -> str:
    channels, height, width = pixels.shape
    return f"{width} x {height} ({'grey' if channels == 1 else 'color'})"
