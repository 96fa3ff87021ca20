"""The store: one folder per meaning, whole or absent, computed once, failures recorded."""

from __future__ import annotations

import json
import shutil
import threading
import time
from pathlib import Path
from typing import ClassVar

import pytest

from radii.errors import InputError
from radii.files import write_manifest
from radii.runs.step import Step
from radii.runs.step_results import StepResult
from radii.runs.store import Run, Store, Workspace


class Total(StepResult):
    sum: int
    by: str = ""


class Count(Step):
    """Writes a file and counts how often it was performed."""

    kind: ClassVar[str] = "count"
    Result: ClassVar[type[Total]] = Total
    performed: ClassVar[list[str]] = []
    upto: int
    after: Count | None = None

    def perform(self, work: Workspace) -> Total:
        if self.upto < 0:
            raise InputError("cannot count below zero")
        Count.performed.append(self.run_id)
        time.sleep(0.05)
        work.checkpoint.write_bytes(b"progress")
        (work.folder / "numbers.txt").write_text(" ".join(map(str, range(self.upto))))
        before = 0 if self.after is None else Run(work.store.folder(self.after)).read(Total).sum
        return Total(sum=before + sum(range(self.upto)))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    Count.performed.clear()
    return Store(tmp_path / "store")


def test_a_run_is_computed_once_with_its_inputs(store: Store) -> None:
    step = Count(upto=4, after=Count(upto=3))
    run = store.ensure(step)
    assert run.read(Total) == Total(sum=9)
    assert run.id == step.run_id == f"count-{step.content_hash()}"
    assert sorted(path.name for path in run.folder.iterdir()) == [
        "env.json",
        "manifest.json",
        "numbers.txt",
        "result.json",
        "spec.json",
    ]
    assert store.ensure(step) == run
    assert store.ensure(Count(upto=3)).read(Total) == Total(sum=3)
    assert len(Count.performed) == 2
    assert not any((store.root / "work").iterdir())


def test_cpu_time_is_recorded_and_sleep_is_none_of_it(store: Store) -> None:
    """The step sleeps for 0.05 seconds: they pass on the clock, not on the processor."""
    run = store.ensure(Count(upto=4))
    assert run.environment["seconds"] >= 0.05
    assert run.cpu_seconds is not None
    assert 0 <= run.cpu_seconds < run.environment["seconds"] + 0.05


def test_a_resumed_run_does_not_claim_to_know_its_cpu_time(store: Store) -> None:
    """What the killed process computed is not in the time of the last one."""
    step = Count(upto=4)
    work = store.root / "work" / step.run_id
    work.mkdir(parents=True)
    (work / "checkpoint.safetensors").write_bytes(b"progress")
    assert Workspace(work, store).checkpoint.exists()
    run = store.ensure(step)
    assert run.environment["resumed"] is True
    assert run.cpu_seconds is None


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
    write_manifest(work)
    assert store.ensure(step).read(Total) == Total(sum=15)
    assert not Count.performed


def test_a_result_without_its_manifest_is_not_finished(store: Store) -> None:
    """A power cut may have left empty files beside it, so the work is done again."""
    step = Count(upto=6)
    work = store.root / "work" / step.run_id
    work.mkdir(parents=True)
    (work / "result.json").write_text('{"sum": 99}')
    (work / "numbers.txt").touch()
    assert store.ensure(step).read(Total) == Total(sum=15)
    assert (store.folder(step) / "numbers.txt").read_text() == "0 1 2 3 4 5"


def test_a_failure_is_recorded_and_can_be_tried_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Count(upto=-1)
    with pytest.raises(InputError, match="below zero"):
        store.ensure(step)
    assert not store.is_done(step)
    error = json.loads((store.root / "work" / step.run_id / "error.json").read_text())
    assert error["error"] == "cannot count below zero"
    monkeypatch.setattr(Count, "perform", lambda self, work: Total(sum=0))
    assert store.ensure(step).read(Total) == Total(sum=0)
    assert not (store.folder(step) / "error.json").exists()


def test_a_step_that_returns_something_else_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Count, "perform", lambda self, work: {"sum": 0})
    with pytest.raises(InputError, match="The step count must return a Total, got dict"):
        store.ensure(Count(upto=3))
    assert store.runs() == []


def test_a_result_of_another_version_is_a_sentence(store: Store) -> None:
    run = store.ensure(Count(upto=3))
    (run.folder / "result.json").write_text('{"total": 3}')
    with pytest.raises(InputError, match="is not what this version of radii writes: sum: Field required"):
        run.read(Total)


def test_a_full_disk_leaves_no_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Count, work: Workspace) -> Total:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Count, "perform", full)
    with pytest.raises(OSError, match="No space left"):
        store.ensure(Count(upto=2))
    assert store.runs() == []


