"""How a pass through the network is made: by the model as it is, in another memory layout, or in a frozen graph.

Which is fastest depends on the network, the processor and the thread count, so
it is measured once per architecture before a long search. A way that is not
clearly faster, or does not agree with the model, is not taken. Whatever an
attack finds is confirmed by the model as it is.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import torch
from torch import Tensor, nn
from torch.jit._trace import TracerWarning

from radii.models.classifier import predicted_class
from radii.models.memory_order import reorderable

Forward = Callable[[Tensor], Tensor]
Layout = Callable[[], AbstractContextManager[None]]  # the model's weights lie so while inside

AS_IT_IS, CHANNELS_LAST, GRAPH = "as it is", "channels_last", "frozen graph"
AGREEMENT = 1e-4  # of the largest logit; another order of summation rounds otherwise
GAIN = 0.9  # a way must cost at most this share of the model as it is
ROUNDS = 3
ROWS = 64
WORTH_MEASURING = 4000  # passes to come; fewer are made by the model as it is

_measured: dict[tuple[object, ...], str] = {}


def forward_way(model: nn.Module, x: Tensor, planned: int) -> Forward:
    """The model for ``planned`` passes without gradients: itself, ``channels_last`` or a frozen graph.

    Call inside :func:`radii.models.classifier.frozen`, with inputs ``x`` [n, …]
    like those to come. On one thread a LeNet costs about half in channels_last
    and 0.4 in a frozen graph. torch.compile and bfloat16 are not among the ways:
    they were slower on the processors at hand.
    """
    if not _eligible(model, x, planned):
        return model
    x, laid_out = x[:ROWS], partial(_inside, channels_last(model), model)
    key = _key("forward", model, x)
    known = _measured.get(key, GRAPH)
    if known != GRAPH:
        return model if known == AS_IT_IS else laid_out
    ways: dict[str, Forward] = {AS_IT_IS: model, CHANNELS_LAST: laid_out}
    if (graph := frozen_graph(model, x)) is not None:
        ways[GRAPH] = graph
    with torch.no_grad():
        ways = {name: way for name, way in ways.items() if way is model or _agrees(model, way, x)}
        return ways[_fastest(key, {name: partial(way, x) for name, way in ways.items()})]


def gradient_layout(model: nn.Module, x: Tensor, planned: int) -> Layout:
    """How the weights should lie for ``planned`` passes with a gradient for the input: as they are or channels_last.

    Call inside :func:`radii.models.classifier.frozen`. A LeNet costs 0.6 to 0.9 in channels_last.
    """
    if not _eligible(model, x, planned):
        return nullcontext
    x, layout = x[:ROWS], channels_last(model)
    key = _key("gradient", model, x)
    if key not in _measured:
        ways: dict[str, Layout] = {AS_IT_IS: nullcontext}
        if _agrees(model, partial(_inside, layout, model), x):
            ways[CHANNELS_LAST] = layout
        _fastest(key, {name: partial(_differentiated, model, x, how) for name, how in ways.items()})
    return layout if _measured[key] == CHANNELS_LAST else nullcontext


def channels_last(model: nn.Module) -> Layout:
    """A context in which the model's convolution weights lie in channels_last; afterwards they are as they were.

    The parameters keep their identity; what they point to is exchanged, so entering costs microseconds.
    ``Tensor.to`` also restrides weights of one input channel, where ``contiguous`` sees nothing to do.
    """
    weights = [
        (part.weight, part.weight.data, part.weight.data.to(memory_format=torch.channels_last))
        for part in reorderable(model)
    ]

    @contextmanager
    def layout() -> Iterator[None]:
        for weight, _, laid_out in weights:
            weight.data = laid_out
        try:
            yield
        finally:
            for weight, own, _ in weights:
                weight.data = own

    return layout


@torch.no_grad()
def frozen_graph(model: nn.Module, x: Tensor) -> Forward | None:
    """The model traced with its weights as constants; None where it branches on its data or cannot be traced."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", TracerWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            return torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, x[:2])))
    except Exception:  # whatever a foreign model does under tracing, it can still be asked directly
        return None


def _eligible(model: nn.Module, x: Tensor, planned: int) -> bool:
    """Images on the CPU in a convolutional network, and enough passes to come; not where equal bits are asked for."""
    return (
        planned >= WORTH_MEASURING
        and x.device.type == "cpu"
        and x.dim() == 4
        and not torch.are_deterministic_algorithms_enabled()
        and any(isinstance(part, nn.Conv2d) for part in model.modules())
    )


def _differentiated(model: nn.Module, x: Tensor, layout: Layout) -> None:
    """One pass as a search makes it: logits and the gradient of a loss at the input."""
    with torch.enable_grad(), layout():
        point = x.detach().requires_grad_()
        logits = model(point)
        if logits.requires_grad:
            torch.autograd.grad(logits.logsumexp(1).sum(), point)


def _inside(layout: Layout, model: nn.Module, points: Tensor) -> Tensor:
    with layout():
        return model(points)


@torch.no_grad()
def _agrees(model: nn.Module, way: Forward, x: Tensor) -> bool:
    """Whether both give the same classes and nearly the same logits, in batches of three sizes."""
    for size in (1, 3, len(x)):
        wanted = model(x[:size])
        try:
            came = way(x[:size])
        except RuntimeError:
            return False
        scale = float(wanted.abs().amax().clamp_min(1e-12))
        if came.shape != wanted.shape or not bool(((came - wanted).abs() <= AGREEMENT * scale).all()):
            return False
        if not torch.equal(predicted_class(came), predicted_class(wanted)):
            return False
    return True


def _key(kind: str, model: nn.Module, x: Tensor) -> tuple[object, ...]:
    """What the measurement depends on: the architecture, the inputs' shape and the threads."""
    shapes = tuple(tuple(parameter.shape) for parameter in model.parameters())
    return kind, str(model), shapes, tuple(x.shape), torch.get_num_threads()


def _fastest(key: tuple[object, ...], ways: Mapping[str, Callable[[], object]]) -> str:
    """The fastest way, the first unless another is clearly faster; measured once per key, so that results repeat."""
    if _measured.get(key) not in ways:
        seconds = dict.fromkeys(ways, float("inf"))
        for turn in range(ROUNDS + 1):
            for name, way in ways.items():
                start = time.process_time()
                way()
                if turn:  # the first turn warms up
                    seconds[name] = min(seconds[name], time.process_time() - start)
        best = min(ways, key=seconds.__getitem__)
        _measured[key] = best if seconds[best] <= GAIN * seconds[AS_IT_IS] else AS_IT_IS
    return _measured[key]
