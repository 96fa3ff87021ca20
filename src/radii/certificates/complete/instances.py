"""Many verifications: a list of instances, a table of verdicts that can be continued, all cores by processes."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from radii import progress
from radii.atomic import write_whole
from radii.errors import InputError, reason

ERROR = "error"  # the verdict of an instance that cannot be read; its sentence stands under ``method``
COLUMNS = ("onnx", "vnnlib", "timeout_s", "verdict", "seconds", "method", "nodes", "open", "expected")


@dataclass(frozen=True)
class Instance:
    """One line of a list: paths relative to the list's folder, the time limit, the known verdict or nothing."""

    network: str
    query: str
    seconds: float
    expected: str = ""


def read_instances(path: Path, seconds: float | None = None) -> list[Instance]:
    """The instances of a CSV file as VNN-COMP writes it: network, property, seconds; a header may give more columns.

    Args:
        path: the file.
        seconds: a time limit for every instance; default: those of the file.

    Raises:
        InputError: the file cannot be read, a line is not an instance, or there is none.
    """
    try:
        lines = [line for line in csv.reader(io.StringIO(path.read_text())) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a list of instances: {reason(error)}.") from error
    head = [name.strip().lower() for name in lines[0]] if lines and lines[0][0].strip().lower() == "onnx" else None
    verdict = head.index("verdict") if head and "verdict" in head else None
    instances = []
    for number, line in enumerate(lines[1 if head else 0 :], 2 if head else 1):
        try:
            limit = float(line[2]) if seconds is None else seconds
            expected = line[verdict].strip().rstrip("?") if verdict is not None else ""
            instances.append(Instance(line[0].strip(), line[1].strip(), limit, expected))
        except (IndexError, ValueError):
            raise InputError(f"{path}, line {number}: NETWORK.onnx,PROPERTY.vnnlib,SECONDS is expected.") from None
    if not instances:
        raise InputError(f"{path} lists no instance.")
    return instances


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of the table ``path`` that :func:`run_instances` wrote; none if there is no file."""
    if not path.exists():
        return []
    try:
        rows = list(csv.DictReader(io.StringIO(path.read_text())))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a table of verdicts: {reason(error)}.") from error
    if rows and set(rows[0]) != set(COLUMNS):
        raise InputError(f"{path} is not a table of verdicts: its columns must be {', '.join(COLUMNS)}.")
    return rows


def run_instances(
    folder: Path,
    instances: list[Instance],
    table: Path,
    workers: int | None = None,
    spread: Callable[[list[Instance]], Iterator[dict[str, str]]] | None = None,
) -> Iterator[dict[str, str]]:
    """Verify every instance that the table does not have yet; each row is written as soon as it is known.

    Args:
        folder: where the instances' paths start.
        instances: what to verify.
        table: the CSV file to continue.
        workers: number of processes; 0 or 1: this process alone; default: one per core.
        spread: verifies a list of instances elsewhere, for example on a cluster; default: processes of this machine.

    Yields:
        The rows of the table, as they become known.
    """
    rows = [row for row in read_table(table) if row["verdict"] != ERROR]  # these are tried again
    known = {(row["onnx"], row["vnnlib"], float(row["timeout_s"])) for row in rows}
    left = [entry for entry in instances if (entry.network, entry.query, entry.seconds) not in known]
    wanted = workers if workers is not None else os.cpu_count() or 1
    count = max(1, min(wanted, len(left)))
    with progress.task("verifying", len(left), "instances") as bar:
        for row in _rows(folder, left, count) if spread is None else spread(left):
            rows.append(row)
            _write(table, rows)
            bar.advance(1, row["verdict"])
            yield row


def _rows(folder: Path, left: list[Instance], count: int) -> Iterator[dict[str, str]]:
    if count == 1:
        yield from (verified_row(folder, entry) for entry in left)
        return
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_one_thread)
    try:
        for future in as_completed([pool.submit(verified_row, folder, entry) for entry in left]):
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def verified_row(folder: Path, entry: Instance) -> dict[str, str]:
    """Verify the instance ``entry`` whose paths start in ``folder``, as a row of the table."""
    from radii.certificates.complete.verify import verify

    try:
        answer = verify(folder / entry.network, folder / entry.query, seconds=entry.seconds)
        if answer.interrupted:
            raise KeyboardInterrupt  # the next call begins this instance again
    except InputError as refusal:  # the others go on
        return failed_row(entry, str(refusal))
    values = (
        entry.network,
        entry.query,
        f"{entry.seconds:g}",
        answer.verdict,
        f"{answer.seconds:.3f}",
        answer.method,
        str(answer.nodes),
        f"{answer.open:.3g}",
        entry.expected,
    )
    return dict(zip(COLUMNS, values, strict=True))


def failed_row(entry: Instance, why: str) -> dict[str, str]:
    """The row of the instance ``entry`` that cannot be verified; ``why`` is a sentence."""
    row = (entry.network, entry.query, f"{entry.seconds:g}", ERROR, "0", why, "0", "1", entry.expected)
    return dict(zip(COLUMNS, row, strict=True))


def _write(table: Path, rows: list[dict[str, str]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(table, text.getvalue().encode())
