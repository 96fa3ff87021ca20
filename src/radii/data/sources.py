"""From a name to data: ``load("mnist+smooth:3")``.

A name is looked up in ``$RADII_DATA``, then in the cache, then fetched from the
Hugging Face hub, as is ``hf:OWNER/NAME``; anything else is a path. A dataset is decoded once; later loads
map the decoded arrays from disk.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.data import cache, hub, variant_chain
from radii.data.dataset import Data
from radii.data.formats import _reader as reader
from radii.data.formats._reader import Encoded, Reading, Side, Source
from radii.errors import InputError, checked, unknown_name
from radii.files import write_whole
from radii.process import data_folder
from radii.randomness import numpy_stream
from radii.untrusted_text import check_file

BUNDLED = "digits"
UNDECODED = "not decoded yet: "  # before the name of a dataset, where its digests are not known
RESTRICTED = "restricted-imagenet"  # made from an ImageNet folder of the user's own
SHOWN = 5  # classes that a sentence names
PATH_HINT = "Or give the path of a folder of images by class, a CSV, parquet or .npz file, or hf:OWNER/NAME."


PLAIN = Reading()


@dataclass(frozen=True)
class DatasetLocation:
    """Where a dataset is.

    Args:
        path: its file or folder; None for the digits that scikit-learn ships.
    """

    name: str
    path: Path | None
    identity: dict[str, Any]
    reading: Reading = PLAIN

    def read_as(self, reading: Reading) -> DatasetLocation:
        """The same place, whose arrays are read in this way."""
        return replace(self, identity=self.identity | reading.identity(), reading=reading)


@checked
def load(name: str) -> Data:
    """Load the train and test split of a dataset.

    Args:
        name: a name (``mnist``), a path or a repository of the Hugging Face hub (``hf:OWNER/NAME``), followed by
            variants: ``mnist+smooth:3``.

    Returns:
        Both splits. Images stay on disk, memory-mapped, until they are used.

    Raises:
        InputError: the dataset does not exist, is damaged, or cannot be fetched.
    """
    base, chain = variant_chain.split(name)
    reading, chain = variant_chain.reading(chain)
    location = locate(base).read_as(reading)
    if _is_unread(location):
        raise InputError(f"{base} is not decoded yet on this machine; a run that needs it does so.")
    data = _base(location)
    for variant in chain:
        data = variant.apply(data)
    return data


def digest(name: str) -> tuple[str, str]:
    """The digests of the train and test split of ``name``, which identify their contents.

    Variants are not computed: their digests follow from their names. The
    dataset is decoded only if it never was before; where that is refused
    (:func:`only_local`), its name with :data:`UNDECODED` stands for them.
    """
    base, chain = variant_chain.split(name)
    reading, chain = variant_chain.reading(chain)
    location = locate(base).read_as(reading)
    if _is_unread(location):
        return f"{UNDECODED}{name} train", f"{UNDECODED}{name} test"
    meta = cache.read_meta(location.identity)
    if meta is None:
        data = _base(location)
        digests = data.train.digest, data.test.digest
    else:
        digests = meta["digests"]["train"], meta["digests"]["test"]
    for variant in chain:
        digests = variant.digests(*digests)
    return digests


def decoded_bytes(name: str) -> int:
    """The size in bytes of the arrays of the dataset ``name``, without variants; 0 if it was never decoded."""
    base, chain = variant_chain.split(name)
    meta = cache.read_meta(locate(base).read_as(variant_chain.reading(chain)[0]).identity)
    return 0 if meta is None else sum(meta["bytes"].values())


@contextmanager
def only_local(decoded: bool = False) -> Iterator[None]:
    """Refuse, in this context, every dataset that would have to be fetched."""
    token = _refused.set(frozenset({"fetch", "decode"} if decoded else {"fetch"}))
    try:
        yield
    finally:
        _refused.reset(token)


_refused: ContextVar[frozenset[str]] = ContextVar("radii_refused", default=frozenset())


def _is_unread(location: DatasetLocation) -> bool:
    """Whether a dataset would have to be decoded, and must not be; the bundled one takes no time."""
    return "decode" in _refused.get() and location.path is not None and cache.read_meta(location.identity) is None


def locate(base: str) -> DatasetLocation:
    """Find the dataset ``base``, a name or a path; a known name that is not on this machine is fetched from the hub."""
    if base == BUNDLED:
        return DatasetLocation(base, None, {"bundled": base, "scikit-learn": version("scikit-learn")})
    if base.startswith("hf:"):
        return _of_repository(base.removeprefix("hf:"))
    known = base.replace("_", "-")
    if known in hub.KNOWN:
        present = local(known)
        if present is None and "fetch" in _refused.get():
            raise InputError(f"{known} is not on this machine; a run that needs it fetches it.")
        return _location(known, present or hub.fetch(known))
    path = Path(base).expanduser()
    if base and os.path.exists(path):
        return _location(path.resolve().name, path)
    if known == RESTRICTED and local(known) is None:
        return _location(known, _restricted_imagenet())
    present = local(base) if base and os.sep not in base else None
    if present is not None:
        return _location(base, present)
    raise _unknown(base)


def check_name(name: str) -> None:
    """Refuse a ``name`` that no dataset can have: an unknown word, a missing file, a wrong variant; nothing is read."""
    base, _ = variant_chain.split(name)
    known = base.replace("_", "-")
    if base == "hf:":
        raise InputError("'hf:' names no dataset; write hf:OWNER/NAME.")
    if base == BUNDLED or base.startswith("hf:") or known in hub.KNOWN or known == RESTRICTED:
        return
    exists = bool(base) and os.path.exists(os.path.expanduser(base))
    if not exists and (os.sep in base or not base or local(base) is None):
        raise _unknown(base)


def _unknown(base: str) -> InputError:
    if os.sep in base or Path(base).suffix:
        return InputError(f"There is no file or folder {base!r}.")
    return unknown_name("dataset", base, [BUNDLED, *hub.KNOWN], PATH_HINT)


def _restricted_imagenet() -> Path:
    """The folder of Restricted ImageNet, made in the cache from an ImageNet folder in ``$RADII_DATA``."""
    from radii.data._restricted_imagenet import WHOLE, link_groups

    whole = local(WHOLE)
    if whole is None:
        raise InputError(
            "restricted-imagenet is made from an ImageNet folder of your own: put it, or a link to it, into "
            "$RADII_DATA as imagenet, with train/ and val/."
        )
    target = cache.folder() / "datasets" / RESTRICTED
    target.parent.mkdir(parents=True, exist_ok=True)
    return link_groups(whole, target)


def _of_repository(text: str) -> DatasetLocation:
    """The dataset ``hf:text``: a folder of this machine, or a repository of the hub, which is fetched."""
    folder = Path(text).expanduser()
    if text and os.path.exists(folder):
        return _location(folder.resolve().name, folder)
    entry = hub.parse_repository(text)
    present = hub.local_repository(entry)
    if present is None and "fetch" in _refused.get():
        raise InputError(f"hf:{text} is not on this machine; a run that needs it fetches it.")
    return _location(text, present or hub.fetch_repository(entry))


def local(name: str) -> Path | None:
    """The folder or file of the dataset ``name`` in ``$RADII_DATA`` or in the cache; None if neither has it."""
    spellings = dict.fromkeys((name, name.replace("-", "_"), name.replace("-", ""), name.upper()))
    for root in _roots():
        for spelling in spellings:
            for candidate in (root / spelling, root / f"{spelling}.npz", root / f"{spelling}.parquet"):
                if os.path.exists(candidate):  # False for a name that is too long
                    return candidate
    return None


@dataclass(frozen=True)
class Listing:
    """One line of ``radii datasets``: ``path`` is empty for what is not a file of this machine."""

    name: str
    contents: str
    where: str
    path: str
    megabytes: float
    decoded: bool


def listing() -> list[Listing]:
    """Every dataset that a name reaches: bundled, in ``$RADII_DATA``, fetched before, or on the hub.

    Looks at files' names and sizes only.
    """
    decoded = cache.has(locate(BUNDLED).identity)
    lines = [Listing(BUNDLED, "1,797 digits, 8 x 8 grey, 10 classes", "scikit-learn", "", 0.1, decoded)]
    for name, entry in hub.KNOWN.items():
        path = local(name)
        if path is None:
            lines.append(Listing(name, entry.contents, f"hub: {entry.repository}", "", entry.megabytes, False))
        else:
            lines.append(_local_listing(name, entry.contents, path))
    lines += [_local_listing(name, "from the Hugging Face hub", path) for name, path in hub.fetched().items()]
    listed = {Path(line.path) for line in lines if line.path}
    for root in _roots():
        for path in sorted(root.iterdir()) if root.is_dir() else []:
            plain = (path.is_file() or path.is_dir()) and not path.name.startswith(".")
            if plain and path not in listed and reader.format_of(path):
                lines.append(_local_listing(path.stem, "your own", path))
    return lines


def _local_listing(name: str, contents: str, path: Path) -> Listing:
    size = sum(file.stat().st_size for file in reader.regular_files(path)) / 1e6
    known = reader.known_identity(path)
    return Listing(name, contents, str(path.parent), str(path), size, known is not None and cache.has(known))


def _roots() -> list[Path]:
    """The folders in which named datasets are looked for, the first one first."""
    own = data_folder()
    return ([own] if own else []) + [cache.folder() / "datasets"]


def split_rows(y: NDArray[np.int64], name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the train and test split of the dataset ``name``, which has labels ``y`` but no split.

    A fifth of each class, at least one point, becomes the test split. The draw
    is fixed, so every user gets the same split. Rows keep their order.
    """
    labels, counts = np.unique(y, return_counts=True)
    if (counts < 2).any():
        single = labels[counts < 2].tolist()
        shown = ", ".join(map(str, single[:SHOWN])) + (", …" if len(single) > SHOWN else "")
        which = f"class {shown} has" if len(single) == 1 else f"{len(single)} classes ({shown}) have"
        raise InputError(
            f"{name} has no test split, and {which} one point only, which cannot be divided. Give every class two "
            "points at least, or both splits: train/ and test/."
        )
    test = []
    for label in labels:
        members = np.flatnonzero(y == label)
        drawn = numpy_stream(0, "test split", int(label)).permutation(members)
        test.append(drawn[: max(1, round(len(members) / 5))])
    chosen = np.sort(np.concatenate(test))
    return np.setdiff1d(np.arange(len(y)), chosen), chosen


