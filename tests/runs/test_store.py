"""The store: one folder per meaning, whole or absent, computed once, failures recorded."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

from radii.errors import InputError
from radii.runs.step import Step
from radii.runs.store import Store, Workspace


class Count(Step):
    """Writes a file and counts how often it was performed."""

    kind: ClassVar[str] = "count"
    performed: ClassVar[list[str]] = []
    upto: int
    after: Count | None = None

    def perform(self, work: Workspace) -> dict[str, Any]:
        if self.upto < 0:
            raise InputError("cannot count below zero")
        Count.performed.append(self.run_id)
        time.sleep(0.05)
        work.checkpoint.write_bytes(b"progress")
        (work.folder / "numbers.txt").write_text(" ".join(map(str, range(self.upto))))
        before = (
            0 if self.after is None else json.loads((work.store.folder(self.after) / "result.json").read_text())["sum"]
        )
        return {"sum": before + sum(range(self.upto))}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    Count.performed.clear()
    return Store(tmp_path / "store")


def test_a_run_is_computed_once_with_its_inputs(store: Store) -> None:
    step = Count(upto=4, after=Count(upto=3))
    run = store.ensure(step)
    assert run.result == {"sum": 9}
    assert run.id == step.run_id == f"count-{step.content_hash()}"
    assert sorted(path.name for path in run.folder.iterdir()) == ["env.json", "numbers.txt", "result.json", "spec.json"]
    assert store.ensure(step) == run
    assert store.ensure(Count(upto=3)).result == {"sum": 3}
    assert len(Count.performed) == 2
    assert not any((store.root / "work").iterdir())


def test_threads_that_ask_at_once_compute_once(store: Store) -> None:
    askers = [threading.Thread(target=store.ensure, args=(Count(upto=5),)) for _ in range(6)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(Count.performed) == 1
    assert len(store.runs()) == 1


def test_a_run_that_finished_but_was_not_committed_is_committed_at_once(store: Store) -> None:
    """Killed between writing the result and the rename."""
    step = Count(upto=6)
    work = store.root / "work" / step.run_id
    work.mkdir(parents=True)
    for name, content in (("spec.json", step.to_json()), ("env.json", {}), ("result.json", {"sum": 15})):
        (work / name).write_text(json.dumps(content))
    assert store.ensure(step).result == {"sum": 15}
    assert not Count.performed


def test_a_failure_is_recorded_and_can_be_tried_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Count(upto=-1)
    with pytest.raises(InputError, match="below zero"):
        store.ensure(step)
    assert not store.is_done(step)
    error = json.loads((store.root / "work" / step.run_id / "error.json").read_text())
    assert error["error"] == "cannot count below zero"
    monkeypatch.setattr(Count, "perform", lambda self, work: {"sum": 0})
    assert store.ensure(step).result == {"sum": 0}
    assert not (store.folder(step) / "error.json").exists()


def test_a_full_disk_leaves_no_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Count, work: Workspace) -> dict[str, Any]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Count, "perform", full)
    with pytest.raises(OSError, match="No space left"):
        store.ensure(Count(upto=2))
    assert store.runs() == []


def test_somebody_else_was_first(store: Store) -> None:
    """Another machine commits without our lock: ours is dropped, theirs stays."""
    step = Count(upto=7)
    original = Count.perform

    def overtaken(self: Count, work: Workspace) -> dict[str, Any]:
        theirs = store.folder(step)
        theirs.mkdir(parents=True)
        (theirs / "result.json").write_text('{"sum": 21, "by": "them"}')
        return original(self, work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Count, "perform", overtaken)
        assert store.ensure(step).result["by"] == "them"
    assert not any((store.root / "work").iterdir())


def test_finding_and_deleting(store: Store) -> None:
    run, other = store.ensure(Count(upto=1)), store.ensure(Count(upto=2))
    for reference in (run.id, run.id[:12], run.id.split("-")[1][:8], str(run.folder)):
        assert store.find(reference).id == run.id
    with pytest.raises(InputError, match="fits 2 runs"):
        store.find("count")
    with pytest.raises(InputError, match="`radii runs` lists them"):
        store.find("train-xyz")
    store.delete(run)
    assert [item.id for item in store.runs()] == [other.id]


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match="cannot be written"):
        Store(tmp_path / "file").ensure(Count(upto=1))


def test_damaged_runs_are_told(store: Store) -> None:
    run = store.ensure(Count(upto=1))
    (run.folder / "result.json").write_text("{")
    with pytest.raises(InputError, match=r"result\.json is not a file of a run"):
        _ = run.result


def test_revision_is_part_of_the_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Count(upto=1).run_id
    monkeypatch.setattr(Count, "revision", 2)
    assert Count(upto=1).run_id != before
