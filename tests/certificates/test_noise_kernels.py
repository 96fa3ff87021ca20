"""The noise generator against published words, float64 arithmetic and the normal law."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import chi2, kstest, norm
from torch import nn

from radii.certificates.smoothing.noise import TAIL, GridNoise, Voting
from radii.certificates.smoothing.noise_kernels import (
    BLOCK,
    NORMALS,
    REACH,
    box_muller,
    count_votes,
    counters_of,
    fill_rounded,
    philox,
)
from radii.models.classifier import predicted_class

SIGMA = np.float32(2**14)


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
def test_normals_are_those_of_float64(seed: int) -> None:
    rng = np.random.default_rng(seed)
    radius, angle = rng.integers(2**32, size=(2, 4096), dtype=np.uint32)
    radius[:4], angle[:8] = (0, 1, 2, 2**32 - 1), np.arange(8, dtype=np.uint32) << np.uint32(29)
    x, y = np.empty(4096, np.float32), np.empty(4096, np.float32)
    scale = np.float32(2**20)  # fine enough that rounding to whole numbers is below float32's own
    box_muller(radius, angle, scale, x, y)
    length = np.sqrt(-2 * np.log(((radius >> 1) + 0.5) * 2.0**-31))
    turn = 2 * math.pi * angle.astype(np.float64) * 2.0**-32
    error = 2e-6 + 2**-25 / length  # the second: u as float32
    assert (abs(x / scale - length * np.cos(turn)) < error).all()
    assert (abs(y / scale - length * np.sin(turn)) < error).all()


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
    radius, angle = np.array([0, 2**32 - 1], np.uint32), np.zeros(2, np.uint32)
    x, y = np.empty(2, np.float32), np.empty(2, np.float32)
    box_muller(radius, angle, SIGMA, x, y)
    assert x[0] / SIGMA == pytest.approx(REACH, rel=1e-4)
    assert x[1] == y[1] == 0
    assert math.exp(-(REACH**2) / 2) == pytest.approx(TAIL)
    assert GridNoise(1.0).tails(150_528) < 4e-5  # an ImageNet picture; 1.2e-3 by torch's 24-bit generator


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
