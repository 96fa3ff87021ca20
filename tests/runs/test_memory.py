"""Memory: workers that do not fit beside each other take turns; one always goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from radii.runs.component_specs import DataSpec
from radii.runs.executors import Observer, Processes
from radii.runs.executors import _memory_limits as memory_limits
from radii.runs.step import Step
from radii.runs.steps import AuditStep
from radii.runs.store import Store


def audits(count: int) -> list[AuditStep]:
    return [AuditStep(data=DataSpec.of("digits"), epsilon=0.1 * (number + 1)) for number in range(count)]


def test_a_step_needs_its_process_and_its_data_several_times() -> None:
    (step,) = audits(1)
    decoded = 1797 * (64 * 4 + 8)
    assert memory_limits.needed(step) == pytest.approx(
        memory_limits.PROCESS_BYTES + memory_limits.DATA_COPIES * decoded, abs=10_000
    )
    gone = AuditStep(data=DataSpec(source="/nowhere/x.npz", train="a", test="b"))
    assert memory_limits.needed(gone) == memory_limits.PROCESS_BYTES


def test_the_first_always_fits_and_the_second_only_if_there_is_room() -> None:
    one, two = audits(2)
    tight = memory_limits.MemoryLimit(1)
    assert tight.allows(one)
    tight.reserve(one)
    assert not tight.allows(two)
    tight.release(one)
    assert tight.allows(two)
    wide = memory_limits.MemoryLimit(3 * memory_limits.needed(one))
    wide.reserve(one)
    assert wide.allows(two)


def test_a_control_group_limits_what_is_available(tmp_path: Path) -> None:
    assert 0 < memory_limits.available() <= memory_limits.UNLIMITED
    assert memory_limits._group(tmp_path) == memory_limits.UNLIMITED
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    assert memory_limits._group(tmp_path) == 600
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_limits._group(tmp_path) == memory_limits.UNLIMITED


class Crowd(Observer):
    """Counts how many steps run at once."""

    def __init__(self) -> None:
        self.now, self.most = 0, 0

    def started(self, step: Step) -> None:
        self.now += 1
        self.most = max(self.most, self.now)

    def ended(self, step: Step, error: BaseException | None) -> None:
        self.now -= 1
        assert error is None


def test_a_pool_without_room_works_one_by_one(tmp_path: Path) -> None:
    crowd, store = Crowd(), Store(tmp_path / "store")
    assert not Processes(workers=3, memory=1).run(audits(3), store, crowd)
    assert crowd.most == 1
    assert len(store.runs()) == 3


def test_too_little_memory_is_said_before_the_work(monkeypatch, caplog, tmp_path) -> None:
    monkeypatch.setattr(memory_limits, "available", lambda: 10_000_000)
    Store(tmp_path).ensure(AuditStep(data=DataSpec.of("digits+subset:200"), norm="linf"))
    assert "GB of memory and 0.0 GB are free: take fewer points" in caplog.text
