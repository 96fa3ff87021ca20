"""Curves on disk: read back by TensorBoard's own reader."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from radii.errors import InputError
from radii.training.events import curves, recorded


def test_tensorboard_reads_the_curves_while_training_runs(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with recorded(tmp_path / "events"), curves() as plot:
        plot.add(1, loss=2.5, accuracy=0.25)
        plot.add(300, loss=0.5)
        (file,) = (tmp_path / "events").iterdir()
        accumulator = reader.EventAccumulator(str(file.parent))
        accumulator.Reload()
        assert [(point.step, point.value) for point in accumulator.Scalars("loss")] == [(1, 2.5), (300, 0.5)]
        assert [(point.step, point.value) for point in accumulator.Scalars("accuracy")] == [(1, 0.25)]


def test_nothing_is_written_unless_asked(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    with recorded(tmp_path / "no"), curves(active=False) as plot:
        plot.add(1, loss=1.0)
    with curves() as plot:
        plot.add(1, loss=1.0)
    assert not (tmp_path / "no").exists()


def test_a_missing_package_is_one_sentence_before_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"pip install 'radii\[tensorboard\]'"), recorded(tmp_path):
        pytest.fail("the training began")
    with recorded(None), curves() as plot:
        plot.add(1, loss=1.0)
