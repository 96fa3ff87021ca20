"""Suites: the worst case per point, their members and budgets, and the bound of the sampled suite."""

from __future__ import annotations

from math import comb
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor, nn

from radii.attacks.apgd import APGD
from radii.attacks.attack import AttackResult
from radii.attacks.by_name import attack, attack_by_name
from radii.attacks.fab import FAB
from radii.attacks.pgd import PGD
from radii.attacks.square import Square
from radii.attacks.suite import SUITES, Member, SuiteResult, _draw_survivors, members, run_suite, survivor_bound
from radii.errors import InputError
from radii.randomness import stream
from radii.threat import Ball

Digits = tuple[Tensor, Tensor]


def first_breaks(result: SuiteResult) -> dict[str, int]:
    """How many points each attack was the first to break."""
    return {name: result.broken_by.count(name) for name in result.passes}


def test_standard_has_the_budgets_of_autoattack() -> None:
    attacks = [member.attack for member in members("standard")]
    assert attacks == [
        APGD("ce", steps=100, restarts=1),
        APGD("dlr-targeted", steps=100, restarts=1, targets=9),
        FAB(steps=100, targets=9, restarts=1),
        Square(queries=5000, share=0.8, restarts=1),
    ]
    assert [member.attack for member in members("sampled")] == attacks
    assert {member.name for member in members("exhaustive")} >= {member.name for member in members("standard")}
    assert set(SUITES) == {"standard", "sampled", "exhaustive", "swift", "fast", "black-box", "decisions", "pgd"}
    with pytest.raises(InputError, match="Did you mean 'standard'"):
        members("standart")


def test_the_worst_case_counts(digits_net: nn.Module, digits: Digits) -> None:
    x, y = digits[0][1200:1260], digits[1][1200:1260]
    ball = Ball("linf", 0.1)
    attacks = (
        Member("weak", PGD(steps=3, step=0.3)),
        Member("apgd", APGD("dlr", steps=20)),
        Member("square", Square(queries=50)),
    )
    worst = run_suite(attacks, digits_net, x, y, ball)
    alone = [run_suite((member,), digits_net, x, y, ball).broken for member in attacks]
    assert torch.equal(worst.broken, alone[0] | alone[1] | alone[2]), "a point fares in the suite as it fares alone"
    assert first_breaks(worst)["weak"] == int(alone[0].sum())
    assert sum(worst.passes.values()) == int(worst.queries.sum())
    assert sum(first_breaks(worst).values()) == int(worst.broken.sum())


def test_the_audit_bound_covers_and_wastes_nothing() -> None:
    """For every truth K, the chance that the bound misses it is at most 5%: by enumeration."""
    survivors, sampled = 30, 12

    def chance(truth: int, seen: int) -> float:
        return comb(truth, seen) * comb(survivors - truth, sampled - seen) / comb(survivors, sampled)

    for truth in range(survivors + 1):
        possible = range(max(0, sampled - (survivors - truth)), min(truth, sampled) + 1)
        missed = sum(chance(truth, k) for k in possible if survivor_bound(survivors, sampled, k).at_most < truth)
        assert missed <= 0.05 + 1e-12
    for seen in range(sampled + 1):  # the bound itself is a truth that gives so few in more than 5% of the samples
        most = survivor_bound(survivors, sampled, seen).at_most
        assert sum(chance(most, k) for k in range(seen + 1)) > 0.05


def test_the_audit_bound_at_its_ends() -> None:
    assert survivor_bound(50, 50, 3).at_most == 3, "all were seen: nothing is left to guess"
    assert survivor_bound(0, 0, 0).at_most == 0
    quiet = survivor_bound(1000, 300, 0)
    assert 5 <= quiet.at_most <= 10, "300 quiet points support a claim of 1% of the rest"
    assert "at most" in str(quiet)
    sample = _draw_survivors(torch.arange(100, 200), 20, seed=0)
    assert len(sample.unique()) == 20
    assert torch.equal(sample, _draw_survivors(torch.arange(100, 200), 20, seed=0))
    assert len(_draw_survivors(torch.arange(5), 20, seed=0)) == 5
    drawn = torch.cat([_draw_survivors(torch.arange(100), 20, seed=seed) for seed in range(300)]).bincount()
    assert len(drawn) == 100
    assert 25 < int(drawn.min()) <= int(drawn.max()) < 95, "every survivor is drawn in about 60 of 300 samples"


