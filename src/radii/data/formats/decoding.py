"""Encoded images become one uint8 array on disk, in as many processes as there are cores.

Measured on CIFAR-10: two threads take longer than one (a 32 x 32 image decodes
in 0.2 ms, most of it under the interpreter lock), two processes half as long.
A worker is this module run as a program: it opens the source itself and writes
its rows into the shared array, so no pixels travel and nothing of the caller's
state is forked.
"""

from __future__ import annotations

import io
import json
import os
import queue
import subprocess
import sys
import threading
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from radii import progress
from radii.data.formats.reader import Encoded
from radii.errors import InputError

MOST_PIXELS = 4096 * 4096
FEW = 4000  # below this many images a second process starts later than the first one ends
REPORT = 250
GREY_MODES = ("1", "L", "LA")
COLOR_MODES = ("RGB", "P", "RGBA", "PA", "CMYK", "YCbCr")


def decode_one(content: bytes, where: str, grey: bool | None = None) -> NDArray[np.uint8]:
    """One PNG, JPEG or WebP as uint8 [c, h, w]: grey has one channel, everything else three.

    ``grey`` says what the other images are: a grey image among colored ones
    gets three equal channels, a colored one among grey ones is refused.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # a lower limit is kept right below
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
    """[c, h, w] of the first image, which all others must have."""
    where, content = next(iter(source.images(0, 1)))
    channels, height, width = decode_one(content, where).shape
    return channels, height, width


def decode_range(source: Encoded, out: NDArray[np.uint8], start: int, stop: int, report: Any) -> None:
    """Decode the images start..stop-1 into those rows of ``out``; ``report(count)`` now and then."""
    grey, done = out.shape[1] == 1, 0
    for row, (where, content) in enumerate(source.images(start, stop), start):
        pixels = decode_one(content, where, grey)
        if pixels.shape != out.shape[1:]:
            raise InputError(
                f"All images must have one size, got {_size(pixels)} at {where} and {_size(out[0])} in the first image."
            )
        out[row] = pixels
        done += 1
        if done == REPORT or row == stop - 1:
            report(done)
            done = 0


def decode(source: Encoded, out: NDArray[np.uint8], path: Path, what: str) -> None:
    """Fill ``out``, the memory-mapped array at ``path``, with all images of ``source``."""
    count = len(source)
    workers = min(_cores(), count // FEW) if sys.executable else 1
    with progress.task(what, total=count, unit="images") as task:
        if workers < 2:
            decode_range(source, out, 0, count, task.advance)
        else:
            _in_processes(source, path, count, workers, task)


def _in_processes(source: Encoded, path: Path, count: int, workers: int, task: progress.Task) -> None:
    bounds = [count * part // workers for part in range(workers + 1)]
    said: queue.Queue[dict[str, Any]] = queue.Queue()
    running = []
    try:
        for start, stop in pairwise(bounds):
            worker = _started()
            running.append(worker)
            job = {"source": source.address(), "out": str(path), "start": start, "stop": stop}
            threading.Thread(target=_converse, args=(worker, json.dumps(job), said), daemon=True).start()
        busy = len(running)
        while busy:
            message = said.get()
            if "error" in message:
                raise InputError(message["error"])
            task.advance(message.get("done", 0))
            busy -= "ended" in message
    finally:
        for worker in running:
            worker.kill()
            worker.wait()


def _started() -> subprocess.Popen[str]:
    package = str(Path(__file__).parents[3])  # the folder that holds radii, installed or not
    known = os.environ.get("PYTHONPATH")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([package, known] if known else [package])}
    command = [sys.executable, "-m", "radii.data.formats.decoding"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def _converse(worker: subprocess.Popen[str], job: str, said: queue.Queue[dict[str, Any]]) -> None:
    assert worker.stdin is not None
    assert worker.stdout is not None
    with worker.stdin, worker.stdout:
        worker.stdin.write(job + "\n")
        worker.stdin.flush()
        ended = False
        for line in worker.stdout:
            message = json.loads(line)
            ended = "ended" in message
            said.put(message)
    if not ended:
        said.put({"error": f"A process that decodes images ended early (exit code {worker.wait()}). Try again."})


def _work() -> None:
    """The worker's side: one job on stdin, progress and at most one error on stdout."""
    from radii.data.formats import folder, parquet

    job = json.loads(sys.stdin.readline())
    address = job["source"]
    source: Encoded = parquet.reopen(address) if address["kind"] == "parquet" else folder.reopen(address)
    out = np.load(job["out"], mmap_mode="r+", allow_pickle=False)

    def say(**message: Any) -> None:
        print(json.dumps(message), flush=True)

    try:
        decode_range(source, out, job["start"], job["stop"], lambda done: say(done=done))
        say(ended=True)
    except InputError as error:
        say(error=str(error))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _size(pixels: NDArray[np.uint8]) -> str:
    channels, height, width = pixels.shape
    return f"{width} x {height} ({'grey' if channels == 1 else 'color'})"


if __name__ == "__main__":
    try:
        _work()
    except BrokenPipeError:  # the one who asked is gone
        os._exit(1)
