"""Curves of a training for TensorBoard, written by ``torch.utils.tensorboard``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from radii.errors import InputError

_folder: ContextVar[Path | None] = ContextVar("radii_events", default=None)


@contextmanager
def recorded(folder: Path | None) -> Iterator[None]:
    """Within this context every training writes its curves to ``folder``; None writes nothing.

    Raises:
        InputError: ``folder`` is not None and the package tensorboard is not installed.
    """
    if folder is not None:
        _writer_class()
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


class TrainingCurves:
    """Named numbers over the steps of one training; written nowhere without a writer."""

    def __init__(self, writer: Any = None) -> None:
        self._writer = writer

    def add(self, step: int, **values: float) -> None:
        """Add one point to each named curve, on disk at once: a killed training loses no point.

        Args:
            step: number of training steps done.
            values: the curves' names and their values at this step.
        """
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)
            self._writer.flush()


@contextmanager
def curves(active: bool = True) -> Iterator[TrainingCurves]:
    """The curves of one training, in the folder that :func:`recorded` set; silent if it set none or not ``active``."""
    folder = _folder.get()
    if folder is None or not active:
        yield TrainingCurves()
        return
    with _writer_class()(folder) as writer:
        yield TrainingCurves(writer)


def _writer_class() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InputError("Curves for TensorBoard need one more package: pip install 'radii[tensorboard]'.") from error
    return SummaryWriter