def _location(name: str, path: Path) -> DatasetLocation:
    if not path.is_dir():
        check_file(path)
    return DatasetLocation(name, path, reader.identity(path))


def _base(location: DatasetLocation) -> Data:
    data = cache.read(location.identity, location.name)
    if data is not None:
        return data

    def fill(folder: Path) -> tuple[str, ...]:
        source = open_location(location)
        for note in source.notes:
            logging.getLogger("radii").warning(note)
        for side, part in source.sides.items():
            _write(part, folder, side, location.name, location.reading)
        if "all" in source.sides:
            _divide(folder, np.load(folder / "all-y.npy", allow_pickle=False), location.name)
        if source.rules is not None:
            write_whole(folder / cache.RULES, source.rules.to_json().encode(), durable=False)
        return source.classes

    return cache.build(location.identity, location.name, fill)


def open_location(location: DatasetLocation) -> Source:
    """Open the dataset at ``location`` without decoding it; a split without points and a single class are refused."""
    source = _digits() if location.path is None else reader.open_source(location.path, location.reading)
    _check(source, location.name)
    first = next(iter(source.sides.values()))
    absent = np.setdiff1d(np.arange(len(source.classes)), first.y)
    if not len(absent):
        return source
    names = ", ".join(source.classes[number] for number in absent[:5]) + (", …" if len(absent) > 5 else "")
    note = f"{location.name}: no training point has the class {names}; classes are numbered from 0."
    return replace(source, notes=(*source.notes, note))


