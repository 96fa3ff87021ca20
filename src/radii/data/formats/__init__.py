"""The file formats of datasets: a folder of images by class, parquet, CSV and .npz.

The readers open files of unknown origin: no pickle, no decompression bomb, and
every fault is one :class:`~radii.errors.InputError` that names the file or row.
"""
