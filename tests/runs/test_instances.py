"""Verification as a step: answered once, spread by any executor; the table of a list is continued."""

from __future__ import annotations

import csv
import hashlib
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn

pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

import onnx

from made_instances import write_files
from radii.errors import InputError
from radii.models.io.export import export
from radii.runs.component_specs import FileSpec
from radii.runs.executors import Executor, Inline, Processes
from radii.runs.executors import _remote as remote
from radii.runs.instances import read_instances, read_table, run_instances
from radii.runs.step_results import VerifyResult
from radii.runs.steps import Verify
from radii.runs.steps.verify_step import NetworkFile
from radii.runs.store import Store
from radii.verification import verify as verification
from radii.verification._search_state import subject_digest
from radii.verification.verify import verify

LIST = "net.onnx,holds.vnnlib,20\nnet.onnx,fails.vnnlib,20\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "instances").mkdir()
    place = write_files(tmp_path / "instances")
    (place / "other.vnnlib").write_text(
        "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (= X_0 0))(assert (<= Y_0 0))"
    )
    (place / "list.csv").write_text(LIST)
    return place


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def planned(folder: Path, query: str = "fails.vnnlib", network: str = "net.onnx", seconds: float = 20.0) -> Verify:
    return Verify(network=NetworkFile.of(folder / network), query=FileSpec.of(folder / query), seconds=seconds)


def verdicts(
    folder: Path, store: Store, table: str = "t.csv", executor: Executor | None = None
) -> tuple[int, list[str]]:
    """How many instances of the list were found, and the verdicts in the table."""
    entries = read_instances(folder / "list.csv")
    found = run_instances(folder, entries, folder / table, store, executor or Inline())
    return found, [row["verdict"] for row in read_table(folder / table)]


def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "verify", lambda *_, **__: pytest.fail("searched again"))


