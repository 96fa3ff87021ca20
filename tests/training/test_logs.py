"""Logs of a training: TensorBoard's own reader, CSV files that survive kills, and trackers of one's own."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import radii
from radii.errors import InputError
from radii.training.logs import CsvLog, current, logged_to, open_log
from radii.training.schedule import Recipe

HEADER = "run,step,name,value\r\n"


class Remembered:
    """A tracker of one's own."""

    def __init__(self) -> None:
        self.points: list[tuple[str, int, dict[str, float]]] = []
        self.closed = 0

    def add(self, run: str, step: int, values: Mapping[str, float]) -> None:
        self.points.append((run, step, dict(values)))

    def close(self) -> None:
        self.closed += 1


def test_tensorboard_reads_the_curves_while_training_runs(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    log = open_log(f"tensorboard:{tmp_path / 'events'}")
    log.add("train-1", 1, {"loss": 2.5, "accuracy": 0.25})
    log.add("train-1", 300, {"loss": 0.5})
    (file,) = (tmp_path / "events").iterdir()
    accumulator = reader.EventAccumulator(str(file.parent))
    accumulator.Reload()
    assert [(point.step, point.value) for point in accumulator.Scalars("loss")] == [(1, 2.5), (300, 0.5)]
    assert [(point.step, point.value) for point in accumulator.Scalars("accuracy")] == [(1, 0.25)]
    log.close()


def test_a_training_tells_every_log_every_step(tmp_path: Path) -> None:
    log, recipe = Remembered(), Recipe(epochs=2, batch_size=200)
    with logged_to(open_log(f"csv:{tmp_path / 'curve.csv'}")):
        trained = radii.train("digits", "mlp", recipe=recipe, model_arguments={"width": 8}, log=log)
    assert log.closed == 1
    steps = [step for _, step, values in log.points if "loss" in values]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) == 2 * (1438 // 200)
    assert {run for run, _, _ in log.points} == {trained.run.id}
    passes = [values for _, _, values in log.points if "epoch_loss" in values]
    assert [values["epoch_loss"] for values in passes] == [epoch.loss for epoch in trained.result.history]
    with (tmp_path / "curve.csv").open(newline="") as file:
        rows = [(row["run"], int(row["step"]), row["name"], float(row["value"])) for row in csv.DictReader(file)]
    assert rows == [(run, step, *pair) for run, step, values in log.points for pair in values.items()]
    assert current() == ()


def test_a_training_after_a_kill_repeats_no_line(tmp_path: Path) -> None:
    place = tmp_path / "curve.csv"
    first = CsvLog(place)
    first.add("other", 7, {"loss": 1.0})
    for step in range(1, 6):
        first.add("mine", step, {"loss": step / 10})
    with place.open("a") as file:
        file.write("mine,6,lo")  # the kill cut a line
    again = CsvLog(place)
    again.add("mine", 4, {"loss": 0.44})
    again.add("mine", 5, {"loss": 0.55})
    lines = ["other,7,loss,1.0", "mine,1,loss,0.1", "mine,2,loss,0.2", "mine,3,loss,0.3"]
    lines += ["mine,4,loss,0.44", "mine,5,loss,0.55"]
    assert place.read_bytes().decode() == HEADER + "".join(f"{line}\r\n" for line in lines)


@pytest.mark.parametrize("content", ["my,own,table\n1,2,3\n", "words\n", HEADER + "a\nb\nc\n"])
def test_no_other_file_is_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "mine.csv").write_bytes(content.encode())
    with pytest.raises(InputError, match=r"mine\.csv exists and is no log of radii"):
        open_log(f"csv:{tmp_path / 'mine.csv'}")
    assert (tmp_path / "mine.csv").read_bytes().decode() == content


@pytest.mark.parametrize("place", ["", "csv", "csv:", "curve.csv", "cvs:file", "wandb:project"])
def test_a_wrong_log_is_one_sentence(place: str) -> None:
    with pytest.raises(InputError, match=r"tensorboard:FOLDER or csv:FILE"):
        open_log(place)


def test_a_missing_package_is_one_sentence_before_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"pip install tensorboard"):
        open_log(f"tensorboard:{tmp_path}")


def test_a_file_is_no_folder_of_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    (tmp_path / "taken").write_text("words")
    with pytest.raises(InputError, match="takes the name of a folder"):
        open_log(f"tensorboard:{tmp_path / 'taken'}")
