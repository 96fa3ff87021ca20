"""Sequential tests against exact probabilities, and the gate on models whose shares are known."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import radii
from radii.errors import InputError
from radii.evaluation._sequential_tests import STAKES, Change, DropTest, FloorTest, _wealth
from radii.evaluation.gate import _order, gate, outcomes
from radii.evaluation.gate_result import Comparison, Former, GateResult, Rates, RequirementResult
from radii.evaluation.requirement import Requirement


def answers(test: FloorTest, successes: int) -> tuple[float, float, float]:
    """P(pass), P(fail) and the mean number of points, exactly, by walking over (successes, failures)."""
    total, passes, fails, points = test.population, 0.0, 0.0, 0.0
    now = {(0, 0): 1.0}
    while now:
        then: dict[tuple[int, int], float] = {}
        for (k, j), chance in now.items():
            left = total - k - j
            for won, odds in ((1, (successes - k) / left), (0, (total - successes - j) / left)):
                if odds <= 0:
                    continue
                state = (k + won, j + 1 - won)
                said = test.decide(*state)
                if said is None:
                    then[state] = then.get(state, 0.0) + chance * odds
                    continue
                points += chance * odds * sum(state)
                passes, fails = passes + chance * odds * (said == "pass"), fails + chance * odds * (said == "fail")
        now = then
    return passes, fails, points


@pytest.mark.parametrize(("floor", "margin", "alpha", "beta"), [(0.5, 0.1, 0.05, 0.05), (0.9, 0.05, 0.1, 0.02)])
def test_error_rates_hold_exactly_for_every_share(floor: float, margin: float, alpha: float, beta: float) -> None:
    test = FloorTest(120, floor, margin, alpha, beta)
    for successes in range(0, 121, 4):
        passes, fails, _ = answers(test, successes)
        assert passes + fails == pytest.approx(1)
        assert successes < test.enough or fails <= alpha + 1e-12
        assert successes > test.too_few or passes <= beta + 1e-12
    for edge, wrong in ((test.enough, 1), (test.too_few, 0)):
        assert answers(test, edge)[wrong] > 0.2 * (alpha if wrong else beta)  # the bounds are not wasteful


def test_the_counts_at_a_floor_are_the_nearest_whole_ones() -> None:
    """K1 is the least count whose share reaches the floor, K0 the greatest at the floor less the margin, below K1."""
    for population, floor, margin in product((1, 7, 30, 121), ("0.5", "0.45", "0.9", "1"), ("0.05", "0.1")):
        test = FloorTest(population, float(floor), float(margin))
        least, most = Fraction(floor) * population, (Fraction(floor) - Fraction(margin)) * population
        assert test.enough == min(k for k in range(population + 1) if k >= least)
        assert test.too_few == min(test.enough - 1, max(k for k in range(population + 1) if k <= most))


def test_the_ratio_is_that_of_hypergeometric_probabilities() -> None:
    from scipy.stats import hypergeom

    test = FloorTest(60, 0.5, 0.1)
    for k, j in product(range(0, 20, 5), range(0, 20, 5)):
        ratio = hypergeom(60, test.enough, k + j).logpmf(k) - hypergeom(60, test.too_few, k + j).logpmf(k)
        assert test._rise[k] + test._fall[j] == pytest.approx(ratio)


def test_after_all_points_the_answer_is_the_truth() -> None:
    test = FloorTest(10, 0.5, 0.1, 1e-6, 1e-6)
    assert [test.decide(k, 10 - k) for k in (0, 3, 5, 10)] == ["fail", "fail", "pass", "pass"]
    assert FloorTest(1, 1.0, 0.05).decide(1, 0) == "pass"


def test_few_points_are_enough_and_boundaries_agree_with_decisions() -> None:
    test = FloorTest(1000, 0.45, 0.05)
    fails, passes = test.least_successes()
    for n in (50, 300, 999):
        said = [test.decide(k, n - k) for k in range(n + 1)]
        assert fails[n] == max((k for k, answer in enumerate(said) if answer == "fail"), default=-1)
        assert passes[n] == min((k for k, answer in enumerate(said) if answer == "pass"), default=1001)
    rng = np.random.default_rng(0)
    stops = []
    for _ in range(200):
        seen = rng.permuted(np.arange(1000) < 550).cumsum()
        stops.append(int(((seen <= fails[1:]) | (seen >= passes[1:])).argmax()) + 1)
    assert np.mean(stops) < 1000 / 5


def test_wealth_is_fair_under_the_hypotheses() -> None:
    """The mean wealth over all sequences of five points is one, so that Ville's inequality applies."""
    loss, gain = 0.2, 0.2
    mean = 0.0
    for path in product((-1, 0, 1), repeat=5):
        chance = np.prod([{-1: loss, 0: 1 - loss - gain, 1: gain}[step] for step in path])
        logs = path.count(-1) * np.log1p(STAKES) + path.count(1) * np.log1p(-STAKES)
        mean += chance * np.exp(_wealth(logs))
    assert mean == pytest.approx(1)


