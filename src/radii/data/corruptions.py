"""Fifteen common corruptions of images at five severities, for images of any size.

The kinds are those of Hendrycks & Dietterich 2019. Code and strengths are radii's own, and lengths are shares of the
image's side, so accuracies are not those of published corrupted test sets. Every result is an image of 256 levels. Its
random numbers come from the image's own content, the kind and the severity: an image is corrupted alike wherever it
stands, and again.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from radii import progress
from radii.errors import InputError, unknown_name
from radii.randomness import numpy_stream

Image = NDArray[np.float64]  # [c, h, w] in [0, 1]
Random = np.random.Generator
SEVERITIES = 5
SYNONYMS = {"elastic-transform": "elastic", "jpeg-compression": "jpeg"}


def corrupt(x: NDArray[Any], which: tuple[str, int]) -> NDArray[Any]:
    """The images ``x`` [n, c, h, w], uint8 or float32 in [0, 1], corrupted; of the same type.

    Args:
        which: kind and severity, as :func:`parse_corruption` reads them.
    """
    if x.ndim != 4 or x.shape[1] not in (1, 3) or min(x.shape[2:]) < 4:
        raise InputError(f"corrupt needs grey or color images of at least 4 x 4, got inputs of shape {x.shape[1:]}.")
    kind, severity = which
    out = np.empty(x.shape, x.dtype)
    with progress.task(f"corrupting by {kind}", total=len(x), unit="images") as task:
        for i, image in enumerate(x):
            levels = image if x.dtype == np.uint8 else np.round(255 * np.asarray(image, np.float64)).astype(np.uint8)
            made = KINDS[kind](levels / 255.0, severity - 1, _randomness(levels, kind, severity))
            made = np.round(255 * np.clip(made, 0, 1))
            out[i] = made.astype(np.uint8) if x.dtype == np.uint8 else made.astype(np.float32) / np.float32(255)
            task.advance(1)
    return out


def parse_corruption(text: str) -> tuple[str, int]:
    """Kind and severity of ``fog:3``.

    >>> parse_corruption("gaussian_noise:2")
    ('gaussian-noise', 2)
    """
    name, _, severity = text.strip().lower().replace("_", "-").partition(":")
    name = SYNONYMS.get(name, name)
    if name not in KINDS:
        raise unknown_name("corruption", name, KINDS, "Write KIND:SEVERITY, for example fog:3.")
    if severity not in tuple("12345"):
        raise InputError(f"The severity of {name} must be 1, 2, 3, 4 or 5, as {name}:3, got {severity!r} instead.")
    return name, int(severity)


def _randomness(levels: NDArray[np.uint8], kind: str, severity: int) -> Random:
    content = int.from_bytes(hashlib.sha256(np.ascontiguousarray(levels).tobytes()).digest()[:7])
    return numpy_stream(content, "corrupt", kind, severity)


def _side(image: Image) -> int:
    return min(image.shape[1:])


def _gaussian_noise(image: Image, s: int, random: Random) -> Image:
    """Independent normal noise on every value."""
    return image + (0.05, 0.08, 0.12, 0.16, 0.22)[s] * random.standard_normal(image.shape)


def _shot_noise(image: Image, s: int, random: Random) -> Image:
    """Photons are counted: a Poisson number with the mean ``photons`` times the value."""
    photons = (120, 60, 30, 16, 9)[s]
    return random.poisson(photons * image) / photons


def _impulse_noise(image: Image, s: int, random: Random) -> Image:
    """A share of the values becomes 0 or 1."""
    hit = random.random(image.shape) < (0.02, 0.05, 0.09, 0.14, 0.2)[s]
    return np.where(hit, random.integers(0, 2, image.shape), image)


def _defocus_blur(image: Image, s: int, _random: Random) -> Image:
    """The mean over a disk."""
    return _filtered(image, _disk((0.02, 0.03, 0.045, 0.06, 0.08)[s] * _side(image)))


def _glass_blur(image: Image, s: int, random: Random) -> Image:
    """Neighbors change places at random, between two slight blurs."""
    share, rounds = (0.02, 0.02, 0.03, 0.035, 0.05)[s], (1, 2, 3, 4, 4)[s]
    width = 0.3 * share * _side(image)
    reach = max(1, round(share * _side(image)))
    out = ndimage.gaussian_filter(image, (0, width, width))
    _, height, columns = image.shape
    rows, places = np.mgrid[:height, :columns]
    for _ in range(rounds):
        down, right = random.integers(-reach, reach + 1, (2, height, columns))
        out = out[:, np.clip(rows + down, 0, height - 1), np.clip(places + right, 0, columns - 1)]
    return ndimage.gaussian_filter(out, (0, width, width))


def _motion_blur(image: Image, s: int, random: Random) -> Image:
    """The mean along a line in a random direction."""
    return _filtered(image, _line((0.1, 0.15, 0.2, 0.25, 0.32)[s] * _side(image), random.uniform(0, np.pi)))


def _zoom_blur(image: Image, s: int, _random: Random) -> Image:
    """The mean of the image enlarged step by step."""
    zooms = np.linspace(1, (1.06, 1.11, 1.16, 1.21, 1.3)[s], 9)
    return np.mean([_enlarged(image, zoom) for zoom in zooms], axis=0)


def _snow(image: Image, s: int, random: Random) -> Image:
    """The image is whitened, and flakes fall in one direction."""
    share, length, white = (
        (0.04, 0.06, 0.08, 0.1, 0.13)[s],
        (0.08, 0.1, 0.12, 0.14, 0.16)[s],
        (0.1, 0.15, 0.2, 0.25, 0.3)[s],
    )
    size = image.shape[1:]
    flakes = (random.random(size) < share) * random.uniform(0.6, 1.0, size)
    falling = _filtered(flakes[None], _line(length * _side(image), random.uniform(np.pi / 3, 2 * np.pi / 3)))[0]
    falling = falling * min(1.0, 1 / max(falling.max(), 1e-9))
    pale = (1 - white) * image + white * np.maximum(image, 0.5 + 0.5 * image.mean(0))
    return pale + (1 - pale) * falling


def _frost(image: Image, s: int, random: Random) -> Image:
    """Ice grows from the border: bright crystals with sharp ridges, thicker outside."""
    keep, ice = (0.85, 0.75, 0.65, 0.58, 0.5)[s], (0.4, 0.5, 0.55, 0.6, 0.65)[s]
    crystals = 1 - np.abs(2 * _clouds(image.shape[1:], 1.2, random) - 1)
    rows, columns = (np.abs(np.linspace(-1, 1, side)) for side in image.shape[1:])
    border = 0.5 + 0.5 * np.maximum(rows[:, None], columns)
    tint = np.array([0.9, 0.95, 1.0] if len(image) == 3 else [1.0])[:, None, None]
    return keep * image + ice * tint * crystals**1.5 * border


def _fog(image: Image, s: int, random: Random) -> Image:
    """Clouds of all sizes lie over the image and take its contrast."""
    thick = (0.4, 0.6, 0.8, 1.0, 1.3)[s]
    clouds = _clouds(image.shape[1:], 2.0, random)
    top = max(float(image.max()), 0.5)
    return (image + thick * clouds) * top / (top + thick)


def _brightness(image: Image, s: int, _random: Random) -> Image:
    """Brighter by a constant."""
    return image + (0.08, 0.15, 0.22, 0.3, 0.38)[s]


def _contrast(image: Image, s: int, _random: Random) -> Image:
    """Nearer to the mean."""
    mean = image.mean((1, 2), keepdims=True)
    return mean + (0.6, 0.45, 0.3, 0.2, 0.12)[s] * (image - mean)


def _elastic(image: Image, s: int, random: Random) -> Image:
    """Pixels are read at places that a smooth random field moves."""
    moved, side = (0.01, 0.016, 0.022, 0.03, 0.04)[s] * _side(image), _side(image)
    field = ndimage.gaussian_filter(random.standard_normal((2, *image.shape[1:])), (0, side / 12, side / 12))
    field *= moved / max(float(field.std()), 1e-9)
    grid = np.mgrid[: image.shape[1], : image.shape[2]] + field
    return np.stack([ndimage.map_coordinates(channel, grid, order=1, mode="mirror") for channel in image])


def _pixelate(image: Image, s: int, _random: Random) -> Image:
    """Means over blocks."""
    block = max(2, round((0.04, 0.06, 0.08, 0.1, 0.125)[s] * _side(image)))
    _, height, width = image.shape
    padded = np.pad(image, ((0, 0), (0, -height % block), (0, -width % block)), mode="edge")
    rows, columns = padded.shape[1] // block, padded.shape[2] // block
    means = padded.reshape(len(image), rows, block, columns, block).mean((2, 4))
    return means.repeat(block, 1).repeat(block, 2)[:, :height, :width]


def _jpeg(image: Image, s: int, _random: Random) -> Image:
    """Written as JPEG of a low quality and read again."""
    from PIL import Image as Pictures

    levels = np.round(255 * image).astype(np.uint8)
    picture = Pictures.fromarray(levels[0] if len(image) == 1 else levels.transpose(1, 2, 0))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=(30, 22, 16, 11, 7)[s])
    read = np.asarray(Pictures.open(buffer), np.float64) / 255
    return read[None] if len(image) == 1 else read.transpose(2, 0, 1)


def _filtered(image: Image, kernel: Image) -> Image:
    return np.stack([ndimage.convolve(channel, kernel, mode="mirror") for channel in image])


def _disk(radius: float) -> Image:
    """A disk with a soft edge; its pixels add up to 1."""
    reach = max(1, int(np.ceil(radius)))
    rows, columns = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    kernel = np.clip(max(radius, 0.6) + 0.5 - np.hypot(rows, columns), 0, 1)
    return kernel / kernel.sum()


def _line(length: float, angle: float) -> Image:
    """A line of ``length`` pixels through the middle; its pixels add up to 1."""
    half = max(length, 1.5) / 2
    reach = int(np.ceil(half))
    kernel = np.zeros((2 * reach + 1, 2 * reach + 1))
    for step in np.linspace(-half, half, 8 * reach + 1):
        kernel[reach + round(step * np.sin(angle)), reach + round(step * np.cos(angle))] += 1
    return kernel / kernel.sum()


def _enlarged(image: Image, zoom: float) -> Image:
    """The middle of the image, enlarged to its size."""
    axes = [(side - 1) / 2 + (np.arange(side) - (side - 1) / 2) / zoom for side in image.shape[1:]]
    grid = np.meshgrid(*axes, indexing="ij")
    return np.stack([ndimage.map_coordinates(channel, grid, order=1, mode="nearest") for channel in image])


def _clouds(size: tuple[int, ...], slope: float, random: Random) -> Image:
    """Noise with the spectrum 1 / frequency^slope, stretched to [0, 1]."""
    height, width = size
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))
    frequency[0, 0] = np.inf
    waves = np.fft.rfft2(random.standard_normal(size)) / frequency**slope
    field = np.fft.irfft2(waves, s=(height, width))
    low, high = field.min(), field.max()
    return (field - low) / max(high - low, 1e-12)


KINDS: dict[str, Callable[[Image, int, Random], Image]] = {
    "gaussian-noise": _gaussian_noise,
    "shot-noise": _shot_noise,
    "impulse-noise": _impulse_noise,
    "defocus-blur": _defocus_blur,
    "glass-blur": _glass_blur,
    "motion-blur": _motion_blur,
    "zoom-blur": _zoom_blur,
    "snow": _snow,
    "frost": _frost,
    "fog": _fog,
    "brightness": _brightness,
    "contrast": _contrast,
    "elastic": _elastic,
    "pixelate": _pixelate,
    "jpeg": _jpeg,
}