def _check(source: Source, name: str) -> None:
    for side, part in source.sides.items():
        if len(part.y) == 0:
            raise InputError(f"The {side if side != 'all' else 'only'} split of {name} is empty.")
    first = next(iter(source.sides.values()))
    if len(source.classes) < 2 or len(np.unique(first.y)) < 2:
        raise InputError(f"{name} must have training points of at least two classes, got one class only.")


def _write(part: Side, folder: Path, side: str, name: str, reading: Reading) -> None:
    """Write one split as .npy files, and decode its images where they are encoded."""
    target, y = folder / f"{side}-x.npy", part.y
    if isinstance(part.x, np.ndarray):
        x = part.x
        for step in reading.steps:
            x = variant_chain.parse(step).pixels_of(x)
        np.save(target, x)
    else:
        encoded: Encoded = part.x
        from radii.data.formats import _decoding as decoding  # Pillow is not needed where everything is decoded

        out = cache.new_array(target, np.uint8, (len(encoded), *decoding.shape_of(encoded, reading.steps)))
        faults = decoding.decode(encoded, out, target, f"decoding {name} {side}", reading.steps)
        if faults:
            y = _without_bad(faults, target, y, name, reading.skip_bad)
    np.save(folder / f"{side}-y.npy", y)


def _without_bad(
    faults: list[tuple[int, str]], target: Path, y: NDArray[np.int64], name: str, skip_bad: bool
) -> NDArray[np.int64]:
    """The labels without those of bad images, whose rows leave the array, too."""
    from radii.data.formats._folder import bad_images

    if not skip_bad:
        raise InputError(faults[0][1]) if len(faults) == 1 else bad_images(name, [reason for _, reason in faults])
    kept = np.setdiff1d(np.arange(len(y)), [row for row, _ in faults])
    logging.getLogger("radii").warning("%d images of %s cannot be decoded and are left out.", len(faults), name)
    whole = np.load(target, mmap_mode="r", allow_pickle=False)
    shorter = target.with_name(f"kept-{target.name}")
    _copy_rows(whole, kept, shorter)
    cache.replace_array(target, shorter)
    return y[kept]


