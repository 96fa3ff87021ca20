"""A wrong word on the command line is answered before torch is imported; most of it in one process without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROWS = {
    "audit nope": "No dataset is called 'nope'",
    "audit digit": "Did you mean 'digits'",
    "audit no.csv": "There is no file or folder 'no.csv'",
    "audit digits mnits": "Did you mean 'mnist'",
    "assess nope": "No dataset is called 'nope'",
    "assess digits+smoth:3": "Did you mean 'smooth'",
    "assess digits+subset:-1": "at least 1",
    "assess digits --threat linf:8": "Did you mean linf:8/255",
    "assess digits --threat 0.5": "Which norm has the threat '0.5'? Write l2:0.5 or linf:0.5.",
    "assess digits --points 0": "--points must be from 1",
    "assess digits --thread l2:1": "Did you mean --threat?",
    "assess": "The argument DATASET is missing. For example: radii assess digits",
    "evaluate resnet999 digits --threat l2:1": "timm:resnet999",
    "evaluate lenet5 digits --threat l2:1": "its weights are needed: --weights FILE",
    "gate net digits --require robust(linf:0.1)>45%": "Did you mean robust(linf:0.1)>=45%?",
    "runs diff": "Did you mean 'compare'?",
    "train no.npz": "There is no file or folder 'no.npz'",
    "train digits --extra nope": "No dataset is called 'nope'",
    "train digits --seed x": "--seed",
    "evaluate net digits": "For example: radii evaluate train-84c3 mnist --threat l2:0.5",
    "evaluate net digits --threat l3:1": "No norm is called 'l3'",
    "evaluate net nope --threat l2:1": "No dataset is called 'nope'",
    "attack net nope --threat l2:1": "No dataset is called 'nope'",
    "certify net nope": "No dataset is called 'nope'",
    "certify net digits --alpha nan": "--alpha",
    "gate net digits --require robust(linf:0.1)>=45": "Did you mean 0.45?",
    "gate net digits --require robst(l2:1)>=0.4": "No measure is called 'robst'",
    "lr-search nope": "No dataset is called 'nope'",
    "forecast nope --target 70": "Did you mean 0.7?",
    "runs lst": "Did you mean 'list'?",
    "study rnu": "Did you mean 'run'?",
    "asess digits": "Did you mean 'assess'",
    "variants digits --out .": "is a folder",
    "train digits --model lenet6": "Did you mean 'lenet5'",
    "train digits --model nope.py:net": "there is no file 'nope.py'",
    "train digits --method tradess": "Did you mean 'trades'",
    "train digits --recipe certifed": "Did you mean 'certified'",
    "train digits --budget cpuu": "Did you mean 'cpu'",
    "train digits --preprocessing centre": "--preprocessing must be none, center or standardize",
    "train digits --device cdua": "Did you mean 'cuda'",
    "train digits --threat l2:1": "--recipe standard, robust and certified",
    "train digits --config no.toml": "no.toml does not exist",
    "train digits epochs": "write KEY=VALUE",
    "train digits stps=3": "did you mean steps?",
    "train digits learning_rate=0.1": "did you mean optimizer.lr?",
    "train digits epochs=0": "greater than or equal to 1, got 0",
    "train hf:": "hf:OWNER/NAME",
    "lr-search digits --method tradess": "Did you mean 'trades'",
    "evaluate net digits --threat l2:1": "No run in",
    "evaluate net.py:build digits --threat l2:1": "there is no file 'net.py'",
    "evaluate net.onnx digits --threat l2:1": "net.onnx does not exist",
    "evaluate net.py digits --threat l2:1": "name the function",
    "evaluate hf: digits --threat l2:1": "hf:OWNER/NAME",
    "evaluate net digits --threat l2:1 --suite standrd": "Did you mean 'standard'",
    "evaluate net digits --threat l2:1 --split tset": "--split must be test, train or both",
    "evaluate net digits --threat l2:1 --outputs logit": "--outputs must be auto, logits or probabilities",
    "evaluate net digits --threat l2:1 --mean imgnet": "--mean must be one of imagenet",
    "evaluate net digits --threat l2:1 --mean 0.5 --std 0": "--std must be positive",
    "evaluate net digits --threat l2:1 --weights no.pth": "no.pth do not exist",
    "evaluate timm:resnet18 digits --threat l2:1 --surrogate net": "No run in",
    "attack net digits --threat l2:1 --attack pgdd": "Did you mean 'pgd'",
    "attack timm:net digits --threat l2:1 --out x.csv": "must end in .npz",
    "certify net digits --method margn": "Did you mean 'margin'",
    "certify net digits --norm l3": "No norm is called 'l3'",
    "certify net digits": "No run in",
    "gate net digits --require clean>=0.5": "No run in",
    "gate net digits --require clean>=0.5 --suite fats": "Did you mean 'fast'",
    "assess digits --model net": "No run in",
    "assess digits --suite fats": "Did you mean 'fast'",
    "audit digits --norm l3": "No norm is called 'l3'",
    "export net out.onnx": "No run in",
    "export hf:a/b out.xyz": "exported to .onnx or .pt2",
    "compare a b": "No run in",
    "card a": "No run in",
    "runs show a": "No run in",
    "verify no.onnx no.vnnlib": "There is no file no.onnx",
    "check no.proof": "There is no file no.proof",
    "study run data-scalling": "Did you mean 'data-scaling'",
    "study run no.toml": "There is no file no.toml",
    "study run data-scaling --budget cpuu": "Did you mean 'cpu'",
    "study run data-scaling --executor rya": "--executor must be processes, inline, ray or ray:local",
    "study show data-scalling": "Did you mean 'data-scaling'",
    "forecast data-scalling --target 0.7": "data-scalling",
    "claims nope": "No claim, study or paper is called 'nope'",
    "theory nope": "No result is called 'nope'",
}
PROGRAM = """
import sys
class WithoutTorch:
    def find_spec(self, name, path=None, target=None):
        assert name != "torch", "torch is imported"
