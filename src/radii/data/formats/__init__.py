"""The file formats of datasets: a folder of images by class, parquet, CSV and .npz.

The readers open files of unknown origin: no pickle, no decompression bomb, and
every fault is one :class:`~radii.errors.InputError` that names the file or row.
"""

from radii.data.formats.reader import (
    Encoded,
    Reading,
    Side,
    Source,
    format_of,
    identity,
    known_identity,
    open_source,
    regular_files,
)

__all__ = [
    "Encoded",
    "Reading",
    "Side",
    "Source",
    "format_of",
    "identity",
    "known_identity",
    "open_source",
    "regular_files",
]