def test_a_list_is_continued(folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    entries, table = read_instances(folder / "list.csv"), folder / "t.csv"
    assert run_instances(folder, entries[:1], table, store, Inline()) == 0
    assert verdicts(folder, store) == (1, ["unsat", "sat"])
    no_search(monkeypatch)
    assert verdicts(folder, Store(folder / "other-store")) == (2, ["unsat", "sat"]), "by the table"
    assert verdicts(folder, store, "new.csv") == (2, ["unsat", "sat"]), "by the store"
    assert [row["verdict"] for row in csv.DictReader((folder / "new.csv").open())] == ["unsat", "sat"]


def test_another_time_limit_is_another_instance(folder: Path, store: Store) -> None:
    """A verdict of little time is no answer to a question with more."""
    assert verdicts(folder, store) == (0, ["unsat", "sat"])
    (folder / "list.csv").write_text(LIST.replace(",20", ",40") + LIST)
    assert verdicts(folder, store) == (2, ["unsat", "sat", "unsat", "sat"])
    assert [row["timeout_s"] for row in read_table(folder / "t.csv")] == ["20", "20", "40", "40"]


def test_a_list_goes_on_behind_instances_that_cannot_be_read(folder: Path, store: Store) -> None:
    (folder / "bad.onnx").write_bytes(b"no network")
    lines = ["net.onnx,other.vnnlib,20", "absent.onnx,fails.vnnlib,20", "bad.onnx,fails.vnnlib,20"]
    (folder / "list.csv").write_text("\n".join(lines) + "\n" + LIST)
    verdicts(folder, store)
    rows = {(row["onnx"], row["vnnlib"]): row for row in read_table(folder / "t.csv")}
    assert "1 inputs and 1 outputs" in rows["net.onnx", "other.vnnlib"]["method"]
    assert "There is no file" in rows["absent.onnx", "fails.vnnlib"]["method"]
    assert "cannot be read as ONNX" in rows["bad.onnx", "fails.vnnlib"]["method"]
    assert [row["verdict"] for row in rows.values()].count("error") == 3
    assert {rows["net.onnx", name]["verdict"] for name in ("holds.vnnlib", "fails.vnnlib")} == {"sat", "unsat"}
    assert {run.kind for run in store.runs()} == {"verify"}
    assert len(store.runs()) == 2, "what could not be read is tried again, and has no run"
    (folder / "other.vnnlib").write_text((folder / "holds.vnnlib").read_text())
    found, again = verdicts(folder, store)
    assert (found, again.count("error"), again.count("unsat")) == (3, 2, 2), "the same property under another name"


def test_several_networks_are_one_field_of_a_list(folder: Path, store: Store) -> None:
    """Their answer is a run of all files, and its result names the tensors."""
    networks = "[('f', 'net.onnx'), ('g', 'net.onnx')]"
    (folder / "two.vnnlib").write_text(
        "(vnnlib-version <2.0>)(declare-network f (declare-input X real [2]) (declare-output Y real [1]))"
        "(declare-network g (equal-to f) (declare-input U real [2]) (declare-output V real [1]))"
        "(assert (and (>= X[0] 0.0) (<= X[0] 1.0) (== X[1] 0.5) (== U[1] 0.5) (== U[0] X[0]) (== Y[0] V[0])))"
    )
    (folder / "list.csv").write_text(f'"{networks}",two.vnnlib,20\n')
    assert verdicts(folder, store) == (0, ["sat"])
    assert verdicts(folder, store, "again.csv") == (1, ["sat"])
    (run,) = store.runs()
    lines = run.read(VerifyResult).result_file().splitlines()
    assert [line for line in lines if "[" in line] == ["X real [2]", "Y real [1]", "U real [2]", "V real [1]"]
    (folder / "copy.onnx").write_bytes((folder / "net.onnx").read_bytes())
    assert NetworkFile.digest(folder / networks) == NetworkFile.digest(folder / networks.replace("net", "copy"))
    assert NetworkFile.digest(folder / networks) != NetworkFile.digest(folder / "net.onnx")


def test_an_error_that_nobody_expected_is_one_row(folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(network: Path, query: Path, **limits: float) -> object:
        if query.name == "holds.vnnlib":
            raise RuntimeError("out of\nmemory")
        return verify(network, query, **limits)  # type: ignore[arg-type]

    monkeypatch.setattr(verification, "verify", broken)
    assert verdicts(folder, store) == (0, ["error", "sat"])
    assert read_table(folder / "t.csv")[0]["method"] == "out of memory"


def test_a_header_tells_where_the_known_verdict_stands(folder: Path) -> None:
    """A question mark is a verdict that nobody has confirmed; it is compared all the same."""
    (folder / "list.csv").write_text(
        "ONNX, vnnlib ,s,nodes, verdict\na.onnx,b.vnnlib,1e1,7, unsat? \nc.onnx,d.vnnlib,2,,\n"
    )
    first, second = read_instances(folder / "list.csv")
    assert (first.network, first.query, first.seconds, first.expected) == ("a.onnx", "b.vnnlib", 10.0, "unsat")
    assert second.expected == ""
    assert [entry.seconds for entry in read_instances(folder / "list.csv", 3.0)] == [3.0, 3.0]


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e300", "soon"])
def test_a_list_needs_seconds(folder: Path, seconds: str) -> None:
    (folder / "list.csv").write_text(f"net.onnx,holds.vnnlib,{seconds}\n")
    with pytest.raises(InputError, match=r"line 1: NETWORK\.onnx,PROPERTY\.vnnlib,SECONDS is expected"):
        read_instances(folder / "list.csv")


def test_processes_verify_a_list(folder: Path, store: Store) -> None:
    found, rows = verdicts(folder, store, executor=Processes(2))
    assert (found, sorted(rows)) == (0, ["sat", "unsat"])


def test_counterexamples_are_kept_as_the_decimals_that_are_written(folder: Path, store: Store) -> None:
    verdicts(folder, store)
    kept = store.ensure(planned(folder)).read(VerifyResult)
    answer = verify(folder / "net.onnx", folder / "fails.vnnlib", seconds=20)
    assert answer.written is not None
    assert (kept.counterexample, kept.outputs) == tuple(map(tuple, answer.written))
    assert kept.result_file() == answer.text()


def test_a_step_is_its_content_and_its_limits(folder: Path) -> None:
    step = planned(folder)
    (folder / "moved").mkdir()
    (folder / "net.onnx").rename(folder / "moved" / "net.onnx")
    assert planned(folder, network="moved/net.onnx").run_id == step.run_id
    assert planned(folder, network="moved/net.onnx", seconds=40).run_id != step.run_id, "more time may decide"
    assert planned(folder, "holds.vnnlib", "moved/net.onnx").run_id != step.run_id
    (folder / "moved" / "net.onnx").write_bytes((folder / "moved" / "net.onnx").read_bytes() + b"\x00")
    with pytest.raises(InputError, match="There is no file"):
        step.search()
    with pytest.raises(InputError, match="has changed since this run was planned"):
        step.model_copy(
            update={"network": step.network.model_copy(update={"path": str(folder / "moved" / "net.onnx")})}
        ).search()


def test_an_undecided_search_is_done_again_with_more_time(folder: Path, store: Store) -> None:
    torch.manual_seed(1)
    layers = [nn.Linear(30, 60), nn.ReLU(), nn.Linear(60, 60), nn.ReLU(), nn.Linear(60, 1)]
    export(nn.Sequential(*layers).eval(), folder / "net.onnx", (30,), certificate=False)
    names = "".join(f"(declare-const X_{i} Real)(assert (>= X_{i} -1))(assert (<= X_{i} 1))" for i in range(30))
    (folder / "holds.vnnlib").write_text(f"{names}(declare-const Y_0 Real)(assert (>= Y_0 2))")
    first, second = (planned(folder, "holds.vnnlib", seconds=seconds) for seconds in (0.01, 0.02))
    kept = store.ensure(first).read(VerifyResult)
    assert not kept.is_decided
    assert store.is_done(first)
    assert not store.is_done(second)


def test_weights_in_other_files_are_content(folder: Path) -> None:
    """A verdict, a state or a proof of former weights must not be taken for one of the new."""
    plain = folder / "net.onnx"
    assert NetworkFile.of(plain).sha256 == hashlib.sha256(plain.read_bytes()).hexdigest()
    model = onnx.load(str(plain))
    onnx.save(model, str(folder / "split.onnx"), save_as_external_data=True, location="w.bin", size_threshold=0)
    before, owner = planned(folder, network="split.onnx"), subject_digest(folder / "split.onnx", "", "")
    assert before.search().verdict == "sat"
    weights = bytearray((folder / "w.bin").read_bytes())
    weights[3] ^= 128  # the sign of the first weight
    (folder / "w.bin").write_bytes(weights)
    assert planned(folder, network="split.onnx").run_id != before.run_id
    assert subject_digest(folder / "split.onnx", "", "") != owner
    with pytest.raises(InputError, match="has changed since"):
        before.search()
    with pytest.raises(InputError, match="lie in another file, which a proof does not hold"):
        verify(folder / "split.onnx", folder / "holds.vnnlib", proof=folder / "p.proof")
    (folder / "w.bin").unlink()
    with pytest.raises(InputError, match=r"split\.onnx cannot be read: .*w\.bin"):
        planned(folder, network="split.onnx")


def test_a_step_computed_elsewhere_brings_its_files(folder: Path, store: Store) -> None:
    """As on another machine: the files are gone, all there is are parcels."""
    step = planned(folder)
    data = {base: remote.pack(path) for base, path in remote.own_files(step).items()}
    assert {Path(base).name for base in data} == {"net.onnx", "fails.vnnlib"}
    folder.rename(folder.with_name("hidden"))
    run = remote.receive(step, remote.perform(step.to_json(), {}, data), store)
    assert run.read(VerifyResult).verdict == "sat"
    assert run.spec == step.to_json()


# In a process of its own: Ray reads the authentication mode when it is loaded, and pytest's other tests go on without.
SCRIPT = textwrap.dedent(
    """
    import sys
    from pathlib import Path

    from radii.errors import InputError
    from radii.runs.executors import executor_named
    from radii.runs.instances import read_instances, read_table, run_instances
    from radii.runs.store import Store

    folder = Path(sys.argv[1])
    entries, table, store = read_instances(folder / "list.csv"), folder / "t.csv", Store(folder / "runs")
    try:
        run_instances(folder, entries, table, store, executor_named("ray:local", int(sys.argv[2])))
    except InputError as error:
        sys.exit(77 if "cannot be started" in str(error) else str(error))
    for row in read_table(table):
        print(row["onnx"], row["vnnlib"], row["verdict"])
    """
)


@pytest.mark.heavy
@pytest.mark.parametrize("workers", [0, 1])
def test_a_list_is_verified_on_a_cluster(folder: Path, workers: int) -> None:
    (folder / "list.csv").write_text(LIST + "absent.onnx,fails.vnnlib,20\nnet.onnx,other.vnnlib,20\n")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), str(workers)], capture_output=True, text=True, timeout=600
    )
    if done.returncode == 77:
        pytest.skip("a Ray cluster cannot be started here")
    assert done.returncode == 0, done.stderr
    said = {"net.onnx holds.vnnlib unsat", "net.onnx fails.vnnlib sat"}
    said |= {"absent.onnx fails.vnnlib error", "net.onnx other.vnnlib error"}
    assert said == set(done.stdout.splitlines())
