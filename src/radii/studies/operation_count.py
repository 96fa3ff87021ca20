"""What a study costs on one GPU: multiply-adds are counted, a throughput is assumed and stated.

One forward pass of the network is counted on a zero input. A pass with its
gradient counts three; a training step is as many as its objective makes,
an attack as many as its suite may make at most. The time is the larger of two: operations over the
throughput, kernels times the time to start one. Small networks are limited by the second.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import ceil

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from radii.data import sources
from radii.data.dataset import Data
from radii.errors import InputError
from radii.runs.inputs import DataSpec
from radii.runs.step import Step
from radii.runs.steps import Evaluate, Train

THROUGHPUT = 5e12  # multiply-adds a second that a data-center GPU sustains on such networks, in float32
KERNEL = 1e-5  # seconds to start a kernel
CORE = 1e10  # multiply-adds a second of one CPU core, where no batch could be timed
GRADIENT = 3  # a pass with its gradient, in forward passes
SUITE_PASSES = {"pgd": 41, "fast": 102, "sampled": 1100, "standard": 3600, "exhaustive": 20_000, "black-box": 1700}
SAMPLES = {"estimate": 1000, "smoothing": 1000}  # noisy copies of a point; the sequential test takes about as many
OUTER_PASSES = {"trades": 2, "robust-self-training": 2, "interval-bounds": 2}  # beside the steps of the inner search
ATTACK_BATCH = 256


@dataclass(frozen=True)
class Operations:
    """What a step computes.

    Args:
        multiply_adds: their number.
        kernels: how often an operation of the network is started.
    """

    multiply_adds: float
    kernels: float

    @property
    def gpu_seconds(self) -> float:
        """The time on one GPU at :data:`THROUGHPUT` and :data:`KERNEL`."""
        return max(self.multiply_adds / THROUGHPUT, self.kernels * KERNEL)

    @property
    def core_seconds(self) -> float:
        """The time on one CPU core at :data:`CORE`."""
        return self.multiply_adds / CORE


def operations(step: Step) -> Operations | None:
    """What a training or an evaluation of a training computes.

    Args:
        step: the step.

    Returns:
        None for other steps, for networks of the user's own code, and where the data is not on this machine.
    """
    try:
        if isinstance(step, Train):
            return _training(step)
        model, points = getattr(step, "model", None), getattr(step, "points", None)
        if isinstance(model, Train) and points is not None:
            passes = SAMPLES.get(getattr(step, "method", ""), 10 * GRADIENT) / GRADIENT
            if isinstance(step, Evaluate):
                passes = SUITE_PASSES.get(step.suite, SUITE_PASSES["standard"])
            split = getattr(step, "split", "test")
            data = _base(model.data.base)
            count = min(points, len(data.train if split == "train" else data.test))
            return _passes(model, count * passes, ceil(count / ATTACK_BATCH) * passes, computed=1)
    except InputError:
        pass
    return None


def _training(step: Train) -> Operations | None:
    recipe = step.recipe
    batches = recipe.steps or recipe.epochs * ceil(_training_points(step.data) / recipe.batch_size)
    inner = step.method.arguments.get("steps", 0)
    passes = OUTER_PASSES.get(step.method.name, 1) + (inner if isinstance(inner, int) else 0)
    return _passes(step, batches * recipe.batch_size * passes, batches * passes, computed=batches)


@cache
def _base(name: str) -> Data:
    """A dataset without its variants, which have the same shape and are not computed for an estimate."""
    return sources.load(name)


def _training_points(data: DataSpec) -> int:
    """How many there are, subsets considered."""
    subsets = [int(part.removeprefix("subset:")) for part in data.source.split("+") if part.startswith("subset:")]
    return min([len(_base(data.base).train), *subsets])


def _passes(training: Train, images: float, launches: float, computed: int) -> Operations | None:
    """``images`` through the network and back, in ``launches`` batches; weights are ``computed`` so often."""
    if ":" in training.model.name:  # a user's code is not run while a study is planned
        return None
    each, once, layers = _network(training.data.base, _Network.of(training))
    return Operations(GRADIENT * (each * images + once * computed), GRADIENT * layers * launches)


@dataclass(frozen=True)
class _Network:
    """What a network is built from, as a key of the cache."""

    training: Train
    key: str

    @classmethod
    def of(cls, training: Train) -> _Network:
        return cls(training, str(training.model.canonical()))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Network) and self.key == other.key


@cache
def _network(base: str, network: _Network) -> tuple[float, float, int]:
    """Multiply-adds of each image, those of a batch whatever its size, and layers with weights or activations.

    1-Lipschitz layers compute their weights once a batch, which may be a thousand times the work of one image; in
    train mode they do it anew, and batch norms want two images.
    """
    from radii.models.io.bundle import initialize

    loaded = _base(base)
    model = initialize(network.training.architecture(loaded), 0).train()
    two, four = (count_multiply_adds(model, loaded.shape, images) for images in (2, 4))
    return (four - two) / 2, max(0.0, 2 * two - four), sum(not list(part.children()) for part in model.modules())


def count_multiply_adds(model: nn.Module, shape: tuple[int, ...], images: int = 1) -> float:
    """Multiply-adds of matrix products and convolutions in one forward pass of a batch.

    Args:
        model: the network.
        shape: of one input.
        images: inputs in the batch.

    Returns:
        Their number.
    """
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:  # without gradients weights may be kept
        model(torch.zeros(images, *shape))
    return counter.get_total_flops() / 2


def gpu_seconds(steps: Iterable[Step]) -> float:
    """The time of steps on one GPU, one after another; steps without a count take none.

    Args:
        steps: the steps.

    Returns:
        Seconds.
    """
    return sum(count.gpu_seconds for step in steps if (count := operations(step)) is not None)
