"""Random changes of training images that keep their class; a part of a recipe, so torch is loaded at use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from radii.errors import InputError
from radii.spec import Spec

if TYPE_CHECKING:
    from torch import Generator, Tensor


class Augmentation(Spec):
    """Random changes of training images that keep their class.

    Attributes:
        crop: pad by this many pixels (mirrored border) and cut out the old size at
            a random place; 0: no crop.
        flip: mirror left-right with probability 1/2.
        erase: paint one square of this side, completely inside the image, in the
            mean color; 0: none.
        affine: read every image at (I + A) p + b, p in [-1, 1] x [-1, 1], with entries of A and b uniform between minus
            and plus this number: turned, stretched, sheared and moved; 0: none.
        together: one draw for the whole batch, as in the public code of Prach &
            Lampert 2025, instead of one per image.
    """

    crop: int = 0
    flip: bool = False
    erase: int = 0
    together: bool = False
    affine: float = Field(0.0, ge=0, le=1)

    omit_if_default: ClassVar[dict[str, Any]] = {"affine": 0.0}

    @property
    def changes(self) -> bool:
        """Whether images are changed at all."""
        return self.crop > 0 or self.flip or self.erase > 0 or self.affine > 0

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise an InputError if inputs of ``shape`` cannot be augmented this way."""
        if self.crop < 0 or self.erase < 0:
            raise InputError(f"Crop and erase must be at least 0 pixels, got {self.crop} and {self.erase} instead.")
        if not self.changes:
            return
        if len(shape) != 3:
            raise InputError(f"Augmentation needs [c, h, w] images, got inputs of shape {shape} instead.")
        side = min(shape[1:])
        if self.crop >= side:
            raise InputError(f"Crop must pad by less than the image's side {side}, got {self.crop} instead.")
        if self.erase > side:
            raise InputError(f"The erased square must fit into the image's side {side}, got {self.erase} instead.")

    def __call__(self, x: Tensor, generator: Generator, fill: Tensor) -> Tensor:
        """Augmented float32 images [b, c, h, w]; ``fill`` [c] is the color of erased squares."""
        import torch

        draws = 1 if self.together else len(x)
        if self.affine:
            x = _moved(x, self.affine * (2 * torch.rand((draws, 2, 3), generator=generator) - 1))
        if self.crop:
            x = _random_crop(x, self.crop, torch.randint(2 * self.crop + 1, (2, draws), generator=generator))
        if self.flip:
            mirrored = torch.rand(draws, generator=generator).to(x.device) < 0.5
            x = torch.where(mirrored[:, None, None, None], x.flip(3), x)
        if self.erase:
            high = torch.tensor([x.shape[2], x.shape[3]]) - self.erase + 1
            corner = (torch.rand(2, draws, generator=generator) * high[:, None]).long()
            x = _erase_square(x, corner, self.erase, fill)
        return x


def _moved(x: Tensor, change: Tensor) -> Tensor:
    """``x`` read at (I + A) p + b, bilinear and black outside; ``change`` [b or 1, 2, 3] holds A and b."""
    import torch

    maps = torch.eye(2, 3) + change
    grid = torch.nn.functional.affine_grid(maps.to(x).expand(len(x), 2, 3), list(x.shape), align_corners=False)
    return torch.nn.functional.grid_sample(x, grid, align_corners=False)


def _random_crop(x: Tensor, pad: int, offset: Tensor) -> Tensor:
    """Mirror-pad ``x`` by ``pad`` pixels and cut out the old size, its upper left corner at ``offset`` [2, b or 1]."""
    import torch

    height, width = x.shape[2:]
    padded = torch.nn.functional.pad(x, (pad, pad, pad, pad), mode="reflect")
    if offset.shape[1] == 1:
        top, left = int(offset[0, 0]), int(offset[1, 0])
        return padded[:, :, top : top + height, left : left + width].contiguous()
    # All windows at once are a view: windows[b, :, i, j] is the crop whose corner is (i, j).
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    offset = offset.to(x.device)
    return windows[torch.arange(len(x), device=x.device), :, offset[0], offset[1]]


def _erase_square(x: Tensor, corner: Tensor, side: int, fill: Tensor) -> Tensor:
    """Paint a square in each image of ``x``: ``side`` pixels, upper left ``corner`` [2, b or 1], color ``fill`` [c]."""
    import torch

    corner = corner.to(x.device)
    rows = _within(corner[0], side, x.shape[2])
    columns = _within(corner[1], side, x.shape[3])
    square = (rows[:, :, None] & columns[:, None, :])[:, None]
    return torch.where(square, fill.to(x)[None, :, None, None], x)


def _within(start: Tensor, side: int, size: int) -> Tensor:
    import torch

    place = torch.arange(size, device=start.device)[None]
    return (place >= start[:, None]) & (place < start[:, None] + side)