sys.meta_path.insert(0, WithoutTorch())
from radii.cli.main import app, guarded
for line in sys.stdin.read().splitlines():
    code = guarded(lambda: app(line.split(), standalone_mode=False))
    print(f"exit code {code}", file=sys.stderr)
"""


def test_a_wrong_word_is_answered_without_torch(tmp_path: Path) -> None:
    environment = os.environ | {"COLUMNS": "1000", "RADII_DATA": str(tmp_path)}
    words = "\n".join(ROWS)
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM],
        input=words,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    answers = [part.strip() for part in done.stderr.split("exit code 2\n")]
    assert len(answers) == len(ROWS) + 1, done.stderr
    wrong = {row: answer for (row, says), answer in zip(ROWS.items(), answers, strict=False) if says not in answer}
    assert wrong == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("help",), ("help", "train"), ("-V",), ("--version",)])
def test_words_that_people_try(radii: Callable[..., Any], words: tuple[str, ...]) -> None:
    done = radii(*words)
    assert done.code == 0
    assert ("Usage" in done.out) == (words[0] == "help")


def test_runs_are_listed_by_both_words(radii: Callable[..., Any]) -> None:
    assert radii("runs", "list").out == radii("runs").out


def test_a_setting_by_the_name_it_has_elsewhere(radii: Callable[..., Any]) -> None:
    assert "did you mean optimizer.lr?" in radii("train", "digits", "learning_rate=0.1").err


def test_a_pickle_says_what_to_do(radii: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "lr.joblib").write_bytes(b"\x80\x04")
    told = radii("evaluate", tmp_path / "lr.joblib", "digits", "--threat", "l2:1").err
    assert "can run code when it is opened" in told
    assert "FILE.py:factory" in told
