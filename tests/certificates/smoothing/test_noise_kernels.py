"""The noise generator against published words, float64 arithmetic and the normal law."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import chi2, kstest, norm
from torch import nn

from radii.certificates.smoothing._noise import ERROR, GridNoise, Voting
from radii.certificates.smoothing._noise_kernels import (
    BLOCK,
    NORMALS,
    REACH,
    box_muller,
    count_votes,
    counters_of,
    fill_rounded,
    philox,
)
from radii.networks.calling import predicted_class

SIGMA = np.float64(2**14)


def filled(n: int, key: int = 1, counter: int = 0) -> NDArray[np.float32]:
    out = np.full(n, np.nan, np.float32)
    fill_rounded(out, np.uint64(key), counter, SIGMA)
    return out


def test_philox_gives_the_published_words() -> None:
    """The known answers that come with the authors' Random123: counter and key all zeros; counters add up."""
    words = np.empty((4, 3), np.uint32)
    philox(np.uint64(0), 0, words)
    assert [hex(word) for word in words[:, 0]] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    later = np.empty((4, 1), np.uint32)
    philox(np.uint64(0), 2, later)
    assert np.array_equal(later[:, 0], words[:, 2])


@pytest.mark.parametrize("seed", range(4))
def test_normals_are_those_of_long_doubles(seed: int) -> None:
    """Within ERROR of the pair's length: the hypothesis under which the distance from a Gaussian is bounded."""
    rng = np.random.default_rng(seed)
    words = rng.integers(2**32, size=(4, 4096), dtype=np.uint32)
    words[0, :3], words[1, :3] = (0, 0, 2**32 - 1), (0, 1 << 12, 2**32 - 1)
    words[0, 3:2000] >>= rng.integers(32, size=1997, dtype=np.uint32)  # deep into the tail
    words[2, :16], words[3, :16] = np.arange(16, dtype=np.uint32) << np.uint32(28), 0
    scale = np.float64(2**20)  # whole numbers up to 2^24 are exact in float32
    x, y = draw(words, scale)
    radius = (words[0].astype(np.uint64) << np.uint64(32) | words[1]) >> np.uint64(12)
    angle = (words[2].astype(np.uint64) << np.uint64(32) | words[3]) >> np.uint64(12)
    length = np.sqrt(-2 * np.log((radius.astype(np.longdouble) + 0.5) * np.longdouble(2.0**-52)))
    turn = 2 * np.longdouble("3.14159265358979323846264338327950288") * (angle * np.longdouble(2.0**-52))
    room = 0.5 + float(scale) * ERROR * length.astype(np.float64)
    assert (abs(x - (scale * length * np.cos(turn)).astype(np.longdouble)) <= room).all()
    assert (abs(y - (scale * length * np.sin(turn)).astype(np.longdouble)) <= room).all()


def test_cells_beyond_five_deviations_are_drawn_as_often_as_they_should() -> None:
    """At 31 bits of radius most of these cells are empty. Importance: u below 2^-18, that is beyond 5 deviations."""
    rng = np.random.default_rng(0)
    n, cells = 1 << 21, 4096.0
    words = rng.integers(2**32, size=(4, n), dtype=np.uint32)
    words[0] >>= np.uint32(18)
    x, y = draw(words, np.float64(cells))
    length = np.hypot(x.astype(np.float64), y) / cells
    share = np.exp(-(length**2) / 2) * 2.0**18  # uniform in (0, 1) if the law of the length is right
    assert kstest(share, "uniform").pvalue > 0.001
    assert len(np.unique(np.stack([x, y]), axis=1).T) > 0.9 * n  # a pair is seldom drawn twice


def draw(words: NDArray[np.uint32], sigma: np.float64) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    n = words.shape[1]
    x, y = np.empty(n, np.float32), np.empty(n, np.float32)
    box_muller(words, sigma, x, y, np.empty((2, n)))
    return x, y


def test_marginal_cells_have_the_exact_probabilities() -> None:
    """A coarse grid, 16 cells a deviation, against differences of the normal distribution function."""
    n = 1 << 22
    out = np.empty(n, np.float32)
    fill_rounded(out, np.uint64(3), 0, np.float64(16.0))
    edges = np.arange(-64.5, 65)
    seen = np.histogram(out, edges)[0]
    expected = n * np.diff(norm.cdf(edges / 16))
    assert ((seen - expected) ** 2 / expected).sum() < chi2.isf(0.001, len(seen))