def test_somebody_else_was_first(store: Store) -> None:
    """Another machine commits without our lock: ours is dropped, theirs stays."""
    step = Count(upto=7)
    original = Count.perform

    def overtaken(self: Count, work: Workspace) -> Total:
        theirs = store.folder(step)
        theirs.mkdir(parents=True)
        (theirs / "result.json").write_text('{"sum": 21, "by": "them"}')
        for name in ("spec.json", "env.json"):
            (theirs / name).write_text("{}")
        write_manifest(theirs)
        return original(self, work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Count, "perform", overtaken)
        assert store.ensure(step).read(Total).by == "them"
    assert not any((store.root / "work").iterdir())


def test_finding_and_deleting(store: Store) -> None:
    run, other = store.ensure(Count(upto=1)), store.ensure(Count(upto=2))
    for reference in (run.id, run.id[:12], run.id.split("-")[1][:8], str(run.folder)):
        assert store.find(reference).id == run.id
    with pytest.raises(InputError, match="fits 2 runs"):
        store.find("count")
    with pytest.raises(InputError, match="`radii runs` lists them"):
        store.find("train-xyz")
    assert store.own(str(run.folder)) == run
    store.delete(run)
    assert [item.id for item in store.runs()] == [other.id]


def test_only_runs_of_the_store_are_deleted(store: Store, tmp_path: Path) -> None:
    run = store.ensure(Count(upto=1))
    elsewhere = tmp_path / "thesis"
    shutil.copytree(run.folder, elsewhere)
    (store.root / "runs" / "link-0").symlink_to(elsewhere)
    for reference in (str(elsewhere), ".", "", "..", str(store.root), str(store.root / "runs"), "link-0"):
        with pytest.raises(InputError, match=r"is called|fits"):
            store.own(reference)
    for folder in (elsewhere, store.root / "runs" / "link-0", store.root / "runs" / ".." / "runs" / run.id):
        with pytest.raises(InputError, match="nothing was deleted"):
            store.delete(Run(folder))
    assert (elsewhere / "spec.json").exists()
    assert run.folder.is_dir()


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match="cannot be written"):
        Store(tmp_path / "file").ensure(Count(upto=1))


DAMAGES = {
    "flipped bit": lambda content: content[:-2] + bytes([content[-2] ^ 1]) + content[-1:],
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "another type": lambda content: b"[1, 2]",
    "nested": lambda content: b"[" * 100_000,
    "not utf-8": lambda content: b"\xff\xfe{}",
}


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("file", ["result.json", "env.json", "spec.json", "numbers.txt", "manifest.json"])
def test_a_damaged_run_is_moved_aside_and_computed_again(
    store: Store, caplog: pytest.LogCaptureFixture, kind: str, file: str
) -> None:
    step = Count(upto=9)
    run = store.ensure(step)
    whole = (run.folder / file).read_bytes()
    (run.folder / file).write_bytes(DAMAGES[kind](whole))
    assert not store.is_done(step)
    with pytest.raises(InputError, match=f"The run {run.id} is damaged: "):
        store.find(run.id)
    assert store.ensure(step).read(Total) == Total(sum=36)
    assert "is computed again." in caplog.text
    assert len(Count.performed) == 2
    assert len(list((store.root / "damaged").iterdir())) == 1
    assert [found.id for found in store.runs()] == [run.id]
    assert (run.folder / "numbers.txt").read_text() == "0 1 2 3 4 5 6 7 8"


def test_a_missing_file_is_damage(store: Store) -> None:
    run = store.ensure(Count(upto=3))
    (run.folder / "numbers.txt").unlink()
    assert run.damage() == "numbers.txt is missing"


def test_a_run_without_its_manifest_is_computed_again(store: Store) -> None:
    step = Count(upto=3)
    run = store.ensure(step)
    (run.folder / "manifest.json").unlink()
    assert not store.is_done(step)
    with pytest.raises(InputError, match=r"manifest\.json"):
        store.find(run.id)
    assert store.ensure(step).damage() is None


@pytest.mark.parametrize("content", ["{", "[]", "3", "[" * 100_000, ""])
@pytest.mark.parametrize("file", ["result", "spec", "env"])
def test_files_of_a_wrong_type_are_sentences(store: Store, file: str, content: str) -> None:
    run = store.ensure(Count(upto=1))
    (run.folder / f"{file}.json").write_text(content)
    with pytest.raises(InputError, match=rf"{file}\.json is not the "):
        getattr(run, {"env": "environment", "result": "content"}.get(file, file))


def test_what_a_killed_writer_left_is_not_committed(store: Store) -> None:
    step = Count(upto=2)
    work = store.root / "work" / step.run_id
    work.mkdir(parents=True)
    (work / ".radii-0123456789abcdef.part").write_bytes(b"half")
    (work / "damaged-checkpoint.safetensors").write_bytes(b"old")
    run = store.ensure(step)
    assert not [path for path in run.folder.iterdir() if "part" in path.name or "checkpoint" in path.name]


def test_revision_is_part_of_the_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Count(upto=1).run_id
    monkeypatch.setattr(Count, "revision", 2)
    assert Count(upto=1).run_id != before
