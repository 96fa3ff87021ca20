"""``hf:OWNER/NAME``: a snapshot of the hub in the client's cache, or fetched from a hub on the loopback interface."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from radii.data import hub, sources
from radii.errors import InputError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CARD = """---
license: mit
dataset_info:
  features:
  - name: image
    dtype: image
  - name: label
    dtype:
      class_label:
        names:
          '1': dog
          '0': cat
          '2': eel
---
# Pets
"""


def png(level: int) -> bytes:
    content = io.BytesIO()
    Image.fromarray(np.full((6, 5, 3), level, np.uint8)).save(content, "PNG")
    return content.getvalue()


def write_table(path: Path, count: int, metadata: dict[str, str] | None = None) -> None:
    """Rows as the hub has them: an image as {bytes, path} and the number of its class."""
    images = [{"bytes": png(10 * row % 256), "path": f"{row}.png"} for row in range(count)]
    table = pa.table({"image": images, "label": pa.array([row % 3 for row in range(count)])})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(metadata), path)


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the snapshot of owner/pets in the cache of the hub's client, empty."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    repository = tmp_path / "hub" / "datasets--owner--pets"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    return snapshot


def test_a_snapshot_in_the_clients_cache(hub_cache: Path) -> None:
    write_table(hub_cache / "data" / "train-00000-of-00001.parquet", 30)
    write_table(hub_cache / "data" / "test-00000-of-00001.parquet", 9)
    (hub_cache / "README.md").write_text(CARD)
    data = sources.load("hf:owner/pets")
    assert (len(data.train), len(data.test), data.shape) == (30, 9, (3, 6, 5))
    assert data.classes == ("cat", "dog", "eel")
    assert data.name == "owner/pets"
    assert data.train.x[3, 0, 0, 0] == 30
    assert sources.load("hf:owner/pets+gray").shape == (1, 6, 5)


def test_names_in_the_table_count_before_those_on_the_card(hub_cache: Path) -> None:
    features = {"label": {"names": ["a", "b", "c"], "_type": "ClassLabel"}}
    written = {"huggingface": json.dumps({"info": {"features": features}})}
    write_table(hub_cache / "data" / "train-00000-of-00001.parquet", 30, written)
    (hub_cache / "README.md").write_text(CARD)
    assert sources.load("hf:owner/pets").classes == ("a", "b", "c")


@pytest.mark.parametrize("card", ["no front matter", "---\n: [\n---\n", "---\ndataset_info: 7\n---\n"])
def test_an_odd_card_numbers_the_classes(hub_cache: Path, card: str) -> None:
    write_table(hub_cache / "data" / "train-00000-of-00001.parquet", 30)
    (hub_cache / "README.md").write_text(card)
    assert sources.load("hf:owner/pets").classes == ("0", "1", "2")


def test_a_folder_behind_the_prefix(tmp_path: Path) -> None:
    write_table(tmp_path / "pets" / "data" / "train-00000-of-00001.parquet", 30)
    write_table(tmp_path / "pets" / "data" / "validation-00000-of-00001.parquet", 6)
    assert len(sources.load(f"hf:{tmp_path / 'pets'}").test) == 6


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("hf:owner/../pets", "is hf:OWNER/NAME or hf:OWNER/NAME/CONFIGURATION, got hf:owner/../pets"),
        ("hf:", "is hf:OWNER/NAME or hf:OWNER/NAME/CONFIGURATION"),
        ("hf:owner/absent", "hf:owner/absent is not on this machine and cannot be fetched from owner/absent"),
    ],
)
def test_one_sentence(hub_cache: Path, name: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        sources.load(name)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_nothing_is_fetched_where_only_local_data_are_wanted(hub_cache: Path) -> None:
    with sources.only_local(), pytest.raises(InputError, match="hf:owner/absent is not on this machine; a run"):
        sources.load("hf:owner/absent")


def test_no_client_is_one_sentence(hub_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(InputError, match="needs the package huggingface_hub: pip install huggingface_hub"):
        sources.load("hf:owner/absent")


@pytest.mark.parametrize(
    ("configuration", "tables", "chosen"),
    [
        ("", ["data/train-0.parquet", "other/train-0.parquet"], ["data/train-0.parquet"]),
        ("", ["train.parquet", "test.parquet"], ["train.parquet", "test.parquet"]),
        ("", ["train/0000.parquet", "test/0000.parquet"], ["train/0000.parquet", "test/0000.parquet"]),
        ("", ["plain/train/0.parquet"], ["plain/train/0.parquet"]),
        ("b", ["a/train.parquet", "b/train.parquet"], ["b/train.parquet"]),
        ("", [], []),
    ],
)
def test_the_files_of_a_configuration(configuration: str, tables: list[str], chosen: list[str]) -> None:
    entry = hub.HubDataset("owner/pets", configuration, 0, "")
    assert hub._of_configuration(entry, tables) == chosen


def test_several_configurations_are_named() -> None:
    entry = hub.parse_repository("owner/pets")
    with pytest.raises(InputError, match=r"several configurations: large, small\. Name one: hf:owner/pets/large\."):
        hub._of_configuration(entry, ["small/train.parquet", "large/train.parquet"])


def test_a_download_that_the_disk_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"hf:a/b has 1,000,000\.0 GB and the disk of"):
        hub._check_room("hf:a/b", [hub._File("x", "main", None, 10**15)], tmp_path / "x")
