"""Datasets of the Hugging Face hub: fetched when a user names one, checked against the hub's sha256, resumable."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from radii import progress
from radii.data import cache
from radii.errors import InputError
from radii.files import sha256


@dataclass(frozen=True)
class HubDataset:
    """A dataset of the Hugging Face hub.

    Args:
        configuration: the folder of the configuration that is fetched; empty for the only one.
        megabytes: size of the download; 0 if it is not known.
    """

    repository: str
    configuration: str
    megabytes: int
    contents: str


CARD = "README.md"  # class names may stand in it
CONVERTED = "refs/convert/parquet"
SPLITS = {"train", "test", "validation", "valid", "val"}
REPOSITORY = re.compile(r"([\w.-]+(?:/[\w.-]+)?)(?:/([\w.-]+(?:/[\w.-]+)*))?")

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
    """Download a known dataset into the cache; an interrupted download continues."""
    return _fetch(name, KNOWN[name], cache.folder() / "datasets" / name)


def parse_repository(text: str) -> HubDataset:
    """The dataset that ``text`` names: ``OWNER/NAME`` or ``OWNER/NAME/CONFIGURATION``.

    >>> parse_repository("uoft-cs/cifar10/plain_text").configuration
    'plain_text'
    """
    match = REPOSITORY.fullmatch(text)
    if match is None or ".." in text or "--" in text:
        raise InputError(
            f"A dataset of the Hugging Face hub is hf:OWNER/NAME or hf:OWNER/NAME/CONFIGURATION, got hf:{text} instead."
        )
    return HubDataset(match[1], match[2] or "", 0, "from the Hugging Face hub")


def local_repository(entry: HubDataset) -> Path | None:
    """The folder of the repository ``entry`` on this machine: fetched by radii, or in the cache of the hub's client."""
    if (done := _place(entry)).is_dir():
        return done
    try:
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(entry.repository, repo_type="dataset", local_files_only=True))
    except Exception:  # not there, no client, or a cache of another version: it is fetched instead
        return None
    folder = folder / entry.configuration
    return folder if folder.is_dir() and any(folder.rglob("*.parquet")) else None


def fetch_repository(entry: HubDataset) -> Path:
    """Download the parquet files of any repository of the hub into the cache, as :func:`fetch` does."""
    return _fetch(f"hf:{entry.repository}", entry, _place(entry))


def fetched() -> dict[str, Path]:
    """The repositories that were fetched before: their folders by name."""
    root = cache.folder() / "hub"
    folders = sorted(root.iterdir()) if root.is_dir() else []
    return {f"hf:{place.name.replace('--', '/')}": place for place in folders if not place.name.startswith(".")}


def _place(entry: HubDataset) -> Path:
    words = [*entry.repository.split("/"), *filter(None, entry.configuration.split("/"))]
    return cache.folder() / "hub" / "--".join(words)


def _fetch(name: str, entry: HubDataset, done: Path) -> Path:
    part = cache.folder() / "downloads" / done.name
    with cache.writing(done), cache.writing(part), cache.locked(done):
        if done.is_dir():  # another process fetched it in the meantime
            return done
        try:
            files = _files(entry)
            _check_room(name, files, part)
            for file in files:
                _download(entry, file, part, name)
        except InputError:
            raise
        except Exception as error:  # the hub's client raises many types of several libraries
            raise _explained(name, entry, error) from error
        root = part / entry.configuration
        if entry.configuration and root.is_dir():
            if (part / CARD).is_file():
                os.replace(part / CARD, root / CARD)
            os.replace(root, done)
        else:
            shutil.rmtree(part / ".cache", ignore_errors=True)
            os.replace(part, done)
        shutil.rmtree(part, ignore_errors=True)
    return done


@dataclass(frozen=True)
class _File:
    path: str
    revision: str
    sha256: str | None
    size: int


def _files(entry: HubDataset) -> list[_File]:
    """The parquet files of the configuration, with the sha256 that the hub states.

    Of a repository without parquet files, those into which the hub itself converts it are taken.
    """
    files = _parquet(entry, None)
    if not files and entry not in KNOWN.values():
        from huggingface_hub.errors import RevisionNotFoundError

        try:
            files = _parquet(entry, CONVERTED)
        except RevisionNotFoundError:
            files = []
    if not files:
        where = f" in {entry.configuration}/" if entry.configuration else ""
        raise InputError(
            f"The hub's {entry.repository} has no parquet files{where}: download the dataset yourself and give its "
            "path."
        )
    return files


def _parquet(entry: HubDataset, revision: str | None) -> list[_File]:
    from huggingface_hub import HfApi

    info = HfApi().dataset_info(entry.repository, revision=revision, files_metadata=True, timeout=20)
    files = {item.rfilename: item for item in info.siblings or []}
    tables = [name for name in files if name.endswith(".parquet")]
    if entry in KNOWN.values():
        wanted = [name for name in tables if name.rsplit("/", 1)[-1].startswith(("train", "test"))]
        wanted = [name for name in wanted if name.startswith(f"{entry.configuration}/")]
    else:
        wanted = _of_configuration(entry, tables)
        wanted += [CARD] if wanted and CARD in files else []
    chosen = [(name, files[name]) for name in wanted]
    return [
        _File(name, info.sha or "main", str(item.lfs.sha256) if item.lfs else None, item.size or 0)
        for name, item in chosen
    ]


def _of_configuration(entry: HubDataset, tables: list[str]) -> list[str]:
    """The ``tables`` of the named configuration, or of the only one; a configuration is a folder of the repository."""
    if entry.configuration:
        return [name for name in tables if name.startswith(f"{entry.configuration}/")]
    folders = sorted({name.partition("/")[0] if "/" in name else "" for name in tables})
    usual = next((folder for folder in ("data", "default") if folder in folders), None)
    if len(folders) > 1 and usual is None and not set(folders) <= SPLITS:
        raise InputError(
            f"The hub's {entry.repository} has several configurations: {', '.join(filter(None, folders))}. "
            f"Name one: hf:{entry.repository}/{next(filter(None, folders))}."
        )
    return tables if usual is None else [name for name in tables if name.startswith(f"{usual}/")]


def _check_room(name: str, files: list[_File], folder: Path) -> None:
    """Refuse a download that the disk of ``folder`` cannot hold."""
    needed, free = sum(file.size for file in files), shutil.disk_usage(folder.parent).free
    if needed > free:
        raise InputError(
            f"{name} has {needed / 1e9:,.1f} GB and the disk of {folder.parent} has {free / 1e9:,.1f} GB free; "
            "set RADII_CACHE to a folder on another disk."
        )


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
    if isinstance(error, ImportError):
        return InputError(f"{name} needs the package huggingface_hub: pip install huggingface_hub.")
    kind = type(error).__name__
    if kind in ("RepositoryNotFoundError", "GatedRepoError"):
        return InputError(
            f"The Hugging Face hub shows no dataset {entry.repository}: check the name, or log in (hf auth login) if "
            "it is private or asks for consent."
        )
    remedy = f"go online, or set RADII_DATA to a folder that holds {name}/"
    if entry not in KNOWN.values():
        remedy = "go online, or give the path of a folder that you downloaded"
    return InputError(
        f"{name} is not on this machine and cannot be fetched from {entry.repository} on the Hugging Face hub "
        f"({kind}): {remedy}."
    )
