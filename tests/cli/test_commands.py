"""The commands a newcomer types, from training to the report."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from radii.cli.runs import _what
from radii.sparse_threat import attack_threat_of

SMALL = ("--model", "lenet5", "model.widen=0.125", "epochs=2", "batch_size=128")


def test_help_does_not_import_torch() -> None:
    """Cold start: everything heavy is imported by the command that needs it."""
    code = (
        "import sys; from radii.cli.main import app, guarded\n"
        "guarded(lambda: app(['--help'], standalone_mode=False))\n"
        "heavy = {'torch', 'altair', 'numba', 'sklearn', 'scipy', 'pyarrow', 'skimage'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    for command in ("assess", "train", "forecast", "runs", "datasets", "variants"):
        assert command in shown


def test_train_finds_its_run_again_and_runs_lists_it(radii: Callable, tmp_path: Path) -> None:
    first = radii("train", "digits", *SMALL, "--json", tmp_path / "one.json")
    assert first.code == 0, first.err
    again = radii("train", "digits", *SMALL, "--json", "-")
    assert "not computed again" in again.err, "with --json - the table goes to stderr"
    one, two = json.loads((tmp_path / "one.json").read_text()), json.loads(again.out)
    assert one == two
    assert one["test_accuracy"] > 0.15, "better than chance after a moment"
    listed = radii("runs", "--json", "-")
    assert [row["run"] for row in json.loads(listed.out)["runs"]] == [one["run"]]
    shown = radii("runs", "show", one["run"][:10])
    assert one["run"] in shown.out
    other = json.loads(radii("train", "digits", *SMALL, "--seed", 1, "--json", "-").out)
    differing = json.loads(radii("runs", "compare", one["run"], other["run"], "--json", "-").out)["differences"]
    assert "spec.spec.seed" in {row["field"] for row in differing}
    assert radii("runs", "delete", other["run"], "--yes").code == 0
    assert len(json.loads(radii("runs", "--json", "-").out)["runs"]) == 1


@pytest.mark.parametrize("threat", ["linf:0.1sd", "l2:0.5,nobox", "brightness:0.2", "blur:1,width=2", "l0:2"])
def test_the_list_of_runs_names_every_threat(threat: str) -> None:
    assert _what({"ball": attack_threat_of(threat).canonical()}) == threat


def test_settings_come_from_a_file_and_words_override_it(radii: Callable, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("epochs = 9\nbatch_size = 128\n[model]\nwiden = 0.125\n[optimizer]\nlr = 0.05\n")
    made = radii("train", "digits", "epochs=1", "--model", "lenet5", "--config", tmp_path / "s.toml", "--json", "-")
    run = json.loads(made.out)
    spec = json.loads((Path(run["folder"]) / "spec.json").read_text())["spec"]
    assert spec["recipe"]["epochs"] == 1
    assert spec["recipe"]["optimizer"]["lr"] == 0.05
    assert spec["model"]["arguments"]["widen"] == 0.125


def test_assess_writes_one_report(radii: Callable, tmp_path: Path) -> None:
    arguments = ("assess", "digits", "--epochs", 3, "--points", 30, "--suite", "fast", "--workers", 0)
    done = radii(*arguments, "--out", tmp_path / "r.html", "--json", tmp_path / "r.json")
    assert done.code == 0, done.err
    assert "of 30 test images" in done.out
    page = (tmp_path / "r.html").read_text()
    assert "How robust is a classifier on digits?" in page
    assert "http://" not in page.split("<body")[0], "nothing is fetched"
    result = json.loads((tmp_path / "r.json").read_text())
    assert set(result["models"]) == {"standard", "adversarial", "1-Lipschitz"}
    assert "What more data would bring" in page
    assert isinstance(result["forecast"], dict | str)
    for model in result["models"].values():
        robust = model["evaluation"]["robust"]
        assert robust["proved"]["value"] <= robust["unbroken"]["value"]
    again = radii(*arguments, "--out", tmp_path / "again.html")
    assert again.code == 0
    assert (tmp_path / "again.html").read_text() == page, "the same runs give the same page"


def test_assess_takes_features(radii: Callable, tmp_path: Path) -> None:
    import numpy as np
    from sklearn.datasets import load_wine

    x, y = load_wine(return_X_y=True)
    np.savez(tmp_path / "wine.npz", x=x.astype(np.float32), y=y)
    done = radii(
        "assess", tmp_path / "wine.npz", "--epochs", 2, "--points", 9, "--suite", "fast", "--workers", 0,
        "--no-forecast", "--out", tmp_path / "wine.html",
    )  # fmt: skip
    assert done.code == 0, done.err
    page = (tmp_path / "wine.html").read_text()
    assert "13 features in 3 classes" in page
    assert "What more data would bring" not in page


def test_commands_that_take_no_change_say_which_do(radii: Callable) -> None:
    for command in (("audit", "digits"), ("train", "digits", "--recipe", "robust"), ("doctor", "MODEL", "digits")):
        refused = radii(*command, "--threat", "brightness:0.3")
        assert refused.code == 2
        assert "Changes are for evaluate, attack, certify, gate and assess" in refused.err
    assert "leave --suite fast out" in radii("assess", "digits", "--threat", "gamma:0.3", "--suite", "fast").err
