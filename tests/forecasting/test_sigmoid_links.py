"""Links are sigmoids with exact inverses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gumbel_l, gumbel_r, logistic, norm

from radii.forecasting._posterior import LINKS, Link


@pytest.mark.parametrize(
    ("link", "law"), tuple(zip(LINKS, (logistic, norm, gumbel_r, gumbel_l), strict=True)), ids=lambda part: part.name
)
def test_links_are_the_distributions_they_are_named_after(link: Link, law) -> None:
    z = np.linspace(-5, 3, 41)
    np.testing.assert_allclose(link.rise(z), law.cdf(z), rtol=1e-12)
    np.testing.assert_allclose(link.inverse(link.rise(z)), z, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_links_bear_any_argument(link: Link) -> None:
    ends = link.rise(np.array([-1e6, 1e6]))
    np.testing.assert_allclose(ends, [0.0, 1.0], atol=1e-300)
