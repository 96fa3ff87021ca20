"""What all tests share: the folder of real data where there is one, and small fixed inputs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

# some virtual machines announce AMX and end a program that uses it; oneDNN reads this when torch is loaded
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import torch

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # jobs in the background are born ignoring Ctrl-C,
    signal.signal(signal.SIGINT, signal.default_int_handler)  # and so would the programs that tests interrupt

REAL_DATA = Path(os.environ.get("RADII_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with MNIST, Fashion-MNIST and CIFAR-10 as parquet; without it the test skips."""
    if not (REAL_DATA / "mnist").is_dir():
        pytest.skip("real data is not on this machine; set RADII_DATA to a folder with mnist, fashion_mnist, cifar10")
    return REAL_DATA


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes to the user's cache or run store, and none goes to the network."""
    monkeypatch.setenv("RADII_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RADII_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order() -> None:
    """A test that draws from torch's global generator draws the same whatever ran before it."""
    torch.manual_seed(0)
