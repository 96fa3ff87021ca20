"""The palette keeps its promise: every pair told apart by every eye, every color visible on its page.

Color-vision deficiencies are simulated at full severity with the matrices of
Machado, Oliveira & Fernandes 2009 (linear RGB).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from skimage.color import deltaE_ciede2000, rgb2lab

from radii.report._theme import DARK, LIGHT, Theme

VISION = {
    "full": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(color: str) -> np.ndarray:
    value = np.array([int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def seen(color: str, matrix: np.ndarray) -> np.ndarray:
    value = np.clip(np.asarray(matrix) @ linear(color), 0, 1)
    return rgb2lab(np.where(value <= 0.0031308, value * 12.92, 1.055 * value ** (1 / 2.4) - 0.055))


def contrast(one: str, other: str) -> float:
    """WCAG 2.2 contrast ratio."""
    dark, light = sorted(float(linear(color) @ [0.2126, 0.7152, 0.0722]) for color in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISION)
def test_series_colors_differ_for_every_eye(look: Theme, vision: str) -> None:
    labs = [seen(color, VISION[vision]) for color in look.series]
    assert min(float(deltaE_ciede2000(one, other)) for one, other in combinations(labs, 2)) >= 15


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_colors_stand_out_from_the_page(look: Theme) -> None:
    assert all(contrast(color, look.page) >= 3 for color in look.series)
    assert contrast(look.ink, look.page) >= 7
    assert contrast(look.muted, look.page) >= 4.5
