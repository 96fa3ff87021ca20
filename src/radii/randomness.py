"""Named random streams: every draw is a function of a seed and a name, so nothing depends on order.

``stream(seed, "shuffle", epoch)`` is the same generator whoever asks, in
whatever order, on whatever worker. There is no global state to save, so a
resumed run continues exactly where it stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def stream_seed(seed: int, *name: str | int) -> int:
    """A 63-bit seed from the first bytes of sha256(seed, name)."""
    text = "\x1f".join(str(part) for part in (seed, *name))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def stream(seed: int, *name: str | int) -> torch.Generator:
    """The torch generator (on the CPU) of ``seed`` called ``name``."""
    import torch

    return torch.Generator().manual_seed(stream_seed(seed, *name))


def numpy_stream(seed: int, *name: str | int) -> np.random.Generator:
    """The numpy generator of ``seed`` called ``name``."""
    return np.random.default_rng(stream_seed(seed, *name))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run with ``count`` torch threads.

    The same training with one and with two threads gives different bits
    (sums are split differently), so whatever promises equal bits pins them.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def fixed_arithmetic(count: int = 1) -> Iterator[None]:
    """Run with ``count`` torch threads and torch's own arithmetic, whatever this process has set before.

    The same step then gives the same bits on one machine, in any process and under any executor. Set are the
    number of threads, the precision of float32 products, the choice of algorithms, oneDNN, the default type,
    autocast and the recording of gradients; all of them are set back afterwards.
    """
    import torch

    precision, kind, onednn = torch.get_float32_matmul_precision(), torch.get_default_dtype(), torch.backends.mkldnn
    enabled, refusing = onednn.enabled, torch.get_deterministic_debug_mode()
    torch.set_float32_matmul_precision("highest")
    torch.set_default_dtype(torch.float32)
    torch.set_flush_denormal(False)
    torch.set_deterministic_debug_mode(0)  # use_deterministic_algorithms imports inductor: three seconds
    onednn.enabled = True  # type: ignore[assignment]
    try:
        with threads(count), torch.enable_grad(), torch.autocast("cpu", enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.set_default_dtype(kind)
        torch.set_deterministic_debug_mode(refusing)
        onednn.enabled = enabled