def test_the_law_is_normal_in_its_middle_and_its_tails() -> None:
    n = 1 << 22
    z = filled(n).astype(np.float64)
    jitter = np.random.default_rng(0).uniform(-0.5, 0.5, n)  # undoes the rounding to whole numbers
    assert kstest((z + jitter) / SIGMA, norm.cdf).pvalue > 0.001
    edges = np.array([-np.inf, *np.arange(-4.5, 5), np.inf])
    seen, expected = np.histogram(z / SIGMA, edges)[0], n * np.diff(norm.cdf(edges))
    assert ((seen - expected) ** 2 / expected).sum() < chi2.isf(0.001, len(seen) - 1)


def test_draws_do_not_depend_on_each_other() -> None:
    """Correlations of normals and of their squares, between neighbours, pairs of one word pair, blocks and keys."""
    n = 1 << 20
    z = filled(n).astype(np.float64) / SIGMA
    other = filled(n, key=2).astype(np.float64) / SIGMA
    pairs = [(z, other)] + [(z[:-lag], z[lag:]) for lag in (1, BLOCK, 2 * BLOCK, NORMALS, 784)]
    for a, b in pairs:
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / math.sqrt(n)
        assert abs(np.corrcoef(a**2, b**2)[0, 1]) < 5 / math.sqrt(n)


def test_the_longest_and_the_shortest_draw() -> None:
    words = np.zeros((4, 2), np.uint32)
    words[:2, 1] = 2**32 - 1
    x, y = draw(words, np.float64(SIGMA))
    assert x[0] / SIGMA == pytest.approx(REACH, rel=1e-4)
    assert x[1] == y[1] == 0
    assert math.exp(-(REACH**2) / 2) == pytest.approx(2.0**-53)
    assert GridNoise(0.25).tails(3_072) < 1e-6
    assert GridNoise(1.0).tails(150_528) < 2e-4  # an ImageNet picture


@pytest.mark.parametrize("n", [1, 7, NORMALS - 1, NORMALS, NORMALS + 1, 5 * NORMALS + 300])
def test_any_length_is_filled_from_the_same_stream(n: int) -> None:
    assert np.array_equal(filled(n), filled(6 * NORMALS)[:n])
    assert np.isfinite(filled(n)).all()
    assert np.array_equal(filled(300, counter=counters_of(n)), filled(NORMALS * 7)[-(-n // NORMALS) * NORMALS :][:300])
    assert np.array_equal(filled(n), np.rint(filled(n)))


def test_the_same_seed_gives_the_same_copies_and_every_batch_is_fresh() -> None:
    x, rows = torch.arange(3.0).view(3, 1, 1, 1).expand(3, 1, 8, 8), np.array([0, 2, 2, 1])
    one, two = (Voting.of(nn.Flatten(), x, 0.25, seed=5, batch=10) for _ in range(2))
    first = one.noisy(rows).clone()
    assert first.shape == (4, 1, 8, 8)
    assert torch.equal(first, two.noisy(rows))
    assert not torch.equal(first, one.noisy(rows))
    other = Voting.of(nn.Flatten(), 0 * x, 0.25, seed=5, batch=10).noisy(rows)
    assert torch.equal(first - other, torch.tensor(rows).view(4, 1, 1, 1).expand(4, 1, 8, 8).float())


def test_votes_are_those_of_the_predicted_class() -> None:
    logits = torch.randn(500, 4, generator=torch.Generator().manual_seed(0)).round()  # with ties
    logits[3, 1] = logits[7, 0] = math.nan
    logits[9], logits[11, 2], logits[13] = math.nan, math.inf, -math.inf
    rows = np.arange(500) % 7
    counts, expected = np.zeros((7, 5), np.int64), np.zeros((7, 5), np.int64)
    count_votes(counts, rows, logits.numpy())
    np.add.at(expected, (rows, predicted_class(logits).numpy()), 1)
    assert np.array_equal(counts, expected)
