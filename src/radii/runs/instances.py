"""Many verifications: a list of instances, each a step, and a table of verdicts that can be continued."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from pathlib import Path

from radii import progress
from radii.errors import InputError, reason
from radii.files import write_whole
from radii.runs.component_specs import FileSpec
from radii.runs.executors.dispatch import Executor, Observer
from radii.runs.step import Step
from radii.runs.step_results import VerifyResult
from radii.runs.steps.verify_step import NetworkFile, Verify
from radii.runs.store import Run, Store
from radii.spec import LARGEST
from radii.untrusted_text import check_file

ERROR = "error"  # the verdict of an instance that cannot be read; its sentence stands under ``method``
COLUMNS = ("onnx", "vnnlib", "timeout_s", "verdict", "seconds", "method", "nodes", "open", "expected")

Row = dict[str, str]
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Instance:
    """One line of a list: paths relative to the list's folder, the time limit, the known verdict or nothing."""

    network: str
    query: str
    seconds: float
    expected: str = ""

    @property
    def key(self) -> Key:
        """What tells its row of a table: the files and the time limit."""
        return self.network, self.query, f"{self.seconds:g}"

    def row(self, found: VerifyResult) -> Row:
        """Its row of the table."""
        return self._row(found.verdict, f"{found.seconds:.3f}", found.method, str(found.nodes), f"{found.open:.3g}")

    def failed_row(self, error: BaseException) -> Row:
        """Its row if it could not be verified."""
        return self._row(ERROR, "0", " ".join(str(error).split()) or type(error).__name__, "0", "1")

    def _row(self, *found: str) -> Row:
        return dict(zip(COLUMNS, (*self.key, *found, self.expected), strict=True))


def row_key(row: Row) -> Key:
    """The key of the instance whose row this is."""
    return row["onnx"], row["vnnlib"], f"{float(row['timeout_s']):g}"


def read_instances(path: Path, seconds: float | None = None) -> list[Instance]:
    """The instances of a CSV file as VNN-COMP writes it: network, property, seconds; a header may give more columns.

    Args:
        seconds: a time limit for every instance; default: those of the file.
    """
    check_file(path)
    try:
        lines = [line for line in csv.reader(io.StringIO(path.read_text(encoding="utf-8"))) if line]
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
            limit = 0.0
        if not 0 < limit <= LARGEST:
            raise InputError(f"{path}, line {number}: NETWORK.onnx,PROPERTY.vnnlib,SECONDS is expected.")
    if not instances:
        raise InputError(f"{path} lists no instance.")
    return instances


def read_table(path: Path) -> list[Row]:
    """The rows of the table ``path`` that :func:`run_instances` wrote; none if there is no file or it is empty."""
    if not path.exists():
        return []
    check_file(path)
    try:
        text = path.read_text(encoding="utf-8")
        reader = csv.DictReader(io.StringIO(text))
        rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a table of verdicts: {reason(error)}.") from error
    if text and set(reader.fieldnames or ()) != set(COLUMNS):
        columns = ", ".join(COLUMNS)
        raise InputError(f"{path} is not a table of verdicts: its columns must be {columns}; name another file.")
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values() or not _is_number(row["timeout_s"]):
            raise InputError(f"{path}, row {number}: a number of seconds and {len(COLUMNS)} values are expected.")
    return rows


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def run_instances(
    folder: Path,
    instances: Sequence[Instance],
    table: Path,
    store: Store,
    executor: Executor,
    *,
    nodes: int | None = None,
    seed: int = 0,
) -> int:
    """Verify every instance that neither the table nor the store has; each row is written as soon as it is known.

    An instance that cannot be read, or whose process dies, gets a row with a sentence; it has no run, and the next
    call tries it again.

    Args:
        folder: where the paths of the instances start.
        nodes: the most regions to bound for each; default: no limit.

    Returns:
        How many of the instances were found, not computed.
    """
    rows = [row for row in read_table(table) if row["verdict"] != ERROR]
    known = {row_key(row) for row in rows}
    left = [entry for entry in instances if entry.key not in known]
    steps, network = dict[str, Verify](), cache(NetworkFile.of)
    with progress.task("verifying", len(left), "instances") as bar:
        verdicts = _Verdicts(table, rows, store, bar)
        for entry in left:
            try:
                files = network(folder / entry.network), FileSpec.of(folder / entry.query)
            except InputError as refusal:  # the others go on
                verdicts.add(entry.failed_row(refusal))
                continue
            step = Verify(network=files[0], query=files[1], seconds=entry.seconds, nodes=nodes, seed=seed)
            steps[step.run_id] = step
            verdicts.waiting.setdefault(step.run_id, []).append(entry)
        stored = [step for step in steps.values() if store.is_done(step)]
        for step in stored:
            verdicts.ended(step, None)
        executor.run([*steps.values()], store, verdicts)
    return len(instances) - len(left) + sum(len(verdicts.waiting[step.run_id]) for step in stored)


@dataclass
class _Verdicts(Observer):
    """The table while it grows; ``waiting`` are the instances of each run."""

    table: Path
    rows: list[Row]
    store: Store
    bar: progress.Task
    waiting: dict[str, list[Instance]] = field(default_factory=dict)

    def ended(self, step: Step, error: BaseException | None) -> None:
        """Write the rows of the instances that the step is about."""
        for entry in self.waiting[step.run_id]:
            if error is None:
                self.add(entry.row(Run(self.store.folder(step)).read(VerifyResult)))
            else:
                self.add(entry.failed_row(error))

    def add(self, row: Row) -> None:
        """Write the table with one row more."""
        self.rows.append(row)
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        write_whole(self.table, text.getvalue().encode())
        self.bar.advance(1, row["verdict"])