def _copy_rows(whole: NDArray[Any], rows: NDArray[np.int64], target: Path) -> None:
    """Write some rows of a mapped array to the file ``target``, about 64 MB at a time."""
    part = cache.new_array(target, whole.dtype, (len(rows), *whole.shape[1:]))
    step = max(1, (1 << 26) // max(1, whole[:1].nbytes))
    for start in range(0, len(rows), step):
        part[start : start + step] = whole[rows[start : start + step]]


def _divide(folder: Path, y: NDArray[np.int64], name: str) -> None:
    """Replace the undivided arrays by a train and a test part."""
    whole = np.load(folder / "all-x.npy", mmap_mode="r", allow_pickle=False)
    for side, rows in zip(cache.SIDES, split_rows(y, name), strict=True):
        _copy_rows(whole, rows, folder / f"{side}-x.npy")
        np.save(folder / f"{side}-y.npy", y[rows])
    for file in ("all-x.npy", "all-y.npy"):
        (folder / file).unlink()


def _digits() -> Source:
    """The 1,797 digits of scikit-learn, 8 x 8; grey levels 0..16 over 16 are exact in float32."""
    from sklearn.datasets import load_digits

    bundle = load_digits()
    x = (bundle.images / 16).astype(np.float32)[:, None]
    names = tuple(str(name) for name in bundle.target_names)
    return Source(names, {"all": Side(bundle.target.astype(np.int64), x)})
