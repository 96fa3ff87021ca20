"""Parcels and steps elsewhere: what is packed comes out the same, what does not belong in one is refused."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from radii.errors import InputError
from radii.runs.component_specs import DataSpec
from radii.runs.executors import _remote as remote
from radii.runs.planning import train_step
from radii.runs.steps import AuditStep, Evaluate, Train
from radii.runs.store import Store
from radii.threat import Ball


def test_a_folder_arrives_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(b"1")
    (tmp_path / "a" / "deep" / "two").write_bytes(bytes(range(256)) * 9000)
    remote.unpack(remote.pack(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "b" / "one").read_bytes() == b"1"
    assert (tmp_path / "b" / "deep" / "two").read_bytes() == bytes(range(256)) * 9000
    (alone,) = remote.unpack(remote.pack(tmp_path / "a" / "one"), tmp_path / "c")
    assert alone == tmp_path / "c" / "one"


def parcel_with(name: str, **fields: object) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        for key, value in fields.items():
            setattr(entry, key, value)
        tar.addfile(entry, io.BytesIO(b"x" * entry.size))
    return out.getvalue()


@pytest.mark.parametrize(
    "parcel",
    [
        parcel_with("../outside", size=1),
        parcel_with("/etc/outside", size=1),
        parcel_with("a/../../outside", size=1),
        parcel_with("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        parcel_with("link", type=tarfile.LNKTYPE, linkname="spec.json"),
        parcel_with("device", type=tarfile.CHRTYPE),
        parcel_with("folder", type=tarfile.DIRTYPE),
    ],
)
def test_only_plain_files_of_the_folder(tmp_path: Path, parcel: bytes) -> None:
    with pytest.raises(InputError, match="no plain file of its folder"):
        remote.unpack(parcel, tmp_path / "in")
    assert not (tmp_path / "in").exists()
    assert not (tmp_path / "outside").exists()


def test_sizes_are_checked(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 3000)
    with pytest.raises(InputError, match="too much to send"):
        remote.pack(tmp_path / "big", limit=2000)
    with pytest.raises(InputError, match="at most"):
        remote.unpack(remote.pack(tmp_path / "big"), tmp_path / "in", limit=2000)
    with pytest.raises(InputError, match="cannot be read"):
        remote.unpack(b"no tar at all", tmp_path / "in")


@pytest.fixture
def own(tmp_path: Path) -> DataSpec:
    rng = np.random.default_rng(0)
    x, y = rng.random((120, 1, 8, 8), dtype=np.float32), np.arange(120) % 3
    np.savez(tmp_path / "own.npz", x_train=x[:90], y_train=y[:90], x_test=x[90:], y_test=y[90:])
    return DataSpec.of(f"{tmp_path / 'own.npz'}+subset:60")


def training(data: DataSpec) -> Train:
    return train_step(data, "lenet5", "natural", {"model": {"widen": 0.125}, "epochs": 1, "batch_size": 32})


def test_what_travels(own: DataSpec, tmp_path: Path) -> None:
    step = Evaluate(model=training(own), data=own, ball=Ball("l2", 0.3), suite="fast", points=10)
    assert remote.own_files(step) == {str(tmp_path / "own.npz"): tmp_path / "own.npz"}
    assert [needed.run_id for needed in remote.needed_runs(step)] == [step.model.run_id]
    assert remote.own_files(AuditStep(data=DataSpec.of("digits"))) == {}
    moved = remote.relocated(step.to_json(), {str(tmp_path / "own.npz"): "/there/own.npz"})
    assert moved["spec"]["data"]["source"] == "/there/own.npz+subset:60"
    assert moved["spec"]["model"]["data"]["source"] == "/there/own.npz+subset:60"
    assert remote.relocated(step.to_json(), {}) == step.to_json()


def test_a_step_computed_elsewhere_is_the_step_computed_here(own: DataSpec, tmp_path: Path) -> None:
    """As on another machine: the driver's file is gone, all there is are parcels."""
    import torch

    before = torch.get_num_threads()
    step = Evaluate(model=training(own), data=own, ball=Ball("l2", 0.3), suite="fast", points=10)
    near, far = Store(tmp_path / "near"), Store(tmp_path / "far")
    torch.set_num_threads(1)
    near.ensure(step)
    data = {base: remote.pack(path) for base, path in remote.own_files(step).items()}
    (tmp_path / "own.npz").rename(tmp_path / "hidden.npz")
    trained = remote.perform(step.model.to_json(), {}, data)
    remote.receive(step.model, trained, far)
    runs = {step.model.run_id: remote.pack(far.folder(step.model))}
    evaluated = remote.perform(step.to_json(), runs, data)
    remote.receive(step, evaluated, far)
    torch.set_num_threads(before)
    for done in (step.model, step):
        for path in near.folder(done).iterdir():
            if path.name not in ("env.json", "manifest.json"):
                assert path.read_bytes() == (far.folder(done) / path.name).read_bytes(), path.name
    assert not list((far.root / "work").iterdir())
    again = remote.receive(step, evaluated, far)  # somebody else was first: nothing changes
    assert again.folder == far.folder(step)


def test_a_run_that_was_damaged_on_its_way_is_refused(tmp_path: Path) -> None:
    step, store = AuditStep(data=DataSpec.of("digits")), Store(tmp_path / "store")
    run_id, parcel = remote.perform(step.to_json(), {}, {})
    remote.unpack(parcel, tmp_path / "run")
    content = (tmp_path / "run" / "result.json").read_text()
    (tmp_path / "run" / "result.json").write_text(content.replace("0.", "1.", 1))
    with pytest.raises(InputError, match=r"the content of result\.json has changed"):
        remote.receive(step, (run_id, remote.pack(tmp_path / "run")), store)
    assert not store.is_done(step)


def test_what_was_not_asked_for_is_refused(own: DataSpec, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    one, two = AuditStep(data=DataSpec.of("digits")), AuditStep(data=DataSpec.of("digits"), norm="linf")
    run_id, parcel = remote.perform(one.to_json(), {}, {})
    with pytest.raises(InputError, match="different versions"):
        remote.receive(two, (run_id, parcel), store)
    with pytest.raises(InputError, match="the spec of another"):
        remote.receive(two, (two.run_id, parcel), store)
    with pytest.raises(InputError, match=r"without result.json"):
        remote.receive(one, (run_id, parcel_with("spec.json", size=1)), store)
    assert not store.runs()
    assert not list((store.root / "work").iterdir())
