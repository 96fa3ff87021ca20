"""The random networks of the unit tests, with other seeds: graphs of convolutions, and Lipschitz layers."""

from __future__ import annotations

from tests.bounds import test_relaxation_fuzz
from tests.certificates import test_margin_fuzz

from campaign.tally import Tally


def graphs(seed: int, count: int) -> Tally:
    """One random convolutional network: bounds of all methods against what is seen in the ball."""
    return _checked("graphs", seed, test_relaxation_fuzz.check, 3 * 60)


def lipschitz(seed: int, count: int) -> Tally:
    """One random network of Lipschitz layers: folding, derivative, attack inside every radius."""
    return _checked("lipschitz", seed, test_margin_fuzz.check, 12 * 40)


def _checked(kind: str, seed: int, check, points: int) -> Tally:
    tally = Tally(networks=1, points=points)
    try:
        tally.certificates += int(check(100_000 + seed) or 0)
    except AssertionError as error:
        tally.false += 1
        tally.notes.append(f"{kind} {seed}: {error}"[:300])
    return tally
