"""What all tests share: the folder of real data where there is one, folders of their own, and commands."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

# examples that Hypothesis keeps belong to no checkout
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", os.path.join(tempfile.gettempdir(), "radii-hypothesis"))
# some virtual machines announce AMX and end a program that uses it; oneDNN reads this when torch is loaded
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import torch
import typer
from sklearn.datasets import load_digits
from torch import Tensor, nn

from radii.cli import terminal
from radii.cli.main import app, guarded
from radii.randomness import threads
from unchanged_checkout import pytest_sessionfinish, pytest_sessionstart  # noqa: F401  # hooks

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


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture(name="app")
def whole_app() -> typer.Typer:
    """The command line with all its commands."""
    return app


@pytest.fixture
def radii(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """``radii("train", "digits")`` runs the command and returns its exit code and output."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(terminal, "errors", terminal.CleanConsole(stderr=True, highlight=False, width=1000))
        code = guarded(lambda: app([str(part) for part in arguments], standalone_mode=False))
        captured = capsys.readouterr()
        if "--json" in arguments and code in (0, 1):
            import json_schema

            json_schema.check([str(part) for part in arguments], captured.out)
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def linear() -> tuple[nn.Linear, Tensor, Tensor]:
    """A linear model of 5 classes on 20 features, with 60 points that it gets right."""
    generator = torch.Generator().manual_seed(3)
    model = nn.Linear(20, 5)
    with torch.no_grad():
        model.weight.copy_(torch.randn(5, 20, generator=generator) / 4)
        model.bias.copy_(torch.randn(5, generator=generator) / 4)
    x = 0.3 + 0.4 * torch.rand(60, 20, generator=generator)
    return model, x, model(x).argmax(1)


@pytest.fixture(scope="session")
def digits() -> tuple[Tensor, Tensor]:
    """scikit-learn's 8 x 8 digits in [0, 1], as images."""
    data = load_digits()
    return torch.tensor(data.images, dtype=torch.float32)[:, None] / 16, torch.tensor(data.target).long()


@pytest.fixture(scope="session")
def digits_net(digits: tuple[Tensor, Tensor]) -> nn.Module:
    """A small convolutional net on the first 1,200 digits, 30 epochs, about two seconds."""
    x, y = digits
    with threads(1), torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10),
        )  # fmt: skip
        optimizer = torch.optim.Adam(net.parameters(), 3e-3)
        for _ in range(30):
            for batch in torch.randperm(1200).split(100):
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
                optimizer.step()
    return net.eval()
