"""The file formats of datasets: parquet in the Hugging Face layout, .npz, and a folder of images by class.

The readers open files of unknown origin: no pickle, no decompression bomb, and
every fault is one :class:`~radii.errors.InputError` that names the file or row.
"""

from radii.data.formats.reader import (
    Encoded,
    Side,
    Source,
    format_of,
    identity,
    known_identity,
    open_source,
    regular_files,
)

__all__ = ["Encoded", "Side", "Source", "format_of", "identity", "known_identity", "open_source", "regular_files"]
