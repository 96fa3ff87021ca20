"""What a 1-Lipschitz layer costs: training steps over the plain twin, and over the textbook formula.

A step is forward, OffsetCrossEntropy, backward and SGD with Nesterov momentum.
The plain twin is the same network with unconstrained layers and the same fast
MaxMin; freed memory stays with the process, as in ``radii train``. Subjects
are timed in turn in one process; figures are medians of ratios of CPU time.
Peak memory is that of the tensors one step allocates.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

import harness
from radii.models.layers.weightless import MaxMin
from radii.models.lipschitz._folding import fold
from radii.models.zoo.lipschitz_networks import LipschitzConvNet, LipschitzMLP
from radii.process import keep_freed
from radii.training.objectives.cross_entropies import offset_cross_entropy

IMAGE, BATCH = (3, 32, 32), 256
LAYERS = ("plain", "aol", "cpl")


class TextbookConv2d(nn.Conv2d):
    """AOL as the formula reads: the padded kernel convolved with itself, differentiated by autograd."""

    def forward(self, x: Tensor) -> Tensor:
        """[n, in, h, w] -> the same."""
        turned = self.weight.transpose(0, 1)
        sums = F.conv2d(turned, turned, padding=self.kernel_size[0] - 1).abs().sum((1, 2, 3))
        return F.conv2d(x, self.weight * (sums + 1e-6).rsqrt()[None, :, None, None], padding="same")


class TextbookMaxMin(nn.Module):
    """MaxMin by reshaping and stacking."""

    def forward(self, x: Tensor) -> Tensor:
        """[n, c, …] -> the same."""
        pairs = x.unflatten(1, (-1, 2))
        return torch.stack((pairs.max(2).values, pairs.min(2).values), 2).flatten(1, 2)


def textbook(width: int) -> nn.Module:
    """The AOL ConvNet written with the two classes above."""
    model = LipschitzConvNet(IMAGE, 10, width=width, layer="plain")
    for name, part in list(model.named_children()):
        if isinstance(part, nn.Conv2d):
            made = TextbookConv2d(part.in_channels, part.out_channels, part.kernel_size, padding="same", bias=False)
            nn.init.dirac_(made.weight)
            setattr(model, name, made)
        elif isinstance(part, MaxMin):
            setattr(model, name, TextbookMaxMin())
    return model


def step_of(model: nn.Module, shape: tuple[int, ...], batch: int) -> Callable[[], None]:
    """One training step on fixed random inputs."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(batch, *shape, generator=generator), torch.arange(batch) % 10
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, nesterov=True)

    def step() -> None:
        optimizer.zero_grad()
        offset_cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def peak_megabytes(run: Callable[[], None]) -> float:
    """The most memory that tensors held above what was held before the call."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        run()
    held = most = 0
    for event in record.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most / 2**20


def convnets(width: int, rounds: int) -> list[harness.Figure]:
    """AOL and CPL ConvNets over the plain twin."""
    subjects = {layer: step_of(LipschitzConvNet(IMAGE, 10, width=width, layer=layer), IMAGE, BATCH) for layer in LAYERS}
    found = harness.ratios(subjects, rounds)
    return [
        harness.figure(f"AOL ConvNet step over plain, {width} channels", found["aol"], 1.30 if width <= 16 else 1.45),
        harness.figure(f"CPL ConvNet step over plain, {width} channels", found["cpl"], 2.1),
    ]


def peak_memory(width: int) -> list[harness.Figure]:
    """What one step of each network holds at most, over the plain twin."""
    held = {
        layer: peak_megabytes(step_of(LipschitzConvNet(IMAGE, 10, width=width, layer=layer), IMAGE, BATCH))
        for layer in LAYERS
    }
    return [
        harness.figure(f"{layer.upper()} ConvNet peak memory over plain, {width} channels", held[layer] / held["plain"])
        for layer in ("aol", "cpl")
    ]


def over_textbook(width: int) -> harness.Figure:
    """The AOL ConvNet over the textbook formula: one step each, of which the first, ours, pays for fresh memory."""
    subjects = {
        "aol": step_of(LipschitzConvNet(IMAGE, 10, width=width, layer="aol"), IMAGE, BATCH),
        "textbook": step_of(textbook(width), IMAGE, BATCH),
    }
    found = 1 / harness.ratios(subjects, 1, warmup=0)["textbook"]
    return harness.figure(f"AOL ConvNet step over the textbook formula, {width} channels", found, 1 / 3)


def mlp(width: int, batch: int, goal: float, rounds: int) -> harness.Figure:
    """The AOL MLP of depth 8 over the plain one."""
    shape = (width,)
    subjects = {layer: step_of(LipschitzMLP(shape, 10, layer=layer), shape, batch) for layer in ("plain", "aol")}
    found = harness.ratios(subjects, rounds)
    return harness.figure(f"AOL MLP 8 x {width} step over plain, batch {batch}", found["aol"], goal)


def inference(width: int, rounds: int) -> harness.Figure:
    """A folded AOL network over the plain twin, forward only."""
    x = torch.rand(BATCH, *IMAGE)
    networks = {layer: fold(LipschitzConvNet(IMAGE, 10, width=width, layer=layer), IMAGE) for layer in ("plain", "aol")}

    def forward(network: nn.Module) -> Callable[[], None]:
        def run() -> None:
            with torch.no_grad():
                network(x)

        return run

    found = harness.ratios({layer: forward(network) for layer, network in networks.items()}, rounds)
    return harness.figure(f"AOL ConvNet inference over plain, folded, {width} channels", found["aol"], 1.05)


def narrow(quick: bool) -> list[harness.Figure]:
    """16 channels, the MLP of width 1024, inference."""
    return [
        *convnets(16, 2 if quick else 7),
        mlp(1024, 256, 3.2, 15 if quick else 31),
        inference(16, 5 if quick else 61),
    ]


def wide(quick: bool) -> list[harness.Figure]:
    """64 channels. Left out by --quick, as all that follow."""
    return [] if quick else convnets(64, 3)


PARTS: dict[str, harness.Run] = {
    "narrow": narrow,
    "wide": wide,
    "memory": lambda quick: [] if quick else [*peak_memory(16), *peak_memory(64)],
    "textbook": lambda quick: [] if quick else [over_textbook(64)],
    "mlp": lambda quick: [] if quick else [mlp(3072, 2048, 2.2, 2)],
}


if __name__ == "__main__":
    torch.manual_seed(0)
    keep_freed()
    harness.main(PARTS)
