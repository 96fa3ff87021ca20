"""The law: forecasts, data needed, and what it refuses."""

from __future__ import annotations

import json
import math
import time

import numpy as np
import pytest

from radii.errors import InputError
from radii.forecasting._posterior import LINKS
from radii.forecasting.law import Needed, Observation, ScalingLaw, _hold_outs, fit
from radii.randomness import numpy_stream
from simulated_curves import Truth

TRUTH = Truth(LINKS[0], 0.85)
SIZES = tuple(50_000 // 2**k for k in range(8, -1, -1))


@pytest.fixture(scope="module")
def law() -> ScalingLaw:
    return fit(TRUTH.observed(SIZES, numpy_stream(0, "law")), classes=10, test_points=10_000)


def test_truths_pass_where_they_should() -> None:
    for link in LINKS:
        truth = Truth(link, 0.85)
        assert truth.at(50_000) == pytest.approx(0.62)
        assert truth.at(50_000) - truth.at(25_000) == pytest.approx(0.05)
        assert truth.at(1e15) == pytest.approx(0.85, abs=0.01)
        assert Truth(link, 0.85, stop=0.66).at(1e15) == 0.66


def test_forecasts_within_the_validated_factor(law: ScalingLaw) -> None:
    assert law.validated_factor >= 4
    assert law.limit == 50_000 * law.validated_factor
    for n in (200, 12_345, 50_000, 100_000, 200_000):
        at = law.predict(n)
        assert at.low <= TRUTH.at(n) <= at.high
        assert at.low < at.value < at.high
    gain = law.doubling(25_000)
    assert gain.low < 0.05 < gain.high


def test_beyond_it_the_law_refuses(law: ScalingLaw) -> None:
    with pytest.raises(InputError, match=r"these data validate a factor of \d+, up to") as refused:
        law.predict(law.limit * 2)
    assert str(refused.value).count(".") <= 2, "one sentence"
    with pytest.raises(InputError, match="No forecast at"):
        law.doubling(law.limit)
    with pytest.raises(InputError, match="below the smallest size measured"):
        law.predict(10)
    assert law.refusal(law.limit) is None


def test_data_needed(law: ScalingLaw) -> None:
    for target in (0.5, 0.6, 0.64):
        needed = law.needed(target)
        true = 50_000 * 2 ** np.interp(target, [TRUTH.at(50_000 * 2**d) for d in DOUBLINGS], DOUBLINGS)
        assert needed.low <= true <= needed.high
        assert needed.low <= needed.median <= needed.high
        assert needed.never < 0.01
    assert law.needed(0.15).high == law.smallest, "reached by the smallest size measured"
    far = law.needed(0.9)
    assert far.high is None
    assert 0.1 < far.never < 1
    assert f"more than {law.limit:,}" in far.words
    with pytest.raises(InputError, match=r"above chance \(0.1\) and below 1"):
        law.needed(0.05)


DOUBLINGS = np.linspace(-9, 6, 500)


def test_words_of_the_data_needed() -> None:
    assert (
        Needed(0.7, 60_123.4, 71_234.5, 90_000.4, 0.0, 1e5).words == "60,100 to 90,000 training points (median 71,200)"
    )
    without_end = "; no upper limit can be given (more than 100,000)"
    with_median = f"at least 60,100 training points (median 71,200){without_end}"
    assert Needed(0.7, 60_123.4, 71_234.5, None, 0.2, 1e5).words == with_median
    assert Needed(0.7, 60_123.4, None, None, 0.2, 1e5).words == f"at least 60,100 training points{without_end}"
    beyond = "more than 100,000 training points; how many, these data cannot tell"
    assert Needed(0.7, None, None, None, 0.2, 1e5).words == beyond


def test_hold_outs_hold_out_every_size_within_the_factor(law: ScalingLaw) -> None:
    for number, held in enumerate(law.hold_outs, 1):
        assert held.factor == 2**number
        assert max(held.fitted) <= 50_000 / held.factor < min(each.n for each in held.held_out)
        assert len(held.fitted) + len(held.held_out) == len(SIZES)
        assert len(held.fitted) >= (3 if held.factor == 2 else 4)
    assert all(held.holds for held in law.hold_outs if held.factor <= law.validated_factor)
    assert _hold_outs(law.sizes, law.family) == law.hold_outs, "deterministic"


def test_a_curve_that_bends_within_the_data_is_not_extrapolated() -> None:
    """It stops at 57%: the sizes below forecast more, miss, and nothing is said beyond the data."""
    stopped = Truth(LINKS[0], 0.85, stop=0.57)
    law = fit(stopped.observed(SIZES, numpy_stream(0, "bent")), classes=10, test_points=10_000)
    assert law.validated_factor == 1
    first = law.hold_outs[0]
    assert not first.holds
    assert first.bias > 0.02
    with pytest.raises(InputError, match=r"no extrapolation: smaller sizes forecast .* at 50,000, where 5\d\.\d% was"):
        law.predict(100_000)


def test_three_sizes_are_fitted_and_not_extrapolated() -> None:
    law = fit(TRUTH.observed(SIZES[-3:], numpy_stream(0, "few")), classes=10, test_points=10_000)
    assert law.validated_factor == 1
    with pytest.raises(InputError, match="takes 3 sizes of half the largest and below"):
        law.predict(60_000)
    assert law.predict(30_000).low < TRUTH.at(30_000) < law.predict(30_000).high


def test_one_seed_is_less_sure_than_three() -> None:
    widths = []
    for seeds in (1, 3):
        law = fit(TRUTH.observed(SIZES[-5:], numpy_stream(0, "seeds"), seeds=seeds), classes=10, test_points=10_000)
        at = law.envelope.at(100_000)
        widths.append(at.high - at.low)
    assert widths[0] > widths[1]


def test_a_ceiling_bounds_the_forecast() -> None:
    seen = TRUTH.observed(SIZES, numpy_stream(0, "law"))
    law = fit(seen, classes=10, test_points=10_000, ceiling=0.7)
    assert law.envelope.at(1e9).high <= 0.7
    assert law.needed(0.72).never == pytest.approx(1.0)
    with pytest.raises(InputError, match=r"Values must lie in \[0, 0.6\]"):
        fit(seen, classes=10, test_points=10_000, ceiling=0.6)


def test_the_same_data_give_the_same_law_within_a_second_or_so(law: ScalingLaw) -> None:
    start = time.process_time()
    again = fit(TRUTH.observed(SIZES, numpy_stream(0, "law")), classes=10, test_points=10_000)
    assert time.process_time() - start < 3, "0.5 s on a quiet machine, hold-outs included"
    assert json.dumps(again.summary(), allow_nan=False) == json.dumps(law.summary(), allow_nan=False)
    assert set(law.summary()["links"]) == {"logit", "probit", "gompertz", "weibull"}


@pytest.mark.parametrize(
    ("observations", "settings", "words"),
    [
        ([(100, 0, 0.5), (200, 0, 0.6)], {}, "at least 3 sizes, got 2"),
        ([], {}, "at least 3 sizes, got 0"),
        ([(100, 0, 0.5), (100, 0, 0.6), (200, 0, 0.6)], {}, "n = 100, seed 0 twice"),
        ([(100, 0, 62.0), (200, 0, 65.0), (400, 0, 68.0)], {}, r"Values must lie in \[0, 1\], got 62"),
        ([(100, 0, math.nan), (200, 0, 0.5), (400, 0, 0.6)], {}, r"Values must lie in \[0, 1\], got nan"),
        ([(0, 0, 0.5), (200, 0, 0.5), (400, 0, 0.6)], {}, "at least 1, got 0"),
        ([(100, 0, 0.01), (200, 0, 0.5), (400, 0, 0.6)], {}, "below the floor .* set the floor to 0"),
        ([(100, 0, 0.5), (200, 0, 0.5), (400, 0, 0.6)], {"classes": 1}, "at least 2 classes"),
        ([(100, 0, 0.5), (200, 0, 0.5), (400, 0, 0.6)], {"test_points": 0}, "1 test point"),
        ([(100, 0, 0.5), (200, 0, 0.5), (400, 0, 0.6)], {"ceiling": 1.2}, "floor < ceiling <= 1"),
    ],
)
def test_bad_input(observations: list[tuple], settings: dict, words: str) -> None:
    given = {"classes": 10, "test_points": 1000, **settings}
    with pytest.raises(InputError, match=words):
        fit([Observation(*each) for each in observations], **given)


def test_below_chance_with_a_floor_of_its_own() -> None:
    seen = [Observation(100 * 2**k, seed, 0.01 + 0.05 * k + 0.003 * seed) for k in range(5) for seed in range(2)]
    law = fit(seen, classes=10, test_points=1000, floor=0.0)
    assert law.predict(100).low < 0.05