def ever(test: DropTest, said: Change, loss: float, gain: float, points: int) -> float:
    """P(the test says ``said`` after some of so many points), exactly, by walking over (losses, gains)."""
    chance, now = 0.0, {(0, 0): 1.0}
    for n in range(1, points + 1):
        then: dict[tuple[int, int], float] = {}
        for (k, j), mass in now.items():
            for state, odds in (((k + 1, j), loss), ((k, j + 1), gain), ((k, j), 1 - loss - gain)):
                if mass * odds > 1e-9:
                    then[state] = then.get(state, 0.0) + mass * odds
        stopped = [state for state in then if test.decide(*state, n - sum(state)) == said]
        chance += sum(then.pop(state) for state in stopped)
        now = then
    return chance


def test_a_drop_test_errs_as_rarely_as_it_says() -> None:
    """Under the nearest hypotheses that are wrong to refute: equal shares, and a drop of just the margin."""
    test = DropTest(0.1, 0.1, 0.1)
    assert 0.02 < ever(test, "dropped", 0.5, 0.5, 60) <= 0.1
    assert ever(test, "dropped", 0.2, 0.2, 25) <= 0.1
    assert 0.02 < ever(test, "kept", 0.1, 0.0, 100) <= 0.1
    assert ever(test, "kept", 0.25, 0.15, 25) <= 0.1


def test_a_drop_test_answers_at_the_first_sufficient_wealth() -> None:
    """Of losses alone, and of equal points alone: the mean over the stakes is the wealth."""
    test = DropTest(0.05, 0.02, 0.04)
    stakes = STAKES / (1 - 0.05)
    losses = min(k for k in range(100) if np.mean((1 + STAKES) ** k) >= 1 / 0.02)
    equal = min(n for n in range(500) if np.mean((1 + 0.05 * stakes) ** n) >= 1 / 0.04)
    assert [test.decide(k, 0, 0) for k in (losses - 1, losses)] == ["open", "dropped"]
    assert [test.decide(0, 0, n) for n in (equal - 1, equal)] == ["open", "kept"]


