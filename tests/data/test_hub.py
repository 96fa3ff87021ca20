"""The hub's real client against a hub on the loopback interface: verified, resumed, one sentence when it fails."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from radii.data import hub, sources
from radii.errors import InputError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "ylecun/mnist"


@dataclass
class Hub:
    """Files, and how this hub misbehaves."""

    files: dict[str, bytes]
    claimed: dict[str, str] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    ranges: list[str] = field(default_factory=list)
    address: str = ""


def handler(served: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Quiet."""

        def do_HEAD(self) -> None:
            self.do_GET(body=False)

        def do_GET(self, body: bool = True) -> None:
            path = self.path.split("?")[0]
            if path.startswith(f"/api/datasets/{REPOSITORY}"):
                return self.answer(json.dumps(self.described()).encode(), body)
            match = re.fullmatch(rf"/datasets/{REPOSITORY}/resolve/{COMMIT}/(.+)", path)
            if match is None or match[1] not in served.files:
                return self.answer(b"{}", body, 404)
            return self.send(match[1], served.files[match[1]], body)

        def described(self) -> dict[str, object]:
            siblings = [
                {"rfilename": name, "size": len(content), "blobId": "0" * 40,
                 "lfs": {"sha256": served.claimed[name], "size": len(content), "pointerSize": 130}}
                for name, content in served.files.items()
            ]  # fmt: skip
            return {"id": REPOSITORY, "sha": COMMIT, "siblings": siblings, "tags": [], "downloads": 0, "likes": 0,
                    "private": False, "gated": False, "disabled": False}  # fmt: skip

        def answer(self, content: bytes, body: bool, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            if status == 404 and self.path.startswith("/api/"):
                self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

        def send(self, name: str, content: bytes, body: bool) -> None:
            start = 0
            wanted = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
            if wanted and body:
                start = int(wanted[1])
                served.ranges.append(self.headers["Range"])
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("ETag", f'"{served.claimed[name]}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            if body and name in served.cut:
                served.cut.remove(name)
                self.wfile.write(content[: len(content) // 2])
                self.wfile.flush()
                self.close_connection = True
                self.connection.close()
            elif body:
                self.wfile.write(content[start:])

    return Handler


@pytest.fixture
def loopback(parquet_folder: tuple[Path, np.ndarray]) -> Iterator[Hub]:
    folder, _ = parquet_folder
    files = {
        f"mnist/{side}-00000-of-00001.parquet": (folder / f"{side}.parquet").read_bytes() for side in ("train", "test")
    }
    files["README.md"] = b"read me"
    served = Hub(files, {name: hashlib.sha256(content).hexdigest() for name, content in files.items()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(served))
    served.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield served
    server.shutdown()
    server.server_close()


def load_mnist(served: Hub, name: str = "mnist") -> subprocess.CompletedProcess[str]:
    """Load mnist in a fresh process: the client reads the hub's address when it is imported."""
    program = (
        "from huggingface_hub import constants\nconstants.DOWNLOAD_CHUNK_SIZE = 1000\n"  # these files are small
        "from radii.data import sources\nfrom radii.errors import InputError\n"
        f"try:\n    d = sources.load('{name}')\n"
        "    print(d.train.digest, len(d.test), sources.local('mnist'))\n"
        "except InputError as error:\n    print('refused:', error)\n"
    )
    changes = {
        "HF_ENDPOINT": served.address, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1",
        "HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }  # fmt: skip
    environment = {key: value for key, value in os.environ.items() if key != "RADII_DATA"} | changes
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_named_dataset_is_fetched_once_verified_and_kept(
    loopback: Hub, parquet_folder: tuple[Path, np.ndarray]
) -> None:
    done = load_mnist(loopback)
    digest, count, place = done.stdout.split()
    assert digest == sources.load(str(parquet_folder[0])).train.digest
    assert count == "12"
    assert sorted(path.name for path in Path(place).iterdir()) == [
        "test-00000-of-00001.parquet", "train-00000-of-00001.parquet"
    ]  # fmt: skip
    loopback.files.clear()  # nothing is asked for again
    assert load_mnist(loopback).stdout == done.stdout


def test_any_repository_is_fetched_by_its_name(loopback: Hub, parquet_folder: tuple[Path, np.ndarray]) -> None:
    done = load_mnist(loopback, "hf:ylecun/mnist")
    assert done.stdout.split()[:2] == [sources.load(str(parquet_folder[0])).train.digest, "12"], done.stdout
    place = hub.fetched()["hf:ylecun/mnist"]
    assert sorted(path.name for path in place.iterdir()) == ["README.md", "mnist"]
    loopback.files.clear()
    assert load_mnist(loopback, "hf:ylecun/mnist").stdout == done.stdout
    assert "hf:ylecun/mnist" in {line.name for line in sources.listing()}


def test_a_repository_that_is_not_there_is_one_sentence(loopback: Hub) -> None:
    assert (
        "The Hugging Face hub shows no dataset nobody/nothing: check the name"
        in load_mnist(loopback, "hf:nobody/nothing").stdout
    )


def test_an_interrupted_download_continues(loopback: Hub) -> None:
    name = "mnist/train-00000-of-00001.parquet"
    loopback.cut.add(name)
    first = load_mnist(loopback)
    if "refused" in first.stdout:  # a client that gives up at once continues when asked again
        first = load_mnist(loopback)
    assert first.stdout.split()[1] == "12", first.stderr
    (asked,) = loopback.ranges  # one request for the rest, not for the whole again
    assert 1000 <= int(asked.removeprefix("bytes=").removesuffix("-")) <= len(loopback.files[name]) // 2


def test_a_damaged_download_is_refused_and_not_kept(loopback: Hub) -> None:
    name = "mnist/train-00000-of-00001.parquet"
    damaged = bytearray(loopback.files[name])
    damaged[200] ^= 1
    loopback.files[name] = bytes(damaged)
    assert "is damaged (sha256 differs)" in load_mnist(loopback).stdout
    assert sources.local("mnist") is None or os.environ.get("RADII_DATA")
    damaged[200] ^= 1
    loopback.files[name] = bytes(damaged)
    assert load_mnist(loopback).stdout.split()[1] == "12"


def test_no_network_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RADII_DATA", raising=False)
    with pytest.raises(InputError) as error:
        sources.load("svhn+gamma:2")
    text = str(error.value)
    assert text.startswith("svhn is not on this machine and cannot be fetched from ufldl-stanford/svhn")
    assert "set RADII_DATA" in text
    assert "\n" not in text


def test_a_repository_without_the_files_is_one_sentence(loopback: Hub) -> None:
    loopback.files.pop("mnist/train-00000-of-00001.parquet")
    loopback.files.pop("mnist/test-00000-of-00001.parquet")
    assert "has no parquet files in mnist/" in load_mnist(loopback).stdout


def test_every_known_name_is_described() -> None:
    for entry in hub.KNOWN.values():
        assert "/" in entry.repository
        assert entry.megabytes > 0
