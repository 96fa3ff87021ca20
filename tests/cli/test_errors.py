"""Bad input gives one sentence that names what was wrong, exit code 2, and leaves nothing behind."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from radii.runs.steps import Train

N = 40
IMAGES = np.random.default_rng(0).integers(0, 255, (N, 8, 8), dtype=np.uint8)
LABELS = np.arange(N) % 4


def npz(folder: Path, **arrays: object) -> Path:
    np.savez(folder / "data.npz", **({"x": IMAGES, "y": LABELS} | arrays))  # type: ignore[arg-type]
    return folder / "data.npz"


def without(folder: Path, name: str) -> Path:
    arrays = {"x": IMAGES, "y": LABELS}
    del arrays[name]
    np.savez(folder / "data.npz", **arrays)
    return folder / "data.npz"


def parquet(folder: Path, labels: list[object], images: list[object] | None = None) -> Path:
    rows = images or [{"bytes": b"not an image", "path": None}] * len(labels)
    pq.write_table(pa.table({"image": rows, "label": labels}), folder / "data.parquet")
    return folder / "data.parquet"


def truncated(folder: Path) -> Path:
    path = parquet(folder, [0, 1] * 50)
    path.write_bytes(path.read_bytes()[:-60])
    return path


def image_folder(folder: Path, sizes: list[int]) -> Path:
    for number, size in enumerate(sizes):
        for copy in range(3):
            (folder / "images" / f"class{number % 2}").mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.zeros((size, size), np.uint8)).save(
                folder / "images" / f"class{number % 2}" / f"{number}-{copy}.png"
            )
    return folder / "images"


def pixels_with(value: float) -> np.ndarray:
    x = np.random.default_rng(1).random((N, 1, 8, 8)).astype(np.float32)
    x[3, 0, 2, 2] = value
    return x


class Bomb:
    def __reduce__(self):  # type: ignore[no-untyped-def]
        return (os.system, ("touch exploded",))


DATA = {
    "missing file": (lambda _: "nowhere.npz", "no file or folder 'nowhere.npz'"),
    "misspelt name": (lambda _: "digit", "Did you mean 'digits'"),
    "truncated parquet": (truncated, "data.parquet"),
    "garbage parquet": (lambda f: _written(f / "x.parquet", b"PAR1 garbage"), "x.parquet"),
    "undecodable image": (lambda f: parquet(f, [0, 1] * 10), "image"),
    "label out of range": (lambda f: npz(f, classes=np.array(["a", "b"])), "label"),
    "labels missing": (lambda f: without(f, "y"), "must hold x and y"),
    "inputs missing": (lambda f: without(f, "x"), "must hold x and y"),
    "null labels": (lambda f: parquet(f, [0, None, 1]), "label"),
    "float labels": (lambda f: npz(f, y=LABELS + 0.5), "abel"),
    "fewer labels": (lambda f: npz(f, y=LABELS[:7]), "one label for every input"),
    "NaN pixels": (lambda f: npz(f, x=pixels_with(np.nan)), "NaN"),
    "pixels of 255 in floats": (lambda f: npz(f, x=pixels_with(255.0)), "[0, 1]"),
    "one class": (lambda f: npz(f, y=np.zeros(N, np.int64)), "two classes"),
    "empty": (lambda f: npz(f, x=IMAGES[:0], y=LABELS[:0]), "empty"),
    "five dimensions": (lambda f: npz(f, x=IMAGES[:, None, None]), "got (40, 1, 1, 8, 8)"),
    "objects in npz": (lambda f: npz(f, x=np.array([Bomb()] * N, dtype=object)), "pickle"),
    "not a zip": (lambda f: _written(f / "data.npz", pickle.dumps(Bomb())), "data.npz"),
    "mixed image sizes": (lambda f: image_folder(f, [8, 8, 9]), "size"),
    "a folder of one class": (lambda f: image_folder(f, [8]), "class"),
    "an empty folder": (lambda f: _made(f / "empty"), "empty"),
    "unknown variant": (lambda _: "digits+smoth:3", "Did you mean 'smooth'"),
    "variant without argument": (lambda _: "digits+gamma", "needs an argument"),
    "variant with a wrong argument": (lambda _: "digits+smooth:wide", "whole number"),
    "too large a subset": (lambda _: "digits+subset:99999", "99999"),
    "components that do not exist": (lambda _: "digits+pca:60-99", "99"),
    "not on the hub without network": (lambda _: "svhn", "svhn"),
}

FLAGS = {
    "unknown model": (("--model", "lenet"), "Did you mean 'lenet5'"),
    "model that cannot be imported": (("--model", "no.such:thing"), "cannot be imported"),
    "model that is no model": (("--model", "os:getcwd"), "'os:getcwd'"),
    "unknown method": (("--method", "naturall"), "Did you mean 'natural'"),
    "unknown setting": (("epoch=3",), "epoch"),
    "several wrong settings at once": (("epochs=-1", "batch_size=0"), "batch_size"),
    "setting of the wrong type": (("optimizer.lr=fast",), "optimizer.lr"),
    "setting without a value": (("epochs",), "KEY=VALUE"),
    "unknown argument of the model": (("--model", "lenet5", "model.widn=1"), "Did you mean 'widen'"),
    "unknown preprocessing": (("--preprocessing", "whiten"), "preprocessing"),
    "settings file that is not there": (("--config", "no.toml"), "no.toml does not exist"),
    "a seed that is no number": (("--seed", "x"), "--seed"),
    "a device that is not here": (("--device", "cuda:7", "epochs=1"), "'cuda:7' cannot be used"),
    "a device that does not exist": (("--device", "gpu", "epochs=1"), "No device is called 'gpu'"),
    "unknown option": (("--modle", "lenet5"), "--modle"),
    "JSON to a place that cannot be": (("--json", "/dev/null/x.json", "epochs=1"), "x.json cannot be written"),
}


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def assert_one_sentence(outcome, says: str) -> None:  # type: ignore[no-untyped-def]
    assert outcome.code == 2, outcome
    assert "Traceback" not in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1, outcome.err
    assert says in outcome.err


def nothing_half_written(folder: Path) -> bool:
    return not any(path.name.endswith(".part") or ".part." in path.name for path in folder.rglob("*"))


@pytest.mark.parametrize("case", DATA)
def test_bad_data(case: str, tmp_path: Path, radii: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RADII_DATA", raising=False)
    make, says = DATA[case]
    assert_one_sentence(radii("train", make(tmp_path), "epochs=1"), says)
    assert not (tmp_path / "exploded").exists()
    assert not (tmp_path / "runs" / "runs").exists()
    assert nothing_half_written(tmp_path)


@pytest.mark.parametrize("case", FLAGS)
def test_bad_flags(case: str, tmp_path: Path, radii: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, says = FLAGS[case]
    assert_one_sentence(radii("train", "digits", *arguments), says)


@pytest.mark.parametrize(
    ("threat", "says"),
    [
        ("linf:-0.1", "at least 0"),
        ("linf:8/0", "divides by zero"),
        ("l7:0.1", "No norm is called 'l7'"),
        ("0.3", "Write l2:0.3 or linf:0.3"),
        ("l2:much", "not a number"),
    ],
)
def test_bad_threats(threat: str, says: str, radii: Callable, tmp_path: Path) -> None:
    assert_one_sentence(radii("assess", "digits", "--threat", threat, "--out", tmp_path / "r.html"), says)
    assert not (tmp_path / "r.html").exists()


def test_a_report_that_cannot_be_written_is_told_before_the_work(radii: Callable, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert_one_sentence(radii("assess", "digits", "--out", tmp_path / "file" / "r.html"), "cannot be written")
    assert_one_sentence(radii("assess", "digits", "--out", tmp_path), "is a folder")
    assert not (tmp_path / "runs").exists()


def test_bad_settings_file(radii: Callable, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("epochs = = 3")
    assert_one_sentence(radii("train", "digits", "--config", tmp_path / "s.toml"), "is not TOML")


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("model=3", "The setting model has parts, for example model.width=32; got model=3 instead"),
        ("method=[1]", "The setting method has parts"),
        ("epochs=" + "[" * 3000, "epochs"),
        ("method.offset=nan", "offset must be a finite number, got nan"),
        ("model.blocks=40", "blocks must be at most 4 for 8 x 8 pixels"),
        ("model.width=100000000", "not enough memory"),
    ],
)
def test_settings_that_no_network_can_have(setting: str, says: str, radii: Callable) -> None:
    words = ("train", "digits", "--model", "lipschitz-convnet", "--method", "offset-cross-entropy")
    assert_one_sentence(radii(*words, setting), says)


def test_unknown_runs_commands_and_missing_arguments(radii: Callable) -> None:
    assert_one_sentence(radii("runs", "show", "train-123"), "No run in")
    assert_one_sentence(radii("trian", "digits"), "trian")
    assert_one_sentence(radii("train"), "DATASET")


def test_a_store_that_cannot_be_written(radii: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RADII_RUNS", str(tmp_path / "file" / "runs"))
    assert_one_sentence(radii("train", "digits", "epochs=1"), "cannot be written")


def test_a_full_disk(radii: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Train, work: object) -> dict:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Train, "perform", full)
    assert_one_sentence(radii("train", "digits", "epochs=1"), "No space left on device")
    assert not (tmp_path / "runs" / "runs").exists()


MISSING = {
    "verify no.onnx no.vnnlib": "There is no file no.onnx.",
    "verify --instances no.csv": "There is no file no.csv.",
    "check no.proof": "There is no file no.proof.",
    "gate no.pt digits --require clean>=0.5": "The model no.pt does not exist",
    "gate timm:net digits --require clean>=0.5 --against no.json": "There is no file no.json.",
    "assess digits --model no.pth --threat linf:0.1": "The model no.pth does not exist",
    "evaluate no.onnx digits --threat linf:0.1": "The model no.onnx does not exist",
    "audit no.csv": "There is no file or folder 'no.csv'",
    "train no.npz": "There is no file or folder 'no.npz'",
    "study run no.toml": "There is no file no.toml.",
    "forecast no.json": "There is no file no.json.",
}


@pytest.mark.parametrize("words", MISSING)
def test_a_missing_file_is_named_without_numbers_of_the_system(words: str, radii: Callable[..., Any]) -> None:
    outcome = radii(*words.split())
    assert_one_sentence(outcome, MISSING[words])
    assert "Errno" not in outcome.err


def test_a_requirement_is_read_before_the_model(radii: Callable[..., Any]) -> None:
    assert_one_sentence(radii("gate", "no.pt", "digits", "--require", "robust>=0.5"), "need a threat")


def test_a_file_of_another_kind_is_no_proof(tmp_path: Path, radii: Callable[..., Any]) -> None:
    (tmp_path / "a.proof").write_bytes(pickle.dumps([1]))
    outcome = radii("check", tmp_path / "a.proof")
    assert "not a whole file of a proof" in outcome.out + outcome.err
    assert "pickle" not in outcome.out + outcome.err


def test_ctrl_c_exits_with_130_and_the_same_command_continues(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "radii.cli.main", "train", "digits", "epochs=400", "--model", "lenet5"]
    environment = os.environ | {"RADII_CHECKPOINT_SECONDS": "0.1"}
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    work = tmp_path / "runs" / "work"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list(work.glob("*/checkpoint.safetensors")):
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    try:
        _, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 130
    assert "Interrupted" in err
    assert "Traceback" not in err
    assert list(work.glob("*/checkpoint.safetensors")), "the progress is kept"
    assert not (tmp_path / "runs" / "runs").exists()


NARROW = """
name = "narrow"
data = ["digits"]
[[model]]
name = "lipschitz-mlp"
width = 32
depth = 2
[[method]]
name = "natural"
"""


def test_a_study_file_with_an_impossible_width_computes_nothing(radii: Callable, tmp_path: Path) -> None:
    file = tmp_path / "narrow.toml"
    file.write_text(NARROW)
    outcome = radii("study", "run", file, "--budget", "smoke", "--workers", "0")
    assert_one_sentence(
        outcome, "lipschitz-mlp cannot be built for digits: width must be even and at least the 64 inputs"
    )
    assert "got 32" in outcome.err
    assert json.loads(radii("runs", "--json", "-").out)["runs"] == []