def test_drops_are_noticed_and_equal_results_are_kept() -> None:
    test = DropTest(0.05)
    assert test.decide(0, 0, 30) == "open"
    assert test.decide(0, 0, 200) == "kept"
    assert test.decide(12, 0, 100) == "dropped"
    assert test.decide(5, 5, 90) == "open"
    with pytest.raises(InputError, match="alpha must be above 0"):
        DropTest(alpha=0.7)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("robust>=0.4", "need a threat"),
        ("clean(l2:1)>=0.4", "clean has none"),
        ("robust(linf:8/255)=0.4", r"Did you mean robust\(linf:8/255\)>=0.4"),
        ("robsut(linf:8/255)>=0.4", "Did you mean 'robust'"),
        ("clean>=1.4", "at most 1"),
        ("clean>=0", "above 0"),
        ("clean>=0.4.4", "not a number"),
        ("robust(linf:eight)>=0.4", "not a number"),
    ],
)
def test_wrong_requirements_are_explained(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Requirement.parse(text)


def test_a_floor_in_percent_is_a_hundredth() -> None:
    for text, floor in (("0.5%", 0.005), ("1%", 0.01), ("45%", 0.45), ("100%", 1.0), ("0.5", 0.5), ("1", 1.0)):
        assert Requirement.parse(f"clean>={text}").floor == floor


def test_every_point_comes_once_the_former_ones_first() -> None:
    rows, former = np.arange(5, 40), Former({"clean": {9: True, 30: False}, "robust(linf:0.1)": {30: True, 6: True}})
    order = _order(rows, former, 3)
    assert sorted(order.tolist()) == rows.tolist()
    assert order[:3].tolist() == [9, 30, 6]
    assert order.tolist() != _order(rows, former, 4).tolist()


class Threshold(nn.Module):
    """Class 1 above 0.5: the distance of x to 0.5 is the true radius."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 2)
        with torch.no_grad():
            self.linear.weight.copy_(torch.tensor([[-1.0], [1.0]]))
            self.linear.bias.copy_(torch.tensor([0.5, -0.5]))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


def points(count: int = 400, near: float = 0.3, wrong: float = 0.1) -> radii.Dataset:
    """A share ``near`` of the points lies within 0.05 of the threshold; a share ``wrong`` has the other label."""
    rng = np.random.default_rng(1)
    place = rng.permutation(count)
    away = np.where(place < near * count, 0.05, 0.4)
    side = rng.integers(0, 2, count)
    label = np.where(place >= (1 - wrong) * count, 1 - side, side)
    x = 0.5 + np.where(side == 1, away, -away)
    return radii.Dataset(x[:, None].astype(np.float32), label.astype(np.int64), ("low", "high"), "line")


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("clean>=0.89", True),
        ("clean>=0.97", False),
        ("robust(linf:0.1)>=0.59", True),
        ("robust(linf:0.1)>=0.75", False),
        ("proved(l2:0.1)>=0.59", True),
        ("proved(l2:0.1)>=0.75", False),
    ],
)
def test_gate_knows_shares(text: str, passes: bool) -> None:
    result = gate(Threshold(), points(), [text], rates=Rates(0.001, 0.001, 0.04), suite="fast")
    assert result.passed is passes
    assert result.points <= 400
    assert result.results[0].sentence().startswith("pass: " if passes else "FAIL: ")


def test_one_failed_requirement_fails_the_gate() -> None:
    for asked in (["clean>=0.5", "proved(l2:0.1)>=0.9"], ["proved(l2:0.1)>=0.9", "clean>=0.5"]):
        result = gate(Threshold(), points(), asked)
        assert sorted(own.passed for own in result.results) == [False, True]
        assert not result.passed
        assert result.to_dict()["passed"] is False


def test_outcomes_are_those_of_evaluate() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    x = torch.rand(64, 2)
    y = (x[:, 0] > 0.5).long()
    scores = radii.evaluate(model, x, y, radii.Ball("linf", 0.1), suite="fast", radii=False)
    robust, _ = outcomes(model, x, y, Requirement.parse("robust(linf:0.1)>=0.5"), "fast", 0)
    proved, _ = outcomes(model, x, y, Requirement.parse("proved(linf:0.1)>=0.5"), "fast", 0)
    assert robust.tolist() == (~scores.points.broken).tolist()
    assert proved.tolist() == (scores.points.proved & scores.points.correct).tolist()


def test_outcomes_within_a_change_are_those_of_a_threshold() -> None:
    """Brightness moves one pixel by at most 0.1: points nearer than that to the threshold, and wrong ones, are lost."""
    model = nn.Sequential(nn.Flatten(), Threshold())
    x = torch.tensor([0.3, 0.45, 0.55, 0.58, 0.8, 0.9])[:, None, None, None]
    y = torch.tensor([0, 0, 1, 1, 1, 0])
    for measure in ("robust", "proved"):
        for strength, lost in ((0.1, [1, 2, 3, 5]), (0.07, [1, 2, 5]), (0.01, [5])):
            asked = Requirement.parse(f"{measure}(brightness:{strength})>=0.5")
            held, note = outcomes(model, x, y, asked, "fast", 0)
            assert np.flatnonzero(~held).tolist() == lost
            assert note == ""


def test_a_drop_fails_and_the_same_model_is_kept() -> None:
    data, rates = points(400, wrong=0.0), Rates(margin=0.05)
    before = gate(Threshold(), data, ["clean>=0.6"], rates=rates)
    again = GateResult.of(before.to_dict(), "json")
    assert again == before
    same = gate(Threshold(), data, ["clean>=0.6"], rates=rates, former=Former.of(before), seed=5)
    assert same.passed
    assert same.results[0].rows == before.results[0].rows[: same.points]  # the same points, in the same order
    assert before.points == 100  # as many as a later gate needs
    worse = Threshold()
    with torch.no_grad():
        worse.linear.bias += torch.tensor([0.2, -0.2])  # half of the near points change sides
    dropped = gate(worse, data, ["clean>=0.6"], rates=rates, former=Former.of(before))
    assert not dropped.passed
    assert dropped.results[0].floor == "pass"
    assert "significant drop" in dropped.results[0].sentence()


COUNTED = {
    "clean": "{} of {} points are classified correctly",
    "robust": "attacks left {} of {} points unbroken",
    "proved": "{} of {} points are proved correct",
}
CHANGES = {
    None: "",
    "dropped": "a significant drop: 7 lost and 2 won of 49 common points",
    "kept": "no drop as large as the margin: 7 lost and 2 won of 49 common points",
    "open": "no significant drop: 7 lost and 2 won of 49 common points",
}


@settings(max_examples=300)
@given(
    st.sampled_from(list(COUNTED)),
    st.sampled_from(list(CHANGES)),
    st.integers(1, 3000),
    st.floats(0.1, 1),
    st.floats(0.01, 0.09),
    st.data(),
)
def test_no_sentence_reads_backwards(
    measure: str, change: Change | None, population: int, floor: float, margin: float, draw: st.DataObject
) -> None:
    """All outcomes of a sequential test, all measures and comparisons: the words say what the numbers say."""
    seen = draw.draw(st.integers(1, population))
    won = draw.draw(st.integers(0, seen))
    rates = Rates(0.04, 0.03, margin)
    test = FloorTest(population, floor, margin, rates.alpha, rates.beta)
    decision = test.decide(won, seen - won)
    assume(decision is not None)
    assert decision is not None
    comparison = None if change is None else Comparison(change, 7, 2, 40)
    requirement = Requirement(measure, None if measure == "clean" else radii.Ball("l2", 0.5), floor)  # type: ignore[arg-type]
    success = (True,) * won + (False,) * (seen - won)
    own = RequirementResult(requirement, decision, tuple(range(seen)), success, population, rates, comparison)
    said = own.sentence()
    assert said.startswith("pass: ") is own.passed
    assert said.startswith("FAIL: ") is not own.passed
    assert COUNTED[measure].format(f"{won:,}", f"{seen:,}") in said
    assert not re.search("at most|at least|below|above", said)
    assert CHANGES[change] in said
    assert ("drop" in said) is (change is not None)
    reached, required = won >= test.enough, f"{test.enough:,} of all {population:,} points are required."
    if reached or seen - won > population - test.enough:  # the counts alone decide
        assert required in said
        assert "probability" not in said
        assert decision == ("pass" if reached else "fail")
    else:
        rate, other = (rates.beta, "passes") if decision == "pass" else (rates.alpha, "fails")
        assert f"{other} with a probability of {100 * rate:g}% or less." in said
        assert f"{100 * floor:.4g}% of all {population:,} points are required" in said
        assert decision == "pass" or won / seen < floor  # a failed share is below the floor
        assert ("within the margin" in said) is (decision == "pass" and won / seen < floor)
        assert decision == "fail" or won / seen > floor - margin
    if change == "dropped":
        assert ("The floor is passed: " in said) is (decision == "pass")


def test_the_answer_is_that_of_all_points_that_were_measured() -> None:
    """Early points of one kind do not outlive the later ones: with all points measured the answer is the truth."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        x = np.where(rng.random(60) < 0.55, 0.4, 0.6).astype(np.float32)[:, None]
        data = radii.Dataset(x, np.zeros(60, np.int64), ("low", "high"), "line")
        result = gate(Threshold(), data, ["clean>=0.55"], rates=Rates(0.4, 0.4, 0.3), seed=int(rng.integers(1000)))
        assert result.points == 60
        assert result.passed is (result.results[0].share.correct >= 33)


def test_all_tests_of_a_gate_share_the_rate_of_false_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three floors and two comparisons: the chances of a false alarm add up to alpha."""
    rates, data, spent = Rates(alpha=0.05), points(200), list[float]()
    asked = ["clean>=0.5", "clean>=0.6", "robust(linf:0.01)>=0.5"]
    before = gate(Threshold(), data, asked[:2], rates=rates, suite="fast")

    def floor_test(population: int, floor: float, margin: float, alpha: float, beta: float) -> FloorTest:
        spent.append(alpha)
        return FloorTest(population, floor, margin, alpha, beta)

    def decide(self: DropTest, losses: int, gains: int, equal: int) -> Change:
        if losses + gains + equal == 1:  # the first common point of a comparison
            spent.append(self.alpha)
        return "kept"

    monkeypatch.setattr("radii.evaluation.gate.FloorTest", floor_test)
    monkeypatch.setattr(DropTest, "decide", decide)
    gate(Threshold(), data, asked, rates=rates, former=Former.of(before), suite="fast")
    assert len(spent) == 5
    assert sum(spent) == pytest.approx(rates.alpha)


def test_order_and_attacks_hang_on_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points come in a random order, and every batch of every seed has random numbers of its own."""
    used: list[int] = []

    def count(*arguments: object) -> tuple[np.ndarray, str]:
        used.append(int(arguments[-1]))  # type: ignore[call-overload]
        return np.ones(len(arguments[1]), bool), ""  # type: ignore[arg-type]

    monkeypatch.setattr("radii.evaluation.gate.outcomes", count)
    rows = [gate(Threshold(), points(200), ["clean>=0.5"], seed=seed).results[0].rows for seed in (0, 1, 0)]
    assert rows[0] == rows[2]
    assert rows[0] != rows[1]
    assert all(own != tuple(sorted(own)) for own in rows)
    third = len(used) // 3
    assert used[:third] == used[2 * third :]
    assert len(set(used)) == 2 * third


def test_models_without_layers_say_why_nothing_is_proved() -> None:
    box = radii.BlackBox(lambda x: np.stack([0.5 - x[:, 0], x[:, 0] - 0.5], 1), probabilities=False)
    result = gate(box, points(), ["proved(l2:0.1)>=0.5", "robust(linf:0.1)>=0.5"], suite="black-box")
    assert not result.results[0].passed
    assert "Nothing is proved" in result.results[0].sentence()
    assert result.results[1].passed
    with pytest.raises(InputError, match="at least one requirement"):
        gate(box, points(), [])
