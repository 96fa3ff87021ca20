"""The doctor finds each fault that was built in, names its remedy, and finds nothing in a sound model."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import radii
from radii import progress
from radii.evaluation._likely_cause import likely_cause
from radii.evaluation.doctor import Diagnosis, words
from radii.models.classifier import check_inputs
from radii.progress import TextDisplay

Digits = tuple[Tensor, Tensor]


class Around(nn.Module):
    """A net with something done to its input and its output."""

    def __init__(self, net: nn.Module, before: Callable[[Tensor], Tensor], after: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.before, self.after = net, before, after

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.net(self.before(x)))


def same(values: Tensor) -> Tensor:
    return values


FAULTS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor], str, str]] = {
    "grey levels": (lambda x: x / 255, same, "normalization", "std=1 / 255"),
    "normalized": (lambda x: x * 0.3081 + 0.1307, same, "normalization", "mean=0.1307, std=0.3081"),
    "order": (same, lambda z: z.roll(1, 1), "order of classes", "order of the data's classes"),
    "random": (same, lambda z: z + torch.randn_like(z), "randomness", "Fix the random numbers"),
    "stairs": (lambda x: (x * 8).round() / 8, same, "gradients", "black-box"),
}


def verdicts(diagnosis: Diagnosis) -> dict[str, str]:
    return {finding.check: finding.verdict for finding in diagnosis.findings}


def test_a_sound_model_passes(digits_net: nn.Module, digits: Digits) -> None:
    diagnosis = radii.doctor(digits_net, digits[0][1200:1300], digits[1][1200:1300], "linf:0.05")
    assert diagnosis.passed, diagnosis
    assert not {"wrong", "doubtful"} & set(verdicts(diagnosis).values()), diagnosis
    assert {"inputs", "clean accuracy", "gradients", "proofs", "time of evaluate"} <= verdicts(diagnosis).keys()
    assert diagnosis.summary()["version"] == 1
    assert "of 100 points" in repr(diagnosis)
    assert len(diagnosis.table().rows) == len(diagnosis.findings)


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_with_its_remedy(fault: str, digits_net: nn.Module, digits: Digits) -> None:
    before, after, check, remedy = FAULTS[fault]
    model = Around(digits_net, before, after).eval()
    diagnosis = radii.doctor(model, digits[0][1200:1400], digits[1][1200:1400], "linf:0.05")
    assert not diagnosis.passed
    assert verdicts(diagnosis)[check] == "wrong", diagnosis
    assert any(each.startswith(check) and remedy in each for each in diagnosis.remedies), diagnosis.remedies


def test_what_cannot_be_used_is_a_finding(digits_net: nn.Module, digits: Digits) -> None:
    for x, says in ((digits[0][:30] * 255, "give x / 255"), (digits[0][:30, :, :4], "fails on inputs")):
        diagnosis = radii.doctor(digits_net, x, digits[1][:30])
        assert not diagnosis.passed
        assert says in diagnosis.findings[-1].says, diagnosis
    tiny = radii.doctor(digits_net, digits[0][:30] / 255, digits[1][:30])
    assert "twice" in tiny.findings[0].remedy


def test_no_cause_is_named_by_chance(digits: Digits) -> None:
    """Random networks: thirty of them, and none is told a scale or an order."""
    x, y = digits[0][:200], digits[1][:200]
    for seed in range(30):
        torch.manual_seed(seed)
        assert likely_cause(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), x, y) is None


def test_a_table_is_told_of_its_own_scale() -> None:
    generator = np.random.default_rng(0)
    raw = generator.normal((1000.0, 3.0), (200.0, 1.0), (300, 2))
    standard = (raw - raw.mean(0)) / raw.std(0)
    y = (standard[:, 0] > standard[:, 1]).astype(int)
    model = nn.Linear(2, 2, bias=False)
    model.weight.data = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    cause = likely_cause(model, torch.tensor(raw).float(), torch.tensor(y))
    assert cause is not None
    assert "Pipeline" in str(cause)
    assert "radii.Classifier" not in str(cause)
    with pytest.raises(radii.InputError, match="nobox") as refusal:
        check_inputs(torch.tensor(raw).float())
    assert "radii.Classifier" not in str(refusal.value)


def test_clean_accuracy_and_chance_are_said_before_any_attack(
    digits_net: nn.Module, digits: Digits, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = digits[0][1200:1240], digits[1][1200:1240]
    told: list[str] = []

    class Telling(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if torch.is_grad_enabled():
                told.append(capsys.readouterr().err)
            return digits_net(x).roll(1, 1)

    with progress.display(TextDisplay(over=False)):
        radii.evaluate(Telling(), x, y, "linf:0.05", suite="pgd", certificate=None)
    first = next(text for text in told if text)
    assert first.startswith("Clean accuracy 0.0%")
    assert "Alarm, accuracy at chance" in first
    with caplog.at_level(logging.WARNING, "radii"):
        radii.evaluate(Telling(), x, y, "linf:0.05", suite="pgd", certificate=None)
    assert "no more than by guessing" in caplog.text, "without a display a warning says it"


def test_times_as_people_say_them() -> None:
    assert [words(seconds) for seconds in (0.2, 75.0, 600.0, 8000.0)] == ["1 s", "75 s", "10 min", "2.2 h"]
