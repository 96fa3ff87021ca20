"""What a dataset can be stored as: parquet in the Hugging Face layout, .npz, a folder of images by class.

Readers open files that strangers wrote: no pickle, no decompression bomb, and
every fault is one :class:`~radii.errors.InputError` that names the file or row.
"""

from radii.data.formats.reader import Encoded, Side, Source, format_of, identity, open_source

__all__ = ["Encoded", "Side", "Source", "format_of", "identity", "open_source"]
