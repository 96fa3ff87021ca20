"""CROWN and alpha-CROWN beside auto_LiRPA on the two networks of Dathathri et al. 2020, CPU time on one thread.

Set RADII_VERIFY to the folder of published instances and RADII_PEERS to the folder that holds auto_LiRPA. Goals:
at most 1.5 times the peer's CPU time, and at least as many proofs. Part ``memory`` is the peak memory of both, each
in a process of its own; part ``detectors`` counts certificates of networks whose float32 answer is not the one of real
numbers (arXiv 2506.01054); part ``balls`` counts the L2 balls that CROWN, alpha-CROWN and SDP-CROWN prove, with CPU
seconds an image, on Wong et al.'s L2 network, on an ordinarily trained network and on Dathathri et al.'s (RADII_DATA is
the folder of datasets). The peer does not account for rounding: its time is that of an unsound bound.
"""

from __future__ import annotations

import csv
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from harness import Figure, cpu_seconds, figure, main
from radii.bounds.provably_robust import Bounded, margin_rows
from radii.threat import Ball

SHARED = Path(__file__).parents[2] / "shared"
STEPS = 20
RADII = {"mnist": 0.3, "cifar": 2 / 255}
Levels = tuple[float, float, float]
WONG: tuple[Levels, Levels] = ((123.675, 116.28, 103.53), (57.375, 57.375, 57.375))  # of Wong et al.'s networks
MEAN, STD = ((125.3, 123.0, 113.9), (63.0, 62.1, 66.7))


class Normalized(nn.Module):
    """A network on normalized pixels, written so that the peer reads it."""

    def __init__(self, net: nn.Module, mean: Levels = MEAN, std: Levels = STD) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1) / 255)
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1) / 255)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.net((x - self.mean) / self.std)


def network(root: Path, name: str) -> nn.Module:
    """One of the two networks."""
    net = layers(name)
    net.load_state_dict(load_file(root / f"{name}_cnn_a_adv.safetensors"))
    return net.eval() if name == "mnist" else Normalized(net).eval()


