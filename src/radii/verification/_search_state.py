"""An undecided search as a file: the regions that are open, for the same network and property to continue from.

What is not listed was proved by the search that wrote the file. The file names the contents of network and
property and has a digest, so that another's or a damaged one is refused.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from radii.errors import InputError, reason
from radii.files import write_whole
from radii.untrusted_text import check_file
from radii.verification._beta_crown import Branch
from radii.verification.network_files import networks_digest

Array = NDArray[Any]
Kind = Literal["signs", "boxes"]
FORMAT = 1


@dataclass(frozen=True)
class SearchState:
    """Goals before ``goal`` are proved; of this one the regions in ``arrays`` are open, by signs or by boxes."""

    goal: int
    kind: Kind
    nodes: int
    arrays: dict[str, Array]

    def write(self, path: Path, subject: str) -> None:
        """Write the file ``path``; ``subject`` is the digest of network and property."""
        content = {
            **self.arrays,
            "head": np.array([FORMAT, self.goal, int(self.kind == "signs"), self.nodes]),
            "subject": np.frombuffer(bytes.fromhex(subject), dtype=np.uint8),
        }
        stored = io.BytesIO()
        np.savez_compressed(stored, **content, digest=_digest(content))  # type: ignore[arg-type]
        write_whole(path, stored.getvalue())

    @classmethod
    def read(cls, path: Path, subject: str) -> SearchState:
        """The state in ``path``."""
        check_file(path)
        try:
            with np.load(path, allow_pickle=False) as file:
                content = {name: file[name] for name in file.files}
            whole = np.array_equal(content.pop("digest"), _digest(content))
            head, owner = content.pop("head"), content.pop("subject")
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} is not the state of a search: {reason(error)}.") from error
        if not whole or int(head[0]) != FORMAT:
            raise InputError(f"{path} is damaged or of another version: remove it to search from the start.")
        if owner.tobytes().hex() != subject:
            raise InputError(f"{path} is the state of another network, property or version of radii.")
        return cls(int(head[1]), "signs" if head[2] else "boxes", int(head[3]), content)


def subject_digest(network: Path | str, query: str, version: str) -> str:
    """What a state belongs to: the contents of ``network`` and ``query``, and the ``version`` of radii."""
    parts = (hashlib.sha256(part.encode()).digest() for part in (query, version))
    return hashlib.sha256(b"".join([bytes.fromhex(networks_digest(network)), *parts])).hexdigest()


def _digest(content: dict[str, Array]) -> Array:
    state = hashlib.sha256()
    for name in sorted(content):
        state.update(f"{name}{content[name].dtype}{content[name].shape}".encode())
        state.update(np.ascontiguousarray(content[name]).tobytes())
    return np.frombuffer(state.digest(), dtype=np.uint8)


def branch_arrays(nodes: Sequence[Branch]) -> dict[str, Array]:
    """The open domains ``nodes`` as arrays."""
    splits = [split for node in nodes for split in node.splits]
    width = max((len(node.weights) for node in nodes), default=0)
    padded = [np.pad(node.weights.double().numpy(), (0, width - len(node.weights))) for node in nodes]
    slopes = {f"alpha{place}": place for node in nodes for place in node.alphas}
    return {
        "case": np.array([node.case for node in nodes], dtype=np.int64),
        "rows": np.array([len(node.weights) for node in nodes], dtype=np.int64),
        "weights": np.array(padded).reshape(len(nodes), width),
        "bound": np.array([node.bound for node in nodes]),
        "choice": np.array([node.choice or (-1, -1) for node in nodes], dtype=np.int64).reshape(-1, 2),
        "ends": np.cumsum([len(node.splits) for node in nodes]),
        "splits": np.array([split[:3] for split in splits], dtype=np.int64).reshape(-1, 3),
        "betas": np.array([split[3] for split in splits]),
        **{
            name: np.stack([node.alphas[place].numpy() for node in nodes])
            for name, place in slopes.items()
            if all(place in node.alphas for node in nodes)
        },
    }


def branches_of(arrays: dict[str, Array]) -> list[Branch]:
    """The domains that :func:`branch_arrays` made ``arrays`` of."""
    places = {name: int(name.removeprefix("alpha")) for name in arrays if name.startswith("alpha")}
    nodes, start = [], 0
    for row, end in enumerate(arrays["ends"].tolist()):
        splits = tuple(
            (source, place, sign, beta)
            for (source, place, sign), beta in zip(
                arrays["splits"][start:end].tolist(), arrays["betas"][start:end].tolist(), strict=True
            )
        )
        source, place = arrays["choice"][row].tolist()
        nodes.append(
            Branch(
                int(arrays["case"][row]),
                splits,
                {place: torch.from_numpy(arrays[name][row].copy()) for name, place in places.items()},
                torch.from_numpy(arrays["weights"][row, : int(arrays["rows"][row])].copy()).float(),
                float(arrays["bound"][row]),
                None if source < 0 else (source, place),
            )
        )
        start = end
    return nodes
