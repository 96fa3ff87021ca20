"""Tables of features: CSV, and parquet without images. One column is the label, all others are numbers or words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from radii.data._feature_rules import read_notes
from radii.data.formats._reader import Reading, Side, Source, class_numbers
from radii.errors import InputError

LABELS = ("label", "labels", "class", "target", "y", "species", "outcome")
MOST_WORDS = 50  # a column of more different words is no category


def read_csv(path: Path, reading: Reading) -> Source:
    """Read the CSV or TSV file ``path`` with a header line; ``reading`` says how.

    Where the header has more semicolons than commas, columns end at semicolons and commas are decimal points.
    """
    try:
        with path.open("rb") as file:
            header = file.readline(1 << 20)
        semicolons = header.count(b";") > header.count(b",")
        separator = "\t" if path.suffix.lower() == ".tsv" else ";" if semicolons else ","
        table = pyarrow.csv.read_csv(
            path,
            parse_options=pyarrow.csv.ParseOptions(delimiter=separator),
            convert_options=pyarrow.csv.ConvertOptions(decimal_point="," if _decimal_commas(path, separator) else "."),
        )
        names = table.column_names
        if any(pa.types.is_binary(kind) for kind in table.schema.types):  # what is no UTF-8 stays bytes
            raise UnicodeDecodeError("utf-8", b"", 0, 1, "words that are no UTF-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not written in UTF-8; convert it: iconv -f LATIN1 -t UTF-8.") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path} is not a whole CSV file: {str(error).splitlines()[0]}.") from error
    if len(set(names)) < len(names):
        raise InputError(f"The columns of {path} must have different names, got {', '.join(names)}.")
    return read_table({"all": table}, path, reading)


def _decimal_commas(path: Path, separator: str) -> bool:
    with path.open("rb") as file:
        return separator == ";" and re.search(rb"[;\n]-?\d+,\d+[;\r\n]", file.read(1 << 20)) is not None


def read_table(tables: dict[str, pa.Table], path: Path, reading: Reading) -> Source:
    """Features and labels of tables with equal columns, one for each split.

    Numbers, true and false become float32. A column of words becomes a one-hot group of columns ``name=word``.

    Args:
        path: the file or folder; the notes beside it are read.
    """
    notes = read_notes(path)
    whole = next(iter(tables.values()))
    label = _label_column(whole.column_names, reading.label or notes.label, path)
    names = [name for name in whole.column_names if name != label and name not in notes.drop]
    words = {name: _distinct(tables, name) for name in names if _is_words(whole.schema.field(name).type)}
    _check_columns(tables, names, label, words, path)
    groups = {name: [f"{name}={word}" for word in values] for name, values in words.items()}
    columns = [column for name in names for column in groups.get(name, [name])]
    labels, classes = class_numbers([_labels(table.column(label)) for table in tables.values()], None, path)
    rules = notes.rules(columns, list(groups.values()), path)
    sides = {
        side: Side(y, _features(table, names, words)) for (side, table), y in zip(tables.items(), labels, strict=True)
    }
    for part in sides.values():
        rules.check_rows(np.asarray(part.x), path)
    return Source(classes, sides, rules=rules)


def _label_column(columns: list[str], wanted: str | None, path: Path) -> str:
    if wanted is not None:
        if wanted in columns:
            return wanted
        raise InputError(f"{path} has no column {wanted!r}; its columns are {', '.join(columns)}.")
    known = next((name for name in columns if name.lower() in LABELS), None)
    if known is None:
        raise InputError(f"Which column of {path} is the label? Say it: --label COLUMN, one of {', '.join(columns)}.")
    return known


def _is_words(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _distinct(tables: dict[str, pa.Table], name: str) -> list[str]:
    return sorted({str(value) for table in tables.values() for value in table.column(name).unique().to_pylist()})


def _check_columns(
    tables: dict[str, pa.Table], names: list[str], label: str, words: dict[str, list[str]], path: Path
) -> None:
    """All faults of the columns in one sentence."""
    faults = []
    for table in tables.values():
        for name in [label, *names]:
            if name not in table.column_names:
                faults.append(f"{name} is not in every split")
            elif missing := table.column(name).null_count:
                faults.append(f"{name} has {missing} missing values")
            elif name != label and name not in words and not _is_number(table.schema.field(name).type):
                faults.append(f"{name} is {table.schema.field(name).type}, neither numbers nor words")
    faults += [f"{name} has {len(own)} different words" for name, own in words.items() if len(own) > MOST_WORDS]
    if not names:
        faults.append("there is no column beside the label")
    if faults:
        shown = "; ".join(dict.fromkeys(faults))
        raise InputError(
            f'{path} cannot be used: {shown}. Fill or leave out columns: drop = ["NAME"] in '
            f"{path.with_suffix('.toml').name}."
        )


def _labels(column: pa.ChunkedArray) -> NDArray[Any]:
    values = np.array(column.to_pylist())
    if values.dtype.kind == "f" and np.array_equal(values, np.rint(values)):
        return values.astype(np.int64)
    if values.dtype.kind == "b":
        return values.astype(np.int64)
    return values


def _features(table: pa.Table, names: list[str], words: dict[str, list[str]]) -> NDArray[np.float32]:
    parts: list[NDArray[np.float32]] = []
    for name in names:
        values = table.column(name).to_pylist() if name in words else table.column(name).to_numpy()
        if name in words:
            own = np.array([str(value) for value in values])
            parts += [(own == word).astype(np.float32) for word in words[name]]
        else:
            parts.append(np.asarray(values).astype(np.float32))
    return np.stack(parts, 1)