def layers(name: str) -> nn.Sequential:
    """Two convolutions and two matrices, for images of the dataset ``name``."""
    channels, width = (1, 1568) if name == "mnist" else (3, 2048)
    return nn.Sequential(
        nn.Conv2d(channels, 16, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(width, 100),
        nn.ReLU(),
        nn.Linear(100, 10),
    )


class Peer:
    """auto_LiRPA's bounds of the same margins."""

    def __init__(self, model: nn.Module, example: Tensor) -> None:
        import auto_LiRPA  # type: ignore[import-not-found]

        self.library: Any = auto_LiRPA
        self.bounded = auto_LiRPA.BoundedModule(model, example, device="cpu", verbose=False)
        self.bounded.set_bound_opts({"optimize_bound_args": {"iteration": STEPS}})

    def margins(self, x: Tensor, label: Tensor, radius: float, method: str) -> Tensor:
        """Lower bounds [1, 9]."""
        ends = {"x_L": (x - radius).clamp(0, 1), "x_U": (x + radius).clamp(0, 1)}
        ball = self.library.PerturbationLpNorm(norm=float("inf"), **ends)
        name = "CROWN" if method == "crown" else "CROWN-Optimized"
        region = self.library.BoundedTensor(x, ball)
        specs = margin_rows(label, 10).float()
        lower, _ = self.bounded.compute_bounds(x=(region,), C=specs, method=name, bound_upper=False)
        return torch.as_tensor(lower.detach())


def run(quick: bool) -> list[Figure]:
    """CPU time over the peer's, and proofs beside the peer's."""
    root = Path(os.environ.get("RADII_VERIFY", SHARED / "verify")) / "sdp_fo"
    sys.path.insert(0, os.environ.get("RADII_PEERS", str(SHARED / "peers")))
    torch.set_num_threads(1)
    figures: list[Figure] = []
    for name, radius in RADII.items():
        model = network(root, name)
        x = torch.from_numpy(np.load(root / f"{name}_100.npz")["x"]).float()
        with (root / f"{name}_cnn_a_adv_expected.csv").open() as lines:
            labels = torch.tensor([int(row["label"]) for row in csv.DictReader(lines)])
        ours, peer = Bounded(model, tuple(x.shape[1:])), Peer(deepcopy(model), x[:1])
        for method in ("crown", "alpha-crown"):
            count = (6 if quick else 24) if method == "alpha-crown" else (12 if quick else 100)
            figures += compared(f"{name} {method}", ours, peer, x[:count], labels[:count], radius, method)
    return figures


def compared(
    title: str, ours: Bounded, peer: Peer, x: Tensor, labels: Tensor, radius: float, method: str
) -> list[Figure]:
    """Image by image, in turns; the first one warms both up."""
    seconds, proofs = [0.0, 0.0], [0, 0]
    for i in range(len(x)):
        image, label = x[i : i + 1], labels[i : i + 1]
        bounds: list[Tensor] = [torch.empty(0), torch.empty(0)]

        def mine(image: Tensor = image, label: Tensor = label, bounds: list[Tensor] = bounds) -> None:
            bounds[0] = ours.margins(image, label, Ball("linf", radius), method, STEPS)

        def other(image: Tensor = image, label: Tensor = label, bounds: list[Tensor] = bounds) -> None:
            bounds[1] = peer.margins(image, label, radius, method)

        spent = cpu_seconds(mine), cpu_seconds(other)
        for k in (0, 1):
            seconds[k] += spent[k] if i else 0.0
            proofs[k] += bool((bounds[k] > 0).all())
    return [
        figure(f"{title}: CPU time over auto_LiRPA", seconds[0] / seconds[1], 1.5),
        figure(f"{title}: CPU seconds an image", seconds[0] / (len(x) - 1)),
        figure(f"{title}: proofs of {len(x)}", proofs[0], proofs[1], at_most=False),
    ]


def memory(quick: bool) -> list[Figure]:
    """Megabytes above what is loaded, at the peak of one image's bounds."""
    figures = []
    for name in ("mnist",) if quick else RADII:
        for method in ("crown", "alpha-crown"):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                ours = pool.submit(peak, name, method, True).result()
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                other = pool.submit(peak, name, method, False).result()
            figures.append(figure(f"{name} {method}: peak memory, MB", ours))
            figures.append(figure(f"{name} {method}: peak memory of auto_LiRPA, MB", other))
    return figures


def peak(name: str, method: str, mine: bool) -> float:
    """The growth of this process's largest resident size by the bounds of one image, after one that warms up."""
    root = Path(os.environ.get("RADII_VERIFY", SHARED / "verify")) / "sdp_fo"
    sys.path.insert(0, os.environ.get("RADII_PEERS", str(SHARED / "peers")))
    torch.set_num_threads(1)
    model = network(root, name)
    x = torch.from_numpy(np.load(root / f"{name}_100.npz")["x"][:2]).float()
    label = model(x).argmax(1)
    ball = Ball("linf", RADII[name])
    ours = Bounded(model, tuple(x.shape[1:])) if mine else None
    peer = None if mine else Peer(model, x[:1])
    start = 0.0
    for i in (0, 1):
        start = _kilobytes("VmRSS") if i == 0 else start
        if ours is not None:
            ours.margins(x[i : i + 1], label[i : i + 1], ball, method, STEPS)
        elif peer is not None:
            peer.margins(x[i : i + 1], label[i : i + 1], RADII[name], method)
    return (_kilobytes("VmHWM") - start) / 1024


def _kilobytes(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith(field)).split()[1])


