"""Smoothing on classifiers whose smoothed radius is known: a half-space's is the distance to its boundary."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import beta, norm
from torch import nn

from radii.certificates.certificate import Certificate
from radii.certificates.smoothing import randomized
from radii.certificates.smoothing._noise import GRID, GridNoise, Voting, to_grid
from radii.certificates.smoothing._radius_ladder import Ladder, LadderPosition
from radii.certificates.smoothing._sequential_binomial import SequentialTest
from radii.errors import InputError

SIGMA = 0.25


class HalfSpace(nn.Module):
    """Class 0 below ``edge`` in the first coordinate, class 1 above; smoothed, the radius is the distance to it."""

    def __init__(self, edge: float) -> None:
        super().__init__()
        self.edge = edge

    def forward(self, x):
        first = x.flatten(1)[:, 0]
        return torch.stack([self.edge - first, first - self.edge], 1)


class Slices(nn.Module):
    """Ten classes in turn along the first coordinate, each ``width`` wide; NaN beyond ``end``."""

    def __init__(self, width: float, end: float = float("inf")) -> None:
        super().__init__()
        self.width, self.end = width, end

    def forward(self, x):
        first = x.flatten(1)[:, 0]
        logits = nn.functional.one_hot((first / self.width).floor().long() % 10, 10).float()
        return torch.where((first > self.end)[:, None], torch.nan, logits)


def at(value: float, n: int = 1, dimensions: int = 1) -> torch.Tensor:
    return torch.full((n, dimensions), value)


@pytest.mark.parametrize(("alpha", "radius"), [(0.01, 0.25)])
def test_false_certificates_stay_below_alpha(alpha, radius) -> None:
    """10,000 inputs whose true radius is a hair below the target: each certificate would be false."""
    n = 10_000
    x = at(0.25, n)
    model = HalfSpace(0.25 + radius - 1e-6)
    certificate = randomized.certify_sequential(model, x, SIGMA, [radius], most=300, alpha=alpha, batch=5000)
    false = int(certificate.covers(radius).sum())
    assert false <= alpha * n + 3 * np.sqrt(alpha * n)
    assert false >= 0.3 * alpha * n  # the error is spent, not wasted


def test_false_certificates_of_the_ladder_stay_below_alpha() -> None:
    """Several radii at full alpha each: only the first true hypothesis can err."""
    n, alpha, radii = 2000, 0.02, [0.1, 0.2, 0.25, 0.3]
    x = at(0.25, n)
    certificate = randomized.certify_sequential(
        HalfSpace(0.25 + 0.19999), x, SIGMA, radii, most=300, alpha=alpha, batch=5000
    )
    false = int((certificate.radius >= 0.2).sum())
    assert alpha * n * 0.2 <= false <= alpha * n + 3 * np.sqrt(alpha * n)
    assert float((certificate.radius >= 0.1).double().mean()) > 0.3


def test_certify_with_fixed_samples_covers() -> None:
    n, alpha = 2000, 0.01
    x = at(0.25, n)
    certificate = randomized.certify(HalfSpace(0.45), x, SIGMA, samples=200, selection=20, alpha=alpha, batch=5000)
    too_large = int((certificate.radius > 0.2).sum())
    assert too_large <= alpha * n + 3 * np.sqrt(alpha * n)
    assert float(certificate.radius.median()) > 0.1


def test_certify_is_the_formula_of_cohen_et_al() -> None:
    """Without failures: sigma * Phi^-1(alpha^(1/n)), less the accounted tails and the way to the grid."""
    certificate = randomized.certify(HalfSpace(9.0), at(0.5), SIGMA, samples=1000, alpha=0.001)
    exact = SIGMA * norm.ppf(0.001 ** (1 / 1000) - GridNoise(SIGMA).tails(1))
    assert float(certificate.radius[0]) <= exact
    assert float(certificate.radius[0]) == pytest.approx(exact, rel=1e-9)
    assert exact == pytest.approx(0.616, abs=1e-3)
    assert beta.ppf(0.001, 1000, 1) == pytest.approx(0.001 ** (1 / 1000))
    assert certificate.kind == "probabilistic"
    assert certificate.alpha == 0.001


def test_the_way_to_the_grid_is_taken_off() -> None:
    """784 coordinates half a cell off the grid: each certificate loses half the diagonal of a cell."""
    half = np.sqrt(784) * GRID / 2
    tails = GridNoise(SIGMA).tails(784)
    certificate = randomized.certify(HalfSpace(9.0), at(0.5 + GRID / 2, 1, 784), SIGMA, samples=100, alpha=0.001)
    exact = SIGMA * norm.ppf(0.001 ** (1 / 100) - tails) - half
    assert float(certificate.radius[0]) == pytest.approx(exact, rel=1e-9)
    assert float(certificate.radius[0]) <= exact
    ladder = Ladder.of(SIGMA, [0.1, 0.25], 784, 10, 0.001, 10_000)
    for radius, test in zip(ladder.radii, ladder.tests, strict=True):
        level = norm.cdf((radius + half) / SIGMA) + tails
        assert level <= test.p == pytest.approx(level, rel=1e-9)


def test_a_radius_counts_only_above_all_smaller_ones() -> None:
    """A larger radius that passes first waits for the smaller one."""
    late, early = ((-1, 0), (0, 0))  # failures that are allowed at each look
    tests = tuple(SequentialTest(0.6, (10, 20), allowed, (11, 21), 0.0, 0.0) for allowed in (late, early))
    position = LadderPosition(Ladder((0.1, 0.2), (10, 20), tests))
    position.judge(np.array([10, 0]))
    assert position.height == 0
    position.judge(np.array([20, 0]))
    assert position.height == 2


@pytest.mark.parametrize("need", [903, 8810, 87392])
def test_needed_votes_of_prach_and_lampert(need) -> None:
    """36/255 at sigma 1/8 is certified from 903 of 1000, 8810 of 10^4, 87392 of 10^5 votes on."""
    n = 10 ** len(str(need))

    def radius(won: int) -> float:
        return float(norm.ppf(beta.ppf(0.001, won, n - won + 1))) / 8

    assert radius(need) >= 36 / 255 > radius(need - 1)


def test_sequential_agrees_with_fixed_and_draws_fewer() -> None:
    x = torch.linspace(0, 1, 60)[:, None]
    model, radius = Slices(0.6), 0.2
    fixed = randomized.certify(model, x, SIGMA, samples=10_000)
    ours = randomized.certify_sequential(model, x, SIGMA, [radius], most=10_000)
    differ = fixed.covers(radius) != ours.covers(radius)
    assert int(differ.sum()) <= 2
    both = fixed.covers(radius) & ours.covers(radius)
    assert torch.equal(fixed.prediction[both], ours.prediction[both])
    assert ours.samples is not None
    assert int(ours.samples.max()) <= 10_000
    assert float(ours.samples.double().mean()) < 10_100 / 4


def test_simultaneous_divides_alpha_and_says_so() -> None:
    x = at(0.5, 50)
    each = randomized.certify_sequential(HalfSpace(2.0), x, SIGMA, [0.25])
    together = randomized.certify_sequential(HalfSpace(2.0), x, SIGMA, [0.25], simultaneous=True)
    assert each.alpha == pytest.approx(50 * together.alpha)
    assert "together" in together.assumptions[-1]
    assert int(together.samples[0]) > int(each.samples[0])


def test_same_seed_same_votes() -> None:
    x = torch.linspace(0, 1, 7)[:, None]
    first, again, other = (
        randomized.certify_sequential(Slices(0.5), x, SIGMA, [0.1], most=500, seed=seed).samples for seed in (3, 3, 4)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_nan_is_no_vote() -> None:
    """Beyond 0.4 the network says NaN: that is a failure of every class, never a class."""
    certificate = randomized.certify_sequential(Slices(5.0, end=0.4), at(0.3), SIGMA, [0.2], most=1000)
    assert int(certificate.prediction[0]) == -1
    assert float(certificate.radius[0]) == 0.0


def test_estimate_is_called_one_and_is_clipped() -> None:
    x = torch.tensor([[0.1], [0.45], [0.9]])
    plug_in = randomized.estimate(HalfSpace(0.5), x, 1 / 8)
    assert plug_in.kind == "estimate"
    assert not plug_in.is_certified
    assert float(plug_in.radius[0]) == pytest.approx(0.2908, abs=1e-4)  # the clip's largest: sigma * Phi^-1(0.99)
    assert float(plug_in.radius[1]) == pytest.approx(0.05, abs=0.02)
    assert plug_in.prediction.tolist() == [0, 0, 1]


def test_noise_and_inputs_are_on_the_grid_and_their_sum_is_exact() -> None:
    generator = torch.Generator().manual_seed(0)
    x, moved = to_grid(torch.rand(100, 784, generator=generator))
    total = Voting.of(nn.Identity(), x, SIGMA, seed=0).noisy(np.arange(100))
    noise = total.double() - x.double()
    assert torch.equal(noise / GRID, (noise / GRID).round())
    assert float(noise.std()) == pytest.approx(SIGMA, rel=0.01)
    assert float(moved.max()) <= np.sqrt(784) * GRID / 2


def test_plain_float_noise_would_round() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(1000, 100, generator=generator)
    noise = torch.randn(1000, 100, generator=generator) * SIGMA
    rounded = (x + noise).double() != x.double() + noise.double()
    assert float(rounded.double().mean()) > 0.5


def test_votes_are_counted_across_batches() -> None:
    votes = Voting.of(Slices(0.5), at(0.25, 5), SIGMA, seed=0, batch=16)
    votes.draw([(0, 7), (3, 40), (4, 1)])
    votes.draw([(0, 3)])
    assert votes.counts.sum(1).tolist() == [10, 0, 0, 40, 1]


def test_logits_of_any_type_can_vote() -> None:
    class Half(nn.Module):
        def forward(self, x):
            return torch.stack((x[:, 0], 1 - x[:, 0]), 1).bfloat16()

    votes = Voting.of(Half(), at(0.9, 2), SIGMA, seed=0)
    votes.draw([(0, 100), (1, 100)])
    assert votes.counts.sum(1).tolist() == [100, 100]


def test_ladder_refuses_what_cannot_be_certified() -> None:
    with pytest.raises(InputError, match=r"needs 1,276,\d+ samples even if none"):
        Ladder.of(0.25, [1.1], 1, 10, 0.001, 10_000)
    with pytest.raises(InputError, match="out of reach"):
        Ladder.of(0.25, [1.5], 784, 10, 0.001, 10_000)
    assert Ladder.of(0.25, [0.25, 1.1], 1, 10, 0.001, 10_000).radii == (0.25,)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: randomized.certify_sequential(HalfSpace(1), at(0.5), SIGMA, []), "positive"),
        (lambda: randomized.certify_sequential(HalfSpace(1), at(0.5), SIGMA, [-0.1]), "positive"),
        (lambda: randomized.certify(HalfSpace(1), at(0.5), SIGMA, alpha=1.5), "alpha"),
        (lambda: randomized.certify(HalfSpace(1), at(0.5), SIGMA, samples=0), "at least one sample"),
        (lambda: randomized.certify(HalfSpace(1), at(1.5), SIGMA), r"\[0, 1\]"),
        (lambda: randomized.certify(HalfSpace(1), at(0.5), -1.0), "sigma"),
        (lambda: randomized.certify(HalfSpace(1), at(1e4), SIGMA, box=None), "at most 64"),
    ],
)
def test_bad_input_is_said(call, said) -> None:
    with pytest.raises(InputError, match=said):
        call()


def test_a_smoothed_certificate_is_a_certificate() -> None:
    certificate = randomized.certify_sequential(HalfSpace(2.0), at(0.5), SIGMA, [0.1, 0.25])
    assert isinstance(certificate, Certificate)
    assert certificate.radius.tolist() == [0.25]
    assert certificate.norm == "l2"


def test_a_ladder_of_two_radii_errs_as_rarely_as_one_test() -> None:
    """Exactly: sigma 1, radii 0.06 and 0.2, two classes, P(A) = Phi(0.2).

    An error is A at 0.2, which is the truth's border, or B anywhere: the sum of both chances must be at most alpha.
    """

    from radii.certificates.smoothing._sequential_binomial import passing

    alpha, p = 0.05, float(norm.cdf(0.2))
    for classes in (2, 10):
        ladder = Ladder.of(1.0, [0.06, 0.2], 1, classes, alpha, 2000)
        first, second = ladder.tests
        upper = passing(ladder.looks, second.allowed, p)
        rival = passing(ladder.looks, first.allowed, 0.5) * (classes - 1)
        assert upper + rival <= alpha
        # and by simulation of the climb itself, with two classes
        if classes == 2:
            rng, wrong, repetitions = np.random.default_rng(0), 0, 4000
            for _ in range(repetitions):
                position, votes, seen = LadderPosition(ladder), np.zeros(2, np.int64), 0
                while not position.done:
                    more = ladder.looks[position.look] - seen
                    won = rng.binomial(more, p)
                    votes += (won, more - won)
                    seen += more
                    position.judge(votes)
                wrong += (position.height == 2 and position.top == 0) or (position.height > 0 and position.top == 1)
            assert wrong <= alpha * repetitions + 4 * (alpha * repetitions) ** 0.5