class Pattern:
    """An attack that breaks the points whose first pixel lies below a level, without asking the model."""

    def __init__(self, level: float) -> None:
        self.level = level

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> AttackResult:
        return AttackResult(x, x[:, 0] < self.level, torch.ones_like(y))


@pytest.mark.parametrize("share", [0.0, 0.03, 0.1, 0.4])
def test_the_stated_bound_covers_in_repetitions(share: float) -> None:
    """400 sampled runs on break patterns of known share: the bound covers the full run's breaks in 95% of them.

    The limit allows three standard deviations of the simulation below 95%.
    """
    repetitions, n, sample = 400, 150, 40
    x = torch.rand(n, 1, generator=stream(0, "pattern"))
    y, ball, model = torch.zeros(n, dtype=torch.int64), Ball("linf", 0.1), nn.Identity()
    attacks = (Member("apgd-t", Pattern(0.2)), Member("fab-t", Pattern(0.2 + share / 2)))
    attacks += (Member("square", Pattern(0.2 + share)),)
    full = first_breaks(run_suite(attacks, model, x, y, ball))
    late = full["fab-t"] + full["square"]
    audits = [run_suite(attacks, model, x, y, ball, seed, sample=sample).survivor_bound for seed in range(repetitions)]
    covered = sum(audit is not None and audit.at_most >= late for audit in audits) / repetitions
    assert covered >= 0.95 - 3 * (0.95 * 0.05 / repetitions) ** 0.5
    widths = [audit.at_most - late for audit in audits if audit is not None]
    assert sum(widths) / len(widths) < 0.2 * n, "and is not covering by being useless"


def test_sampled_results_bound_the_full_run(digits_net: nn.Module, digits: Digits) -> None:
    """On a model where only Square works, the bound from a sample covers what a full run breaks."""

    class Staircase(nn.Module):
        def forward(self, batch: Tensor) -> Tensor:
            return digits_net((batch * 16).round() / 16)

    x, y = digits[0][1300:1350], digits[1][1300:1350]
    attacks = (Member("apgd-ce", APGD("ce", steps=5)), Member("square", Square(queries=80)))
    ball = Ball("linf", 0.12)
    covered = 0
    for seed in range(3):
        part = run_suite(attacks, Staircase(), x, y, ball, seed=seed, sample=20)
        full = run_suite(attacks, Staircase(), x, y, ball, seed=seed)
        assert first_breaks(full)["square"] > 5
        assert part.survivor_bound is not None
        assert part.survivor_bound.sampled == 20
        assert part.passes["square"] < full.passes["square"]
        covered += part.survivor_bound.at_most >= first_breaks(full)["square"]
    assert covered >= 2


def test_attacks_by_name(digits_net: nn.Module, digits: Digits) -> None:
    x, y = digits[0][1200:1220], digits[1][1200:1220]
    found = attack(digits_net, x, y, Ball("linf", 0.3), name="apgd-dlr")
    assert found.broken.all()
    with pytest.raises(InputError, match="Did you mean 'square'"):
        attack(digits_net, x, y, Ball("linf", 0.3), name="squares")


def test_attacks_by_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_attacks.py").write_text(
        "from radii.attacks.pgd import PGD\nONE_STEP = PGD(steps=1)\nclass Own(PGD): pass\nNUMBER = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert attack_by_name("own_attacks:ONE_STEP") == PGD(steps=1)
    assert attack_by_name("own_attacks:Own").steps == 40  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="must be callable"):
        attack_by_name("own_attacks:NUMBER")


FEW_QUERIES = Square(queries=200)


def test_inputs_are_never_changed(digits_net: nn.Module, digits: Digits) -> None:
    """A model that normalizes in place gets the result of the same function out of place."""

    class InPlace(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return digits_net(x.sub_(0.1).div_(0.9))

    class OutOfPlace(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return digits_net((x - 0.1) / 0.9)

    x, y, ball = digits[0][1200:1208], digits[1][1200:1208], Ball("linf", 0.05)
    before = x.clone()
    for name in ("pgd", "apgd-ce", "fab-t", f"{__name__}:FEW_QUERIES", "minimum-norm", "noise", "blur"):
        first, second = (attack(kind().eval(), x, y, ball, name=name) for kind in (InPlace, OutOfPlace))
        assert torch.equal(x, before)
        assert torch.equal(first.broken, second.broken)
        assert torch.equal(first.x_adv, second.x_adv)
