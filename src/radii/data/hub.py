"""Datasets of the Hugging Face hub: fetched when a user names one, checked against the hub's sha256, resumable."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from radii import progress
from radii.checksums import sha256
from radii.data import cache
from radii.errors import InputError


@dataclass(frozen=True)
class HubDataset:
    """A dataset of the Hugging Face hub.

    Args:
        repository: owner/name on the hub.
        configuration: the folder of the configuration that is fetched.
        megabytes: size of the download.
        contents: one line that describes the dataset.
    """

    repository: str
    configuration: str
    megabytes: int
    contents: str


KNOWN = {
    "mnist": HubDataset("ylecun/mnist", "mnist", 18, "70,000 digits, 28 x 28 grey, 10 classes"),
    "fashion-mnist": HubDataset(
        "zalando-datasets/fashion_mnist", "fashion_mnist", 36, "70,000 clothes, 28 x 28 grey, 10 classes"
    ),
    "cifar10": HubDataset("uoft-cs/cifar10", "plain_text", 144, "60,000 photographs, 32 x 32 color, 10 classes"),
    "cifar100": HubDataset("uoft-cs/cifar100", "cifar100", 142, "60,000 photographs, 32 x 32 color, 100 classes"),
    "svhn": HubDataset("ufldl-stanford/svhn", "cropped_digits", 261, "99,289 house numbers, 32 x 32 color, 10 classes"),
}


def fetch(name: str) -> Path:
    """Download a known dataset into the cache; an interrupted download continues.

    Args:
        name: a key of ``KNOWN``.

    Returns:
        The folder of the dataset.

    Raises:
        InputError: the hub cannot be reached, or a file does not have the hub's sha256.
    """
    entry = KNOWN[name]
    done = cache.folder() / "datasets" / name
    part = cache.folder() / "downloads" / name
    with cache.writing(done), cache.writing(part), cache.locked(done):
        if done.is_dir():  # another process fetched it in the meantime
            return done
        try:
            for file in _files(entry):
                _download(entry, file, part, name)
        except InputError:
            raise
        except Exception as error:  # the hub's client raises many types of several libraries
            raise _explained(name, entry, error) from error
        root = part / entry.configuration
        os.replace(root if root.is_dir() else part, done)
        shutil.rmtree(part, ignore_errors=True)
    return done


@dataclass(frozen=True)
class _File:
    path: str
    revision: str
    sha256: str | None


def _files(entry: HubDataset) -> list[_File]:
    """The train and test parquet files of the configuration, with the sha256 that the hub states."""
    from huggingface_hub import HfApi

    info = HfApi().dataset_info(entry.repository, files_metadata=True, timeout=20)
    wanted = [
        item
        for item in info.siblings or []
        if item.rfilename.startswith(f"{entry.configuration}/")
        and item.rfilename.rsplit("/", 1)[-1].startswith(("train", "test"))
        and item.rfilename.endswith(".parquet")
    ]
    if not wanted:
        raise InputError(
            f"The hub's {entry.repository} has no parquet files in {entry.configuration}/: download the dataset "
            "yourself and give its path."
        )
    return [_File(item.rfilename, info.sha or "main", str(item.lfs.sha256) if item.lfs else None) for item in wanted]


def _download(entry: HubDataset, file: _File, folder: Path, name: str) -> None:
    from huggingface_hub import hf_hub_download

    with progress.task(f"fetching {name} ({file.path})"):
        path = hf_hub_download(
            entry.repository, file.path, repo_type="dataset", revision=file.revision, local_dir=folder
        )
    if file.sha256 is not None and sha256(Path(path)) != file.sha256:
        Path(path).unlink()
        raise InputError(f"The downloaded {file.path} of {entry.repository} is damaged (sha256 differs). Try again.")


def _explained(name: str, entry: HubDataset, error: Exception) -> InputError:
    return InputError(
        f"{name} is not on this machine and cannot be fetched from {entry.repository} on the Hugging Face hub "
        f"({type(error).__name__}): go online, or set RADII_DATA to a folder that holds {name}/."
    )
