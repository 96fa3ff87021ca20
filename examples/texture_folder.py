"""Make a folder of images by class: patches of three photographs that come with scikit-image.

``python examples/texture_folder.py [FOLDER]``. Test patches come from another part of each photograph than
training patches. Then, as with any folder of your own:

    radii train textures --recipe certified --threat l2:36/255 --budget smoke
    radii certify RUN textures --threat l2:36/255
"""

from __future__ import annotations

import sys
from pathlib import Path

import skimage.data
from PIL import Image

TEXTURES = {"brick": skimage.data.brick, "grass": skimage.data.grass, "gravel": skimage.data.gravel}
SIDE, LAST_ROWS = 32, 384  # pixels; rows from here on are for tests


def write(folder: Path) -> int:
    """Write the patches below ``folder``, as train/CLASS and test/CLASS; returns their number."""
    written = 0
    for name, photograph in TEXTURES.items():
        pixels = photograph()
        for row in range(0, pixels.shape[0], SIDE):
            place = folder / ("test" if row >= LAST_ROWS else "train") / name
            place.mkdir(parents=True, exist_ok=True)
            for column in range(0, pixels.shape[1], SIDE):
                patch = pixels[row : row + SIDE, column : column + SIDE]
                Image.fromarray(patch).save(place / f"{row:03}-{column:03}.png")
                written += 1
    return written


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "textures")
    print(f"{write(target)} images below {target}")
