"""Convolutions of small images as matrix products, one for every tap and row of the image.

With pixels first, [h, w, n, c], a tap K_d joins rows of pixels that lie side
by side in memory: y[r, p] += x[r + d_1, p + d_2] K_d^T is one product for all
images and columns p. Pixels outside the image are never multiplied, which on
a 2 x 2 image leaves 16 of the 36 pairs of pixel and tap, on 4 x 4 100 of 144,
and the products run at full speed where convolution kernels written for large
images do not: a weight gradient of 1024 channels on 2 x 2 images takes a
twelfth of torch's time. Stride 1 and zero padding that keeps the size.
"""

from __future__ import annotations

from functools import lru_cache

from torch import Tensor

MOST_PIXELS = 16  # on 8 x 8 images the gain is lost in changing layouts
FEWEST_IMAGES = 32

Rows = tuple[int, slice]  # a row of the image, and the columns of it


def worthwhile(x: Tensor) -> bool:
    """Whether inputs [n, c, h, w] are many enough and small enough."""
    return x.device.type == "cpu" and x.shape[2] * x.shape[3] <= MOST_PIXELS and len(x) >= FEWEST_IMAGES


def pixels_first(x: Tensor) -> Tensor:
    """[n, c, h, w] -> [h, w, n, c], and a kernel [out, in, k, l] -> [k, l, out, in]; its own inverse."""
    return x.permute(2, 3, 0, 1).contiguous()


@lru_cache
def _meetings(height: int, width: int, rows: int, columns: int) -> tuple[tuple[tuple[int, int], Rows, Rows], ...]:
    """(tap, pixels of the output, pixels of the input it takes them from), the center of the kernel first."""
    found = []
    for down in sorted(range(-(rows // 2), rows // 2 + 1), key=abs):
        for right in sorted(range(-(columns // 2), columns // 2 + 1), key=abs):
            start, stop = max(0, -right), min(width, width - right)
            if start >= stop:
                continue
            tap = down + rows // 2, right + columns // 2
            for row in range(max(0, -down), min(height, height - down)):
                found.append((tap, (row, slice(start, stop)), (row + down, slice(start + right, stop + right))))
    return tuple(found)


def convolved(x: Tensor, taps: Tensor, result: Tensor) -> Tensor:
    """``result`` [h, w, n, out] += W x for ``x`` [h, w, n, in] and ``taps`` [k, l, out, in]."""
    for tap, outputs, inputs in _meetings(*x.shape[:2], *taps.shape[:2]):
        result[outputs].flatten(0, 1).addmm_(x[inputs].flatten(0, 1), taps[tap].T)
    return result


def minus_transposed(y: Tensor, taps: Tensor, result: Tensor) -> Tensor:
    """``result`` [h, w, n, in] -= W^T y for ``y`` [h, w, n, out]."""
    for tap, outputs, inputs in _meetings(*y.shape[:2], *taps.shape[:2]):
        result[inputs].flatten(0, 1).addmm_(y[outputs].flatten(0, 1), taps[tap], alpha=-1)
    return result


def minus_weight_gradient(x: Tensor, y: Tensor, result: Tensor) -> Tensor:
    """``result`` [k, l, out, in] -= the gradient of <W x, y> in the taps."""
    for tap, outputs, inputs in _meetings(*x.shape[:2], *result.shape[:2]):
        result[tap].addmm_(y[outputs].flatten(0, 1).T, x[inputs].flatten(0, 1), alpha=-1)
    return result