def detectors(quick: bool) -> list[Figure]:  # noqa: ARG001
    """Certificates of four detector networks by every method, margins and complete verification among them."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from certificates.test_false_certificates import detector
    from radii.certificates.choose import certify
    from radii.certificates.methods import METHODS
    from radii.errors import InputError

    given = tried = 0
    for kind in ("order1", "order2", "order3", "precision"):
        model, x, radius = detector(kind)
        for method in METHODS:
            for norm in ("linf", "l2"):
                if method in ("nearest", "smoothing", "estimate") or (method == "margin" and norm == "linf"):
                    continue
                tried += 1
                try:
                    found = certify(model, x, method, norm=norm, radii=[radius], seconds=10.0)
                except InputError:
                    continue
                given += int(float(found.radius) > 0)
    return [figure(f"detector networks: certificates of {tried} tries", given, 0)]


def balls(quick: bool) -> list[Figure]:
    """L2 balls that are proved by each method, and CPU seconds an image."""
    root = Path(os.environ.get("RADII_VERIFY", SHARED / "verify"))
    os.environ.setdefault("RADII_DATA", str(SHARED / "data"))
    torch.set_num_threads(1)
    wong = layers("cifar")
    wong.load_state_dict(load_file(root / "convex_adversarial" / "models_scaled_l2__cifar_small_36px.safetensors"))
    images = torch.from_numpy(np.load(root / "sdp_fo" / "mnist_100.npz")["x"]).float()
    wong_images, dathathri = first_images("cifar10", 40), network(root / "sdp_fo", "mnist")
    subjects: list[tuple[str, nn.Module, Tensor, tuple[float, ...]]] = [
        ("ordinary", ordinary(), first_images("mnist", 40), (0.3, 0.5, 0.7, 0.9)),
        ("Wong et al.", Normalized(wong, *WONG).eval(), wong_images, (36 / 255,)),
        ("Wong et al.", Normalized(wong, *WONG).eval(), wong_images[:16], (72 / 255, 108 / 255)),
        ("Dathathri et al.", dathathri, images[:8], (0.3, 0.5)),
    ]
    figures = []
    for title, model, x, radii in subjects[:2] if quick else subjects:
        x = x[:4] if quick else x
        bounded = Bounded(model, tuple(x.shape[1:]))
        label = bounded.predict(x)
        bounded.margins(x[:1], label[:1], Ball("l2", radii[0]), "sdp-crown", 1)  # warms up
        for radius in radii[:1] if quick else radii:
            for method in ("crown", "alpha-crown", "sdp-crown"):
                figures += proved_balls(f"{title}, L2 {radius:.3f}, {method}", bounded, x, label, radius, method)
    return figures


def proved_balls(title: str, bounded: Bounded, x: Tensor, label: Tensor, radius: float, method: str) -> list[Figure]:
    """How many balls are proved by one method, and its CPU seconds an image."""
    proofs: list[Tensor] = []

    def prove() -> None:
        for i in range(len(x)):
            margins = bounded.margins(x[i : i + 1], label[i : i + 1], Ball("l2", radius), method, STEPS)
            proofs.append((margins > 0).all(1))

    seconds = cpu_seconds(prove) / len(x)
    proved = int(torch.cat(proofs).sum())
    return [figure(f"{title}: proofs of {len(x)}", proved), figure(f"{title}: CPU seconds an image", seconds)]


def first_images(name: str, count: int) -> Tensor:
    """The first test images of a dataset, in [0, 1]."""
    from radii.data.sources import load

    return torch.from_numpy(np.array(load(name).test.x[:count])).float() / 255


def ordinary() -> nn.Module:
    """784-256-256-10, trained without any defense on MNIST: two epochs of Adam, weight decay 1e-4."""
    from radii.data.sources import load

    torch.manual_seed(0)
    train = load("mnist").train
    x, y = torch.from_numpy(np.array(train.x)).float() / 255, torch.from_numpy(np.array(train.y)).long()
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, weight_decay=1e-4)
    for _ in range(2):
        for rows in torch.randperm(len(x)).split(128):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return model.eval()


if __name__ == "__main__":
    main({"bounds": run, "memory": memory, "detectors": detectors, "balls": balls})
