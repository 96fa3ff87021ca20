"""Where the numbers of a training go while it runs: TensorBoard, a CSV file, or a tracker of one's own.

A log takes loss and accuracy of every step, and loss and accuracies of every pass over the data. It sees a training
and changes nothing of it: a run is the same with and without logs.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from radii.errors import InputError, unknown_name
from radii.files import check_writable, whole_file

KINDS = ("tensorboard", "csv")
COLUMNS = ["run", "step", "name", "value"]


@runtime_checkable
class TrainingLog(Protocol):
    """Takes the numbers of trainings. W&B or MLflow are a class of a few lines; the guide of training has them."""

    def add(self, run: str, step: int, values: Mapping[str, float]) -> None:
        """Take some numbers.

        Args:
            run: the run that is trained; several trainings may use one log.
            step: steps done so far, from 1. A training that was killed repeats the steps since its last checkpoint.
            values: ``loss`` and ``accuracy`` of a batch; after each pass over the data ``epoch_loss``,
                ``train_accuracy`` and, where it was measured, ``test_accuracy``.
        """

    def close(self) -> None:
        """The last training has ended."""


_logs: ContextVar[Sequence[TrainingLog]] = ContextVar("radii_logs", default=())


@contextmanager
def logged_to(*logs: TrainingLog) -> Iterator[None]:
    """Within this context every training writes its numbers to ``logs``, too; they are closed at its end."""
    token = _logs.set((*_logs.get(), *logs))
    try:
        yield
    finally:
        _logs.reset(token)
        for log in logs:
            log.close()


def current() -> Sequence[TrainingLog]:
    """The logs of this context."""
    return _logs.get()


def open_log(place: str) -> TrainingLog:
    """The log that ``tensorboard:FOLDER`` or ``csv:FILE`` names."""
    kind, _, path = place.partition(":")
    if not path:
        raise InputError(f"A log is tensorboard:FOLDER or csv:FILE, got {place!r} instead.")
    if kind not in KINDS:
        raise unknown_name("log", kind, list(KINDS), "Write tensorboard:FOLDER or csv:FILE.")
    return TensorBoardLog(Path(path)) if kind == "tensorboard" else CsvLog(Path(path))


class TensorBoardLog:
    """Event files of TensorBoard in ``folder``, on disk at once: a killed training loses no point."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError("A TensorBoard log needs one more package: pip install tensorboard.") from error
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; tensorboard: takes the name of a folder.")
        self._writer: Any = SummaryWriter(folder)

    def add(self, run: str, step: int, values: Mapping[str, float]) -> None:  # noqa: ARG002
        """One point of each curve."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """End the event file."""
        self._writer.close()


class CsvLog:
    """Lines ``run,step,name,value`` in ``file``, on disk at once.

    Lines of other runs stay. A training that goes on after a kill replaces the lines of the steps that it repeats.
    """

    def __init__(self, file: Path) -> None:
        check_writable(file)
        self._file, self._begun = file, set[str]()
        self._lines()  # another file is refused before the training

    def add(self, run: str, step: int, values: Mapping[str, float]) -> None:
        """One line for each value."""
        if run not in self._begun:
            self._begin(run, step)
        with self._file.open("a", newline="") as file:
            csv.writer(file).writerows([run, step, name, value] for name, value in values.items())

    def close(self) -> None:
        """Nothing is left to be done."""

    def _begin(self, run: str, step: int) -> None:
        """Write the file anew without what ``run`` repeats from ``step`` on."""
        self._begun.add(run)
        kept = [line for line in self._lines() if line[0] != run or int(line[1]) < step]
        with whole_file(self._file) as file:
            file.write("".join(",".join(line) + "\r\n" for line in (COLUMNS, *kept)).encode())

    def _lines(self) -> list[list[str]]:
        if not self._file.exists() or self._file.stat().st_size == 0:
            return []
        with self._file.open(newline="", errors="replace") as file:
            header, *lines = csv.reader(file)
        whole = [line for line in lines if len(line) == len(COLUMNS) and line[1].isdigit()]
        if header != COLUMNS or len(whole) < len(lines) - 1:  # a kill may cut the last line
            raise InputError(f"{self._file} exists and is no log of radii; give another name.")
        return whole
